#include "trainer/ddp/snapshot/pickle.h"

#include "tests/support/soak.h"
#include "tests/support/test.h"
#include "trainer/ddp/snapshot/archive.h"
#include "trainer/ddp/snapshot/damaged.h"

using namespace std::string_literals;

namespace {

const std::string kProtocol = "\x80\x02";

std::string error_text(const std::string& pickle) {
  return test::error_text<Malformed>([&] { read_pickle(pickle); });
}

// Of this behind the protocol.
void check_refused(const std::string& pickle, const std::string& why) {
  CHECK_THAT(error_text(kProtocol + pickle), Contains(why));
}

std::string times(int count, const std::string& text) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::string put(char index) { return std::string("q") + index; }
std::string get(char index) { return std::string("h") + index; }
std::string four(std::uint32_t number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }
std::string text(const std::string& content) {
  return "X" + four(static_cast<std::uint32_t>(content.size())) + content;
}

// A tensor of floats: whole numbers below 256 each.
std::string tensor(int count, const std::string& offset, const std::string& size, const std::string& stride) {
  const std::string storage = "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K" +
                              std::string(1, static_cast<char>(count)) + "tQ";
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + offset + size + stride + "\x89" + "}tR";
}

}  // namespace

TEST_CASE("plain data comes back as it was pickled, and what is used twice is there once", "[pickle]") {
  const Pickle pickle =
      read_pickle(kProtocol + "}(" + text("a") + put(1) + "](K\x05" + get(1) + "N\x88" + "\x8a\x01\xff" + "eu.");
  const auto* dict = std::get_if<PickleDict>(&pickle[pickle.root]);
  REQUIRE(dict);
  REQUIRE(dict->items.size() == 1);
  const auto& [key, value] = dict->items[0];
  CHECK(std::get<std::string>(pickle[key]) == "a");
  const auto& items = std::get<PickleList>(pickle[value]).items;
  REQUIRE(items.size() == 5);
  CHECK(std::get<std::int64_t>(pickle[items[0]]) == 5);
  CHECK(items[1] == key);
  CHECK(std::holds_alternative<PickleNone>(pickle[items[2]]));
  CHECK(std::get<bool>(pickle[items[3]]));
  CHECK(std::get<std::int64_t>(pickle[items[4]]) == -1);
}

TEST_CASE("the pickle of a file of torch.save has its tensors", "[pickle]") {
  const std::string file = test::read_file(test::source_folder() + "/tests/trainer/testdata/small.pt");
  const Pickle pickle = read_pickle(Archive(file).find("data.pkl")->bytes);
  REQUIRE(pickle.tensors.size() == 1);
  CHECK(pickle.tensors[0].size == std::vector<std::int64_t>{3});
  REQUIRE(pickle.storages.size() == 1);
  CHECK(pickle.storages[0].count == 3);
  CHECK(pickle.storages[0].type == Element::f32);
}

TEST_CASE("a few bytes that stand for more values than memory holds are refused at once", "[pickle]") {
  // Each tuple holds the one before it twice: 2^200 values as a tree.
  const std::string doubled = kProtocol + "K\x01" + times(200, put(0) + get(0) + "\x86") + ".";
  CHECK(doubled.size() < 1100);
  CHECK_THAT(error_text(doubled), Contains("nested more than 128 deep") || Contains("too many or nested too deeply"));
  const std::string not_deep = kProtocol + "K\x01" + times(100, put(0) + get(0) + "\x86") + ".";
  CHECK_THAT(error_text(not_deep), Contains("its values, counted at each use, are too many or nested too deeply"));
  // The same with dicts, lists and a long text.
  const std::string lists = kProtocol + "K\x01" + times(30, put(0) + "](" + get(0) + get(0) + get(0) + "e") + ".";
  CHECK_THAT(error_text(lists), Contains("too many or nested too deeply"));
  const std::string dicts = kProtocol + "N" + times(30, put(0) + "}(K\x01" + get(0) + "K\x02" + get(0) + "u") + ".";
  CHECK_THAT(error_text(dicts), Contains("too many or nested too deeply"));
  const std::string texts = kProtocol + text(std::string(1 << 20, 'x')) + put(0) + "](" + times(300, get(0)) + "e.";
  CHECK_THAT(error_text(texts), Contains("too many or nested too deeply"));
}

TEST_CASE("values nested deeper than any stack are refused", "[pickle]") {
  check_refused(")" + times(100000, "\x85") + ".", "nested more than 128 deep");
  check_refused(times(100000, "](") + times(100000, "e") + ".", "nested more than 128 deep");
  CHECK(error_text(kProtocol + ")" + times(127, "\x85") + ".") == "");
  check_refused(")" + times(128, "\x85") + ".", "nested more than 128 deep");
  // Deep only by way of a part that was met elsewhere first.
  const std::string half = ")" + times(100, "\x85") + put(0);
  check_refused("](" + half + get(0) + times(100, "\x85") + "e.", "too deep");
}

TEST_CASE("a value that holds itself is refused", "[pickle]") {
  check_refused("]" + put(0) + get(0) + "a.", "a value contains itself");
  check_refused("}" + put(0) + "K\x01" + get(0) + "\x85s.", "a value contains itself");
}

TEST_CASE("a pickle of too many values is refused", "[pickle]") {
  const std::string names = kProtocol + "(" + std::string(kPickleNodesMax + 1, 'N') + "t.";
  CHECK_THAT(error_text(names), Contains("it has more than 4194304 values"));
}

TEST_CASE("a tensor lies within its storage", "[pickle]") {
  CHECK(error_text(kProtocol + tensor(6, "K\x00"s, "K\x02K\x03\x86", "K\x03K\x01\x86") + ".") == "");
  check_refused(tensor(6, "K\x01", "K\x02K\x03\x86", "K\x03K\x01\x86") + ".", "a tensor reaches outside its storage");
  check_refused(tensor(6, "J\xff\xff\xff\xff", "K\x02\x85", "K\x01\x85") + ".", "a tensor's shape makes no sense");
  check_refused(tensor(6, "K\x00"s, "K\x02\x85", "K\x01K\x01\x86") + ".", "a tensor's shape makes no sense");
  // All elements in one place: what would read it as a tensor of its own needs its whole size.
  CHECK(error_text(kProtocol + tensor(1, "K\x00"s, "M\xff\xff\x85", "K\x00\x85"s) + ".") == "");
  check_refused(tensor(1, "K\x00"s, "J\xff\xff\xff\x7f\x85", "K\x00\x85"s) + ".",
                "a tensor is larger than its storage");
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  check_refused(tensor(1, "K\x00"s, "K\x00"s + huge + huge + "\x87", "K\x01K\x01K\x01\x87") + ".",
                "a tensor is larger than its storage");
  check_refused(tensor(1, "K\x00"s, "(" + times(65, "K\x01") + "t", "(" + times(65, "K\x01") + "t") + ".",
                "more than 64 dimensions");
}

TEST_CASE("what is not data is refused by name", "[pickle]") {
  check_refused("cposix\nsystem\n.", "it calls posix.system, which is not data");
  check_refused("cpo\x1bsix\nsystem\n.", "it calls po\\x1bsix.system");
  check_refused("ctorch\nSize\n.", "a name or a storage is in the place of a value");
  check_refused("ctorch\nFloatStorage\n)R.", "it calls a type of storage");
  check_refused("o.", "the pickle operation 111");
  check_refused("ctorch\nSize\n)R.", "with too few arguments");
}

TEST_CASE("a pickle cut short or altered anywhere is refused, or stays within its limits", "[pickle]") {
  const std::string file = test::read_file(test::source_folder() + "/tests/trainer/testdata/small.pt");
  const std::string pickle(Archive(file).find("data.pkl")->bytes);
  for (std::size_t size = 0; size < pickle.rfind('.'); ++size) {
    INFO(size << " bytes");
    REQUIRE(error_text(pickle.substr(0, size)) != "");
  }
  std::mt19937 random(7);
  for (int i = 0; i < test::often(50'000); ++i) {
    std::string altered = pickle;
    for (int flips = 0; flips < 2; ++flips) altered[random() % altered.size()] ^= static_cast<char>(1 << random() % 8);
    error_text(altered);
  }
}
