#include "ddprun/weights.h"

#include <torch/torch.h>

#include <functional>

#include "tests/support/test.h"

namespace {

// weights_peer.py has the same.
struct Net : torch::nn::Module {
  Net() {
    register_parameter("tied", first->weight);
    register_buffer("brief", torch::randn(3).to(torch::kBFloat16));
    register_buffer("count", torch::arange(3));
    register_buffer("mask", torch::tensor({true, false}));
    register_buffer("scale", torch::tensor(0.1, torch::kDouble));
    register_buffer("part", torch::randn(100).slice(0, 10, 13));
    register_buffer("empty", torch::zeros({0, 2}));
  }
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).bias(false)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(4));
  torch::nn::Linear first{4, 3}, last{3, 5};
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(first, torch::nn::ReLU(), last));
};

std::shared_ptr<Net> net_of_seed(std::uint64_t seed) {
  torch::manual_seed(seed);
  return std::make_shared<Net>();
}

// Of its tensors, by name: those that differ.
std::string differences(const torch::nn::Module& one, const torch::nn::Module& other) {
  std::string found;
  const auto compare = [&](const auto& a, const auto& b) {
    for (const auto& item : a)
      if (!torch::equal(item.value(), b[item.key()]) || item.value().dtype() != b[item.key()].dtype())
        found += item.key() + " ";
  };
  compare(one.named_parameters(), other.named_parameters());
  compare(one.named_buffers(), other.named_buffers());
  return found;
}

void run_peer(const char* what, const TempFolder& folder) {
  REQUIRE(test::run({venv_python(), source_folder() + "/tests/trainer/weights_peer.py", what, folder.path()},
                    std::chrono::seconds(120)) == exited(0));
}

// One tensor of each type that torch.save's old storages do not have, and of some that they do.
struct ManyTypes : torch::nn::Module {
  ManyTypes() {
    const std::vector<std::pair<const char*, at::ScalarType>> types{{"int8", at::kChar},
                                                                    {"uint64", at::kUInt64},
                                                                    {"uint32", at::kUInt32},
                                                                    {"uint16", at::kUInt16},
                                                                    {"uint8", at::kByte},
                                                                    {"int16", at::kShort},
                                                                    {"float16", at::kHalf},
                                                                    {"float8_e4m3fn", at::kFloat8_e4m3fn},
                                                                    {"float8_e5m2", at::kFloat8_e5m2},
                                                                    {"complex64", at::kComplexFloat}};
    for (const auto& [name, type] : types) register_buffer(name, torch::tensor({1.F, 2.F}).to(type));
  }
};

std::string error_text(torch::nn::Module& module, const std::string& path, const LoadOptions& options = {}) {
  return test::error_text([&] { load_weights(module, path, options); });
}

// Files that are not read are answered with a command that makes them readable.
void check_commands(const TempFolder& folder, const std::function<void(const std::string&)>& check) {
  const std::string before = "onvert it with: ";
  std::string commands;
  const std::vector<std::string> names{"dcp", "two.pt", "plain.pkl", "tar.pt", "compressed.pt"};
  for (const std::string& name : names) {
    const std::string text = error_text(*net_of_seed(6), folder / name);
    INFO(text);
    REQUIRE(text.find(before) != text.npos);
    commands += text.substr(text.find(before) + before.size()) + "\n";
  }
  folder.write("commands", commands);
  run_peer("convert", folder);
  for (const std::string& name : names) check(name + ".pt");
}

}  // namespace

TEST_CASE("PyTorch and safetensors read the weights that are published", "[weights]") {
  const TempFolder folder;
  const auto net = net_of_seed(5);
  publish(*net, folder / "ours.pt");
  publish(*net, folder / "ours.safetensors");
  publish(ManyTypes(), folder / "types.safetensors");
  run_peer("read", folder);
  const fs::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 3);
}

TEST_CASE("weights that Python wrote are loaded in each of its forms", "[weights]") {
  const TempFolder folder;
  run_peer("write", folder);
  const auto expected = net_of_seed(5);
  const auto check = [&](const std::string& name, const std::string& prefix = "") {
    INFO(name);
    const auto net = net_of_seed(6);
    const auto report = load_weights(*net, folder / name);
    CHECK(differences(*net, *expected) == "");
    CHECK(report.loaded.size() == 17);
    CHECK(report.prefix == prefix);
  };
  for (const char* name : {"bare.pt", "recipe.pt", "theirs.safetensors", "one_name.safetensors", "legacy.pt",
                           "whole.pt", "whole_legacy.pt", "deepspeed.pt", "modules.pt", "script.pt", "model/",
                           "pytorch_model", "model/model.safetensors.index.json"})
    check(name);
  for (const char* name : {"tutorial.pt", "imagenet.pt", "ddp.safetensors"}) check(name, "module.");
  check("compiled.pt", "_orig_mod.module.");
  check("last.ckpt", "model.");
  check_commands(folder, check);
  CHECK_THAT(error_text(*net_of_seed(6), folder / "model/model-00001-of-00002.safetensors"),
             Contains("It is one file of several: name " + (folder / "model/model.safetensors.index.json").string()));
  const auto wide = net_of_seed(6);
  load_weights(*wide, folder / "wide.safetensors");
  CHECK(differences(*wide, *expected) == "");  // as the types are the module's
  CHECK_THAT(error_text(*wide, folder / "nothing.pt"), Contains("it contains no named tensors"));
}

TEST_CASE("published weights come back, whatever the type and the format", "[weights]") {
  const TempFolder folder;
  const auto net = net_of_seed(5);
  for (const auto& [name, format] : {std::pair{"a", WeightsFormat::torch}, {"b", WeightsFormat::safetensors}}) {
    publish(*net, folder / name, format);
    const auto other = net_of_seed(6);
    CHECK(differences(*other, *net) != "");
    load_weights(*other, folder / name);
    CHECK(differences(*other, *net) == "");
    CHECK(other->conv->weight.requires_grad());
  }
  ManyTypes types, changed;
  for (const auto& buffer : changed.named_buffers()) buffer.value().zero_();
  publish(types, folder / "types.safetensors");
  load_weights(changed, folder / "types.safetensors");
  CHECK(differences(types, changed) == "");
  CHECK_THROWS_WITH(publish(types, folder / "types.pt"), Contains("which the torch format cannot hold"));
  CHECK_FALSE(fs::exists(folder / "types.pt"));
}

TEST_CASE("weights of another task go into all but the last layer", "[weights]") {
  const TempFolder folder;
  struct Backbone : torch::nn::Module {
    Backbone() { register_module("backbone", net); }
    std::shared_ptr<Net> net = net_of_seed(5);
  } const trained;
  publish(trained, folder / "trained.safetensors");
  const auto net = net_of_seed(6);
  const auto last = net->last->weight.clone();
  const LoadOptions options{.rename = {{"backbone.", ""}}, .skip = {"body.2."}};
  const auto report = load_weights(*net, folder / "trained.safetensors", options);
  CHECK(report.skipped == std::vector<std::string>{"body.2.weight", "body.2.bias"});
  CHECK(report.text() == "loaded 15 of 17 tensors (2 skipped)");
  CHECK(torch::equal(last, net->last->weight));
  CHECK(differences(*net, *trained.net) == "body.2.weight body.2.bias ");
}

TEST_CASE("a model that does not fit stays as it was", "[weights]") {
  const TempFolder folder;
  publish(*net_of_seed(5), folder / "weights.pt");
  struct Other : Net {
    Other() { body->push_back(register_module("more", torch::nn::Linear(2, 2))); }
  };
  torch::manual_seed(6);
  Other other;
  const auto before = other.conv->weight.clone();
  CHECK_THAT(error_text(other, folder / "weights.pt"), Contains("cannot load the weights ") && Contains("it lacks ") &&
                                                           Contains("more.weight") &&
                                                           Contains("set LoadOptions::partial"));
  CHECK(torch::equal(before, other.conv->weight));
  const auto report = load_weights(other, folder / "weights.pt", {.partial = true});
  CHECK(report.missing.size() >= 2);
  CHECK_FALSE(torch::equal(before, other.conv->weight));
}

TEST_CASE("damaged weights are noticed before anything is loaded", "[weights]") {
  const TempFolder folder;
  const auto net = net_of_seed(5);
  publish(*net, folder / "good.pt");
  publish(*net, folder / "good.safetensors");
  for (const char* name : {"good.pt", "good.safetensors"}) {
    const std::string bytes = read_file(folder / name);
    for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 100) {
      folder.write("torn", bytes.substr(0, size));
      INFO(name << " " << size << " of " << bytes.size() << " bytes");
      REQUIRE_THAT(error_text(*net, folder / "torn"), Contains("cannot read the weights "));
    }
  }
  std::string flipped = read_file(folder / "good.pt");
  flipped[flipped.find(std::string(reinterpret_cast<const char*>(net->conv->weight.data_ptr()), 36))] ^= 1;
  folder.write("flipped", flipped);
  CHECK_THAT(error_text(*net, folder / "flipped"), Contains("cannot read the weights "));
  folder.write("text", "these are no weights");
  CHECK_THAT(error_text(*net, folder / "text"), Contains("neither of torch.save nor of safetensors"));
  CHECK_THAT(error_text(*net, folder / "nowhere"), Contains("there is no such file"));
  CHECK(differences(*net, *net_of_seed(5)) == "");
}

TEST_CASE("a folder of weights that are not there, or not whole, is told with what is", "[weights]") {
  const TempFolder folder;
  const auto net = net_of_seed(5);
  const auto says = [&](const std::string& text) { CHECK_THAT(error_text(*net, folder.path()), Contains(text)); };
  says("it is a folder without weights; in it is nothing");
  folder.write("notes.txt", "");
  says("in it is notes.txt");
  publish(*net, folder / "last.pt");
  says("it is a folder. Name a file in it, such as last.pt.");
  CHECK_THAT(error_text(*net, folder / "lost.pt"), Contains("Did you mean '" + (folder / "last.pt").string() + "'?"));
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  says("2 of its 2 files are not beside it: one.safetensors and two.safetensors");
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "../last.pt"}})");
  says("its weight_map names something other than a file beside it");
}

TEST_CASE("a bool of a safetensors file is one, and tensors may lie anywhere", "[weights]") {
  const TempFolder folder;
  const std::string header =
      R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})";
  std::string bytes{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  bytes += header + std::string("\0\x07\xff", 3) + std::string("\0\0\x20\x41", 4);
  folder.write("odd", bytes);
  torch::nn::Module module;
  const auto mask = module.register_buffer("a", torch::zeros({3}, torch::kLong));
  const auto number = module.register_buffer("b", torch::zeros({1}));
  load_weights(module, folder / "odd");
  CHECK(torch::equal(mask, torch::tensor({0, 1, 1})));
  CHECK(number.item<float>() == 10);
}

TEST_CASE("complex weights are not cut down to real ones", "[weights]") {
  const TempFolder folder;
  torch::nn::Module written, read;
  written.register_buffer("a", torch::ones({2}, torch::kComplexFloat));
  read.register_buffer("a", torch::ones({2}));
  publish(written, folder / "complex.safetensors");
  CHECK_THAT(error_text(read, folder / "complex.safetensors"),
             Contains("a is complex in the file and real in the model"));
}
