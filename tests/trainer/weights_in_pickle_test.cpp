#include "trainer/ddp/snapshot/weights_in_pickle.h"

#include "tests/support/soak.h"
#include "tests/support/test.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/legacy_torch_file.h"

using namespace std::string_literals;

namespace {

// Parts of a pickle, as Python writes them.
std::string word_of(const std::string& content) {
  const auto size = static_cast<std::uint32_t>(content.size());
  return "X" + std::string(reinterpret_cast<const char*>(&size), sizeof size) + content;
}
std::string name_of(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string dict_of(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string result = "}(";
  for (const auto& [key, value] : items) result += word_of(key) + value;
  return result + "u";
}
// One float, of the storage with this key.
std::string tensor_of(const std::string& key, const std::string& function = "_rebuild_tensor_v2") {
  const std::string storage =
      "(" + word_of("storage") + name_of("torch", "FloatStorage") + word_of(key) + word_of("cpu") + "K\x01tQ";
  return name_of("torch._utils", function) + "(" + storage + "K\x00K\x01\x85K\x01\x85\x89}tR"s;
}
std::string object_of(const std::string& type, const std::string& state) {
  return name_of("mine", type) + ")\x81" + state + "b";
}
std::string module_of(const std::string& parameters, const std::string& buffers, const std::string& modules,
                      const std::string& not_saved = "\x8f") {
  return object_of("Net", dict_of({{"training", "\x88"},
                                   {"_parameters", parameters},
                                   {"_buffers", buffers},
                                   {"_non_persistent_buffers_set", not_saved},
                                   {"_modules", modules}}));
}

Pickle objects(const std::string& value) { return read_object_pickle("\x80\x04" + value + "."); }

// "name=storage", in order.
std::vector<std::string> found_in(const Pickle& pickle) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : find_weights(pickle).tensors)
    result.push_back(name + "=" + pickle.storages[pickle.tensors[tensor].storage].key);
  return result;
}
std::vector<std::string> found_in(const std::string& value) { return found_in(objects(value)); }

using Found = std::vector<std::string>;

}  // namespace

TEST_CASE("weights are found in a bare state_dict, and under the usual names of a checkpoint", "[pickle]") {
  const std::string state = dict_of({{"a.w", tensor_of("0")}, {"b", tensor_of("1", "_rebuild_tensor")}});
  CHECK(found_in(state) == Found{"a.w=0", "b=1"});
  for (const char* key : {"state_dict", "model", "module", "net", "weights", "model_state_dict", "params_ema"})
    CHECK(found_in(dict_of({{"best", tensor_of("9")}, {key, state}, {"epoch", "K\x03"}})) == Found{"a.w=0", "b=1"});
  CHECK(found_in(dict_of({{"state_dict", dict_of({{"model", state}})}})) == Found{"a.w=0", "b=1"});
  CHECK(found_in(dict_of({{"mine", state}, {"optimizer", dict_of({{"lr", "K\x01"}})}})) == Found{"a.w=0", "b=1"});
  // A model's own child may have a usual name.
  CHECK(found_in(dict_of({{"model", tensor_of("0")}, {"b", tensor_of("1")}})) == Found{"model=0", "b=1"});
}

TEST_CASE("of averaged weights and others in a checkpoint the others are taken", "[pickle]") {
  CHECK(found_in(dict_of({{"state_dict_ema", dict_of({{"a", tensor_of("1")}})},
                          {"state_dict", dict_of({{"a", tensor_of("0")}})}})) == Found{"a=0"});
}

TEST_CASE("a checkpoint without a usual name says which entries have tensors", "[pickle]") {
  const std::string one = dict_of({{"a", tensor_of("0")}});
  const FoundWeights two = find_weights(objects(dict_of({{"actor", one}, {"critic", one}, {"epoch", "K\x01"}})));
  CHECK(two.tensors.empty());
  CHECK(two.candidates == Found{"actor", "critic"});
  const FoundWeights none = find_weights(objects(dict_of({{"epoch", "K\x01"}, {"lr", "N"}})));
  CHECK((none.tensors.empty() && none.candidates.empty()));
  CHECK(none.entries == Found{"epoch", "lr"});
}

TEST_CASE("a whole module has the weights of its state_dict", "[pickle]") {
  const std::string child = module_of(dict_of({{"weight", tensor_of("0")}, {"bias", "N"}}), "}", "}"),
                    set = "\x8f(" + word_of("scratch") + "\x90";
  const std::string net =
      module_of(dict_of({{"scale", tensor_of("1")}}), dict_of({{"mean", tensor_of("2")}, {"scratch", tensor_of("3")}}),
                dict_of({{"conv", child}, {"none", "N"}}), set);
  const Found expected{"scale=1", "mean=2", "conv.weight=0"};
  CHECK(found_in(net) == expected);
  CHECK(found_in(dict_of({{"epoch", "K\x01"}, {"model", net}, {"ema", net}})) == expected);
  const std::string list_set = name_of("builtins", "set") + "](" + word_of("scratch") + "e\x85R";
  CHECK(found_in(module_of("}", dict_of({{"scratch", tensor_of("3")}, {"mean", tensor_of("2")}}), "}", list_set)) ==
        Found{"mean=2"});
}

TEST_CASE("a TorchScript module has its attributes' weights", "[pickle]") {
  const auto script = [](const std::string& state) { return name_of("__torch__.Net", "X") + ")\x81" + state + "b"; };
  CHECK(found_in(script(dict_of(
            {{"w", tensor_of("0")}, {"training", "\x89"}, {"conv", script(dict_of({{"bias", tensor_of("1")}}))}}))) ==
        Found{"w=0", "conv.bias=1"});
}

TEST_CASE("objects of any type are read, and none of them is made", "[pickle]") {
  const Pickle pickle = objects(dict_of({{"evil", name_of("posix", "system") + word_of("true") + "\x85R"},
                                         {"args", object_of("Args", dict_of({{"lr", "K\x01"}}))},
                                         {"a", tensor_of("0")}}));
  CHECK(found_in(pickle) == Found{"a=0"});
  const auto& dict = std::get<PickleDict>(pickle[pickle.root]);
  CHECK(std::get<PickleObject>(pickle[dict.items[0].second]).type == "posix.system");
  CHECK(std::get<PickleObject>(pickle[dict.items[1].second]).type == "mine.Args");
  CHECK(test::error_text<Malformed>([] { read_pickle("\x80\x02" + name_of("posix", "system") + "."); }) != "");
}

TEST_CASE("modules that hold each other end the search, not the program", "[pickle]") {
  const std::string itself =
      name_of("mine", "Net") + ")\x81q\x01" + dict_of({{"_modules", dict_of({{"a", "h\x01"}, {"b", "h\x01"}})}}) + "b";
  CHECK_THAT(test::error_text<Malformed>([&] { found_in(itself); }), Contains("too many or nested too deeply"));
  CHECK(found_in("}q\x01(" + word_of("model") + "h\x01" + word_of("net") + "h\x01u").empty());
}

TEST_CASE("a file of PyTorch before 1.6 that is cut short or altered is refused, or stays within its limits",
          "[pickle]") {
  const std::string number = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                    key = "](" + word_of("7") + "e", size = "\x01\0\0\0\0\0\0\0"s;
  const std::string file = number + "\x80\x02M\xe9\x03." + "\x80\x02" + dict_of({{"little_endian", "\x88"}}) + "." +
                           "\x80\x02" + dict_of({{"a", tensor_of("7")}}) + "." + "\x80\x02" + key + "." + size + "1234";
  REQUIRE(looks_like_legacy_torch_file(file));
  const LegacyTorchFile good = read_legacy_torch_file(file);
  CHECK(found_in(good.pickle) == Found{"a=7"});
  CHECK(good.storages.at("7") == "1234");
  const auto refusal = [](const std::string& bytes) {
    return test::error_text<Malformed>([&] { read_legacy_torch_file(bytes); });
  };
  for (std::size_t cut = number.size(); cut < file.size(); ++cut) REQUIRE(refusal(file.substr(0, cut)) != "");
  std::mt19937 random(7);
  for (int i = 0; i < test::often(20'000); ++i) {
    std::string altered = file;
    for (int flips = 0; flips < 2; ++flips) altered[random() % altered.size()] ^= static_cast<char>(1 << random() % 8);
    refusal(altered);
  }
}
