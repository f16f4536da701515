#include "trainer/ddp/snapshot.h"

#include <torch/torch.h>

#include "ddprun/sampler.h"
#include "rendezvous/error.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/trainer/snapshot_compare.h"
#include "trainer/ddp/torch_file.h"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kPython = DDPRUN_SOURCE_DIR "/.venv/bin/python";
constexpr ImageShape kDigits{1, 8, 8, 10};

// As after a run: every momentum is its parameter's number.
Snapshot example(const std::shared_ptr<Model>& model) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(torch::full_like(model->parameters()[i], static_cast<double>(i)));
    optimizer.state()[model->parameters()[i].unsafeGetTensorImpl()] = std::move(state);
  }
  Snapshot s;
  s.model_state = model_state(*model);
  s.optimizer_state = optimizer_state(optimizer);
  s.epochs_run = 3;
  s.step = std::int64_t{1} << 40;
  s.samples_seen = 96;
  s.rng = {rng_state(at::kCPU), rng_state(at::kCPU)};
  s.world_size = 2;
  s.round = 7;
  s.bucket_order = {{9, 8}, {7, 6, 5, 4, 3, 2, 1, 0}};
  return s;
}

std::string write_example(const TempFolder& folder) {
  const std::string bytes = encode(example(make_model("convnet", kDigits)));
  folder.write("ours.pt", bytes);
  return bytes;
}

// What is wrong with the bytes; empty where they decode.
std::string complaint(const std::string& bytes) {
  try {
    decode(bytes, "the file");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a snapshot comes back as it was written", "[snapshot]") {
  const Snapshot before = example(make_model("convnet", kDigits));
  const Snapshot after = decode(encode(before), "the file");
  CHECK(differences(before, after) == "");
  CHECK(after.round == 7);
}

TEST_CASE("weights, momentum and generators go on where they stopped", "[snapshot]") {
  torch::manual_seed(1);
  const auto written = make_model("convnet", kDigits);
  const Snapshot snapshot = decode(encode(example(written)), "the file");
  const at::Tensor next = torch::rand({3});
  const auto read = make_model("convnet", kDigits);
  CHECK_FALSE(same_bits(read->parameters()[0], written->parameters()[0]));
  load_model_state(*read, snapshot.model_state, "the file");
  CHECK(same_bits(read->parameters()[0], written->parameters()[0]));
  torch::optim::SGD optimizer(read->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  load_optimizer_state(optimizer, *snapshot.optimizer_state, "the file");
  Snapshot again = snapshot;
  again.optimizer_state = optimizer_state(optimizer);
  CHECK(differences(snapshot, again) == "");
  set_rng_state(snapshot.rng[0], at::kCPU);
  CHECK(same_bits(torch::rand({3}), next));
}

TEST_CASE("a flipped bit anywhere in a snapshot is noticed, or changes nothing", "[snapshot]") {
  const Snapshot before = example(make_model("convnet", kDigits));
  const std::string bytes = encode(before);
  std::size_t noticed = 0, tried = 0;
  // Every byte of the pickle and the archive's directory at the end, a sample of the rest.
  for (std::size_t at = 0; at<bytes.size(); at += at + 16384> bytes.size() ? 7 : 997, ++tried) {
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 1 << at % 8);
    INFO("byte " << at << " of " << bytes.size());
    const std::string sentence = complaint(altered);
    if (!sentence.empty())
      ++noticed;
    else
      REQUIRE(differences(before, decode(altered, "the file")) == "");
  }
  CHECK(noticed > tried / 2);
}

TEST_CASE("a snapshot cut short anywhere is refused", "[snapshot]") {
  const std::string bytes = encode(example(make_model("convnet", kDigits)));
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 200) {
    INFO(size << " of " << bytes.size() << " bytes");
    REQUIRE_THAT(complaint(bytes.substr(0, size)), Contains("cannot read the file: "));
  }
  CHECK_THAT(complaint("hello"), Contains("it is torn or no file of torch.save"));
}

TEST_CASE("the stock PyTorch reads our snapshots, and we read its files", "[snapshot]") {
  const TempFolder folder;
  write_example(folder);
  REQUIRE(test::run({kPython, DDPRUN_SOURCE_DIR "/tests/trainer/torch_file_peer.py", folder.path()},
                    std::chrono::seconds(60)) == exited(0));

  const Snapshot tutorial = load_snapshot(folder / "tutorial.pt");
  CHECK(tutorial.epochs_run == 3);
  CHECK_FALSE(tutorial.optimizer_state);
  torch::manual_seed(5);
  const auto model = make_model("convnet", kDigits);  // from the same seed as PyTorch's
  Snapshot expected = tutorial;
  expected.model_state = model_state(*model);
  CHECK(differences(tutorial, expected) == "");

  for (const char* name : {"ddp.pt", "state_dict.pt", "parameters.pt"}) {
    const auto other = make_model("convnet", kDigits);
    load_model_state(*other, decode_weights(read_file(folder / name), name), name);
    expected.model_state = model_state(*other);
    CHECK(differences(tutorial, expected) == "");
  }
  CHECK_THROWS_WITH(load_model_state(*model, load_snapshot(folder / "mnist.pt").model_state, "mnist.pt"),
                    Contains("fc.weight is 10 x 1568 there and 10 x 128 in the model"));

  const auto odd = decode_weights(read_file(folder / "odd.pt"), "odd.pt");
  const auto base = torch::arange(12.0).reshape({3, 4});
  CHECK(same_bits(odd.at("transposed").toTensor(), base.t()));
  CHECK(same_bits(odd.at("row").toTensor(), base[1]));
  CHECK(same_bits(odd.at("half").toTensor(), base.to(torch::kBFloat16)));
  CHECK(same_bits(odd.at("bool").toTensor(), base > 5));
  CHECK(same_bits(odd.at("parameter").toTensor(), base));
  CHECK(odd.at("empty").toTensor().sizes() == at::IntArrayRef{0, 3});
  CHECK(odd.at("scalar").toTensor().item<std::int64_t>() == 7);
  CHECK(odd.at("none").isNone());
  CHECK(odd.at("yes").toBool());
  CHECK(odd.at("big").toInt() == -(std::int64_t{1} << 40));
  CHECK(odd.at("byte").toInt() == 200);
  CHECK(odd.at("short").toInt() == 60000);
  CHECK(odd.at("pi").toDouble() == 3.25);
  CHECK(odd.at("nested").toGenericDict().at("list").toListRef()[1].toTupleRef().elements()[1].toInt() == 3);
  CHECK(odd.at("nested").toGenericDict().at(4).toStringRef() == "four");

  CHECK_THAT(complaint(read_file(folder / "evil.pt")), Contains("it wants to call posix.system, which is not data"));
  CHECK_THAT(complaint(read_file(folder / "old_format.pt")), Contains("it is torn or no file of torch.save"));
  CHECK_THAT(complaint(read_file(folder / "state_dict.pt")), Contains("it has no MODEL_STATE"));
}

TEST_CASE("the order of the samples is that of the PyTorch that is installed", "[sampler]") {
  const auto python =
      test::run({kPython, DDPRUN_SOURCE_DIR "/tests/trainer/sampler_golden.py"}, std::chrono::seconds(60));
  CHECK(python == exited(0));
  CHECK(python.out == read_file(DDPRUN_SOURCE_DIR "/tests/trainer/testdata/sampler.txt"));
  const auto permutation = torch::randperm(100000, at::detail::createCPUGenerator(77), torch::kLong);
  CHECK(same_bits(permutation, torch::tensor(random_permutation(100000, 77))));
}
