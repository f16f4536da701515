#include "trainer/ddp/snapshot/archive.h"

#include "tests/support/test.h"
#include "trainer/ddp/snapshot/damaged.h"

namespace {

template <class T>
std::string little(T number) {
  std::string bytes(sizeof number, '\0');
  for (std::size_t i = 0; i < sizeof number; ++i) bytes[i] = static_cast<char>(number >> 8 * i);
  return bytes;
}
std::string two(std::uint64_t number) { return little(static_cast<std::uint16_t>(number)); }
std::string four(std::uint64_t number) { return little(static_cast<std::uint32_t>(number)); }

struct Part {
  std::string name, content;
  std::uint16_t method = 0;  // stored
};

// As any zip program writes it, without the numbers of 64 bits.
class Zip {
 public:
  std::string bytes, directory;
  std::uint64_t entries = 0;

  void add(const Part& part) {
    const std::size_t at = bytes.size();
    bytes += "PK\3\4" + two(20) + two(0) + two(part.method) + four(0) + four(0) + four(part.content.size()) +
             four(part.content.size()) + two(part.name.size()) + two(0) + part.name + part.content;
    list(part, at);
  }
  void list(const Part& part, std::size_t at) {
    directory += "PK\1\2" + two(20) + two(20) + two(0) + two(part.method) + four(0) + four(0) +
                 four(part.content.size()) + four(part.content.size()) + two(part.name.size()) + two(0) + two(0) +
                 two(0) + two(0) + four(0) + four(at) + part.name;
    ++entries;
  }
  std::string finished() const {
    return bytes + directory + "PK\5\6" + two(0) + two(0) + two(entries) + two(entries) + four(directory.size()) +
           four(bytes.size()) + two(0);
  }
};

std::string zip_of(const std::vector<Part>& parts) {
  Zip zip;
  for (const Part& part : parts) zip.add(part);
  return zip.finished();
}

std::string error_text(const std::string& bytes) {
  return test::error_text<Malformed>([&] { const Archive archive(bytes); });
}

}  // namespace

TEST_CASE("an archive's records are where its directory says", "[archive]") {
  const std::string bytes = zip_of({{"a/data.pkl", "pickle"}, {"a/data/0", ""}, {"a/data/1", "content"}});
  const Archive archive(bytes);
  REQUIRE(archive.records().size() == 3);
  CHECK(archive.records()[1].name == "data/0");
  CHECK(archive.find("data.pkl")->bytes == "pickle");
  CHECK(archive.find("data/0")->bytes.empty());
  CHECK(archive.find("data/1")->bytes == "content");
  CHECK(archive.find("data/2") == nullptr);
}

TEST_CASE("an archive that torch.save wrote is read, with its numbers of 64 bits", "[archive]") {
  const std::string bytes = test::read_file(test::source_folder() + "/tests/trainer/testdata/small.pt");
  const Archive archive(bytes);
  CHECK(archive.find("byteorder")->bytes == "little");
  CHECK(archive.find("data/0")->bytes.size() == 12);
  CHECK(archive.find("version")->bytes == "3\n");
}

TEST_CASE("records that share their bytes are refused: a small file has no large content", "[archive]") {
  const Part whole{"a/data/0", std::string(4000, 'x')};
  Zip zip;
  zip.add(whole);
  for (int i = 1; i <= 100; ++i) zip.list({"a/data/" + std::to_string(i), whole.content}, 0);
  CHECK_THAT(error_text(zip.finished()), Contains("parts of it overlap"));

  Zip inside;  // one record has another in its content
  Zip inner;
  inner.add({"a/in", "hello"});
  inside.add({"a/out", inner.bytes});
  inside.list({"a/in", "hello"}, inside.bytes.size() - inner.bytes.size());
  CHECK_THAT(error_text(inside.finished()), Contains("parts of it overlap"));

  Zip over;  // the last one reaches into the directory
  over.add({"a/x", "hello"});
  over.directory.clear();
  over.entries = 0;
  over.list({"a/x", "hello, directory"}, 0);
  CHECK_THAT(error_text(over.finished()), Contains("parts of it overlap"));
}

TEST_CASE("what is no archive of torch.save is refused with the reason", "[archive]") {
  CHECK_THAT(error_text(""), Contains("it is damaged, or not a file of torch.save (it has no directory)"));
  CHECK_THAT(error_text("hello, this is no archive"), Contains("it has no directory"));
  CHECK_THAT(error_text(zip_of({})), Contains("it is empty"));
  CHECK_THAT(error_text(zip_of({{"data.pkl", ""}})), Contains("its parts are not in a folder"));
  CHECK_THAT(error_text(zip_of({{"a/x", ""}, {"b/x", ""}})), Contains("its parts are in several folders"));
  CHECK_THAT(error_text(zip_of({{"a/x", "1"}, {"a/x", "2"}})), Contains("it has two parts with the same name"));
  CHECK_THAT(error_text(zip_of({{"a/x", "abc", 8}})), Contains("is compressed or encrypted"));
  Zip many;
  many.entries = 60000;
  CHECK_THAT(error_text(many.finished()), Contains("too small for its entries"));
}

TEST_CASE("an archive cut short or altered anywhere is refused, or its records still lie in it", "[archive]") {
  const std::string bytes = test::read_file(test::source_folder() + "/tests/trainer/testdata/small.pt");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    INFO(size << " bytes");
    REQUIRE(error_text(bytes.substr(0, size)) != "");
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string altered = bytes;
    for (int flips = 0; flips < 3; ++flips) altered[random() % altered.size()] ^= static_cast<char>(1 << random() % 8);
    std::size_t total = 0;
    try {
      const Archive archive(altered);
      for (const auto& record : archive.records()) total += record.bytes.size();
    } catch (const Malformed&) {
    }
    REQUIRE(total < altered.size());
  }
}
