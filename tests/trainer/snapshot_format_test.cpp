#include "trainer/ddp/snapshot/snapshot_format.h"

#include <torch/torch.h>

#include "ddprun/sampler.h"
#include "rendezvous/base/error.h"
#include "tests/support/test.h"
#include "tests/trainer/snapshot_compare.h"
#include "trainer/ddp/snapshot/optimizer_state.h"
#include "trainer/ddp/snapshot/torch_file.h"
#include "trainer/models/models.h"

namespace {

const ModelSpec kDigits{.name = "convnet"};

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
  s.schedule = ScheduleState{5, 0.025};
  s.scaler = SavedScaler{{.growth_interval = 7}, {1024, 3}};
  s.sampler = SamplerState{.epoch = 3, .consumed = 40, .dataset_size = 1500, .seed = ~0ULL, .shuffle = false};
  s.at = {.epochs_run = 3, .step = std::int64_t{1} << 40, .samples_seen = 96};
  s.rng = {rng_state(at::kCPU), rng_state(at::kCPU)};
  s.world_size = 2;
  s.round = 7;
  s.generation = 9;
  s.metric = 0.75;
  s.bucket_order = {{9, 8}, {7, 6, 5, 4, 3, 2, 1, 0}};
  s.extra = {{"note", "grün"},
             {"losses", {1.5, 2, std::numeric_limits<double>::infinity()}},
             {"more", {{"none", nullptr}, {"yes", true}}}};
  return s;
}

// Three steps of an optimizer on a model of two parts, each a group of its own settings.
template <class Optimizer, class Options>
struct Trained {
  torch::nn::Linear one{3, 2}, two{2, 1};
  Optimizer optimizer{groups(), Options(0.1)};

  explicit Trained(int steps) {
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      two(torch::tanh(one(torch::full({4, 3}, 0.1 + step)))).sum().backward();
      optimizer.step();
    }
  }
  std::vector<torch::optim::OptimizerParamGroup> groups() {
    return {{one->parameters(), std::make_unique<Options>(0.1)}, {two->parameters(), std::make_unique<Options>(0.01)}};
  }
  Dict state() const { return optimizer_state(optimizer); }
};

Snapshot with_optimizer(const Dict& state) {
  Snapshot snapshot;
  snapshot.optimizer_state = state;
  return snapshot;
}

// What is wrong with the bytes; empty where they decode.
std::string error_text(const std::string& bytes) {
  return test::error_text<Error>([&] { decode(bytes, "the file"); });
}

}  // namespace

TEST_CASE("a snapshot comes back as it was written", "[snapshot]") {
  const Snapshot before = example(make_model(kDigits));
  const Snapshot after = decode(encode(before), "the file");
  CHECK(differences(before, after) == "");
  CHECK(after.round == 7);
  CHECK(after.generation == 9);
  CHECK(after.digest.size() == 64);
}

TEST_CASE("a place in a sharded data set comes back as it was written", "[snapshot]") {
  Snapshot before;
  before.sampler =
      ShardSamplerState{.epoch = 2,
                        .deals = {{.world_size = 4, .taken = 10}, {.world_size = 3, .taken = 7, .drop_last = true}},
                        .data_digest = ~1ULL,
                        .seed = 5,
                        .mixed_shards = 2};
  CHECK(differences(before, decode(encode(before), "the file")) == "");
}

TEST_CASE("every optimizer that is known goes on where it stopped, in all its groups", "[snapshot]") {
  const auto check = [](auto&& before, auto&& after) {
    const Snapshot saved = with_optimizer(before.state());
    CHECK(differences(saved, with_optimizer(after.state())) != "");
    load_optimizer_state(after.optimizer, *decode(encode(saved), "the file").optimizer_state, "the file");
    CHECK(differences(saved, with_optimizer(after.state())) == "");
  };
  using namespace torch::optim;
  check(Trained<Adam, AdamOptions>(3), Trained<Adam, AdamOptions>(0));
  check(Trained<Adam, AdamOptions>(3), Trained<Adam, AdamOptions>(2));
  check(Trained<AdamW, AdamWOptions>(3), Trained<AdamW, AdamWOptions>(0));
  Trained<SGD, SGDOptions> without_momentum(3);
  CHECK_NOTHROW(load_optimizer_state(without_momentum.optimizer, without_momentum.state(), "the file"));
}

TEST_CASE("an optimizer's state that does not fit is a sentence, and leaves the optimizer as it was", "[snapshot]") {
  using namespace torch::optim;
  Trained<Adam, AdamOptions> adam(2);
  const Snapshot before = with_optimizer(decode(encode(with_optimizer(adam.state())), "it").optimizer_state->copy());
  const auto refused = [&](const Dict& state, const std::string& why) {
    CHECK_THROWS_WITH(load_optimizer_state(adam.optimizer, state, "run.pt"),
                      Contains("cannot load the optimizer's state from run.pt: " + why));
    CHECK(differences(before, with_optimizer(adam.state())) == "");
  };
  Trained<SGD, SGDOptions> sgd(0);
  static_cast<SGDOptions&>(sgd.optimizer.param_groups()[0].options()).momentum(0.9);
  sgd.one(torch::ones({1, 3})).sum().backward();
  sgd.optimizer.step();
  refused(sgd.state(), "it is another optimizer's: it has no step");
  CHECK_THROWS_WITH(load_optimizer_state(sgd.optimizer, adam.state(), "run.pt"), Contains("it has no momentum_buffer"));
  Dict state = adam.state();
  Dict parameters = state.at("state").toGenericDict();
  parameters.insert(9, make_dict());
  refused(state, "it names a parameter that the optimizer does not have");
  REQUIRE(parameters.erase(9) == 1);
  parameters.at(3).toGenericDict().insert_or_assign("exp_avg", torch::zeros({5}));
  refused(state, "its exp_avg has other shapes than the model");
  torch::optim::RMSprop other(adam.one->parameters());
  CHECK_THROWS_WITH(optimizer_state(other), Contains("it is not SGD, Adam or AdamW"));
}

TEST_CASE("a flipped bit anywhere in a snapshot is noticed, or changes nothing", "[snapshot]") {
  const Snapshot before = example(make_model(kDigits));
  const std::string bytes = encode(before);
  std::size_t noticed = 0, tried = 0;
  // Every byte of the pickle and the archive's directory at the end, a sample of the rest.
  for (std::size_t at = 0; at<bytes.size(); at += at + 16384> bytes.size() ? 7 : 997, ++tried) {
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 1 << at % 8);
    INFO("byte " << at << " of " << bytes.size());
    const std::string sentence = error_text(altered);
    if (!sentence.empty())
      ++noticed;
    else
      REQUIRE(differences(before, decode(altered, "the file")) == "");
  }
  CHECK(noticed > tried / 2);
}

TEST_CASE("extra values that could not be read again are not written", "[snapshot]") {
  const auto refused = [](nlohmann::json extra, const std::string& why) {
    Snapshot snapshot;
    snapshot.extra = std::move(extra);
    CHECK_THROWS_WITH(encode(snapshot), Contains("cannot save the snapshot: its extra values " + why));
  };
  nlohmann::json deep = 1;
  for (int i = 0; i < 125; ++i) deep = nlohmann::json::array({std::move(deep)});
  Snapshot snapshot;
  snapshot.extra = deep;
  CHECK(decode(encode(snapshot), "the file").extra == deep);
  refused(nlohmann::json::array({deep}), "are nested more than 126 deep");
  refused(nlohmann::json(std::vector<int>((2 << 20) + 1)), "are more than 2097152");
  refused(std::string((128 << 20) + 1, 'x'), "have more than 134217728 bytes of text");
}

TEST_CASE("the stock PyTorch reads our snapshots, and we read its files", "[snapshot]") {
  const TempFolder folder;
  folder.write("ours.pt", encode(example(make_model(kDigits))));
  using namespace torch::optim;
  const Trained<Adam, AdamOptions> adam(3);
  const Trained<AdamW, AdamWOptions> adamw(3);
  folder.write("adam.pt", encode(with_optimizer(adam.state())));
  folder.write("adamw.pt", encode(with_optimizer(adamw.state())));
  REQUIRE(test::run({venv_python(), source_folder() + "/tests/trainer/torch_file_peer.py", folder.path()},
                    std::chrono::seconds(60)) == exited(0));

  const Snapshot tutorial = load_snapshot(folder / "tutorial.pt");
  CHECK(tutorial.at.epochs_run == 3);
  CHECK_FALSE(tutorial.optimizer_state);
  torch::manual_seed(5);
  const auto model = make_model(kDigits);  // from the same seed as PyTorch's
  Snapshot expected = tutorial;
  expected.model_state = model_state(*model);
  CHECK(differences(tutorial, expected) == "");

  // What Python's optimizers say of the state that they have loaded from ours, we load again.
  Trained<Adam, AdamOptions> adam_again(0);
  load_optimizer_state(adam_again.optimizer, *load_snapshot(folder / "adam_again.pt").optimizer_state, "adam_again.pt");
  CHECK(differences(with_optimizer(adam.state()), with_optimizer(adam_again.state())) == "");
  Trained<AdamW, AdamWOptions> adamw_again(0);
  load_optimizer_state(adamw_again.optimizer, *load_snapshot(folder / "adamw_again.pt").optimizer_state,
                       "adamw_again.pt");
  CHECK(differences(with_optimizer(adamw.state()), with_optimizer(adamw_again.state())) == "");

  for (const char* name : {"ddp.pt", "state_dict.pt", "parameters.pt"}) {
    const auto other = make_model(kDigits);
    load_model_state(*other, decode_weights(read_file(folder / name), name), name);
    expected.model_state = model_state(*other);
    CHECK(differences(tutorial, expected) == "");
  }
  CHECK_THROWS_WITH(load_model_state(*model, load_snapshot(folder / "mnist.pt").model_state, "mnist.pt"),
                    Contains("fc.weight is 10 x 1568 in the file and 10 x 128 in the model"));

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

  CHECK_THAT(error_text(read_file(folder / "evil.pt")), Contains("it calls posix.system, which is not data"));
  CHECK_THAT(error_text(read_file(folder / "old_format.pt")), Contains("it is damaged, or not a file of torch.save"));
  CHECK_THAT(error_text(read_file(folder / "state_dict.pt")), Contains("it has no MODEL_STATE"));
}

TEST_CASE("the order of the samples is that of the PyTorch that is installed", "[sampler]") {
  const auto python =
      test::run({venv_python(), source_folder() + "/tests/trainer/sampler_golden.py"}, std::chrono::seconds(60));
  CHECK(python == exited(0));
  CHECK(python.out == read_file(source_folder() + "/tests/trainer/testdata/sampler.txt"));
  const auto permutation = torch::randperm(100000, at::detail::createCPUGenerator(77), torch::kLong);
  CHECK(same_bits(permutation, torch::tensor(random_permutation(100000, 77))));
}
