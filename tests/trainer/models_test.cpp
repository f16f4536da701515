// The models of `train` against PyTorch's and torchvision's own, by two programs that print the same lines:
// model_worker, and model_peer.py.
#include "trainer/models/models.h"

#include <torch/torch.h>

#include "tests/support/test.h"
#include "tests/trainer/golden_text.h"
#include "tests/trainer/ranks.h"
#include "trainer/models/deterministic_pool.h"

namespace {

const Words kConvnet = split("convnet channels=3 height=9 width=14 classes=7");
const Words kVgg = split("vgg11_bn channels=3 height=32 width=40 classes=7 width_divisor=16");
const Words kVggImagenet = split("vgg11_bn channels=3 height=32 width=32 width_divisor=32 head=imagenet");
const Words kResnet = split("resnet18 channels=2 height=12 width=16 classes=7 width_divisor=8");
const Words kResnetImagenet = split("resnet18 channels=3 height=40 width=32 width_divisor=8 head=imagenet");
const Words kResnet50 = split("resnet50 channels=2 height=12 width=16 classes=7 width_divisor=16");
const Words kResnet50Imagenet = split("resnet50 channels=3 height=40 width=32 width_divisor=16 head=imagenet");
const Words kLinear = split("linear features=5 outputs=2");
const Words kGpt = split("gpt vocabulary=11 context=9 layers=3 heads=4 embedding=24");
const Words kGptDropout = split("gpt vocabulary=11 context=6 heads=1 embedding=16 dropout=0.2");
// Sums of 256 numbers, which round otherwise where a bias is added later.
const Words kGptWide = split("gpt vocabulary=11 context=6 embedding=64");
const std::vector<Words> kModels{kConvnet,          kVgg,    kVggImagenet, kResnet,     kResnetImagenet, kResnet50,
                                 kResnet50Imagenet, kLinear, kGpt,         kGptDropout, kGptWide};

const Words kOurs{programs_folder() + "/model_worker"};
const Words kTheirs{venv_python(), source_folder() + "/tests/trainer/model_peer.py"};

void add_task(Words& to, const std::string& task, const Words& model, const Words& more) {
  if (!to.empty()) to.emplace_back("+");
  to = with(with(with(to, {task}), model), more);
}

// One task for each model, with `more` words.
Words for_each(const std::string& task, const std::vector<Words>& models, const Words& more = {}) {
  Words words;
  for (const Words& model : models) add_task(words, task, model, more);
  return words;
}

// What rank 0 prints.
std::string output(int ranks, const Words& program, const Words& words) {
  return Ranks(ranks, with(program, words)).wait_all_good().out;
}

void check_same(int ranks, const Words& words, const std::string& last) {
  const std::string ours = output(ranks, kOurs, words);
  CHECK(first_difference(ours, output(ranks, kTheirs, words)) == "");
  CHECK_THAT(ours, Contains(last));
}

}  // namespace

TEST_CASE("one seed draws the weights that Python draws, under the same names, in the same order", "[models]") {
  check_same(1, for_each("weights", kModels), "lm_head.weight [11x64] ");
}

// The whole of them: 180 million weights.
TEST_CASE("vgg11_bn and the resnets are torchvision's own in names, shapes, order and first weights", "[models]") {
  const std::vector<Words> whole{
      {"resnet18", "classes=1000"}, {"resnet50", "classes=1000"}, {"vgg11_bn", "classes=10"}};
  check_same(1, for_each("weights", whole, split("channels=3 height=224 width=224 head=imagenet")),
             "classifier.6.weight [10x4096] ");
  std::vector<Words> narrow;
  for (const char* name : {"resnet34", "resnet101", "resnet152"})
    for (const char* head : {"head=small", "head=imagenet"})
      narrow.push_back({name, "channels=3", "height=40", "width=32", "width_divisor=64", head});
  check_same(1, for_each("weights", narrow), "layer3.35.conv3.weight [16x4x1x1] ");
}

TEST_CASE("ten steps on two ranks have the losses and weights of Python's DDP bit for bit, each model", "[models]") {
  check_same(2, for_each("train", kModels), "step 9 loss ");
}

// Python's loop over the parameters rounds Adam's steps otherwise than LibTorch's; all at once they are the same.
TEST_CASE("with the channels last, and stepping all parameters at once, ten steps are Python's bit for bit",
          "[models]") {
  Words words;
  const auto add = [&](const Words& model, const Words& more) { add_task(words, "train", model, more); };
  for (const Words& model : {kConvnet, kVgg, kVggImagenet, kResnet, kResnetImagenet, kResnet50}) {
    add(model, {"channels_last=1"});
    add(model, {"channels_last=1", "mode=fused"});
    add(model, {"channels_last=1", "mode=fused", "optimizer=adam", "lr=0.001"});
  }
  for (const Words& model : kModels) {
    add(model, {"mode=fused", "optimizer=adamw", "lr=0.001"});
    add(model, {"mode=foreach", "optimizer=adam", "lr=0.001"});
  }
  check_same(2, words, "step 9 loss ");
}

TEST_CASE("weights that Python trained give its scores here, and ours give them there", "[models]") {
  const TempFolder folder;
  Words ours_train, theirs_train, score;
  for (std::size_t i = 0; i < kModels.size(); ++i) {
    const std::string ours = folder / ("ours" + std::to_string(i) + ".pt"), theirs = ours + "h";
    add_task(ours_train, "train", kModels[i], {"steps=2", "save=" + ours});
    add_task(theirs_train, "train", kModels[i], {"steps=2", "seed=3", "save=" + theirs});
    for (const std::string& path : {ours, theirs}) add_task(score, "scores", kModels[i], {"load=" + path});
  }
  output(1, kOurs, ours_train);
  output(1, kTheirs, theirs_train);
  check_same(1, score, "scores gpt");
}

// Sums over a batch in two parts round differently, and training makes more of it step by step.
TEST_CASE("with synchronized batch norm two ranks train as one does on the whole batch", "[models]") {
  constexpr double kRounding = 1e-5;
  for (const Words& model : {kConvnet, kVgg, kResnet, kResnetImagenet}) {
    INFO(model[0] << " " << model.back());
    const auto trained = [&](int ranks, const Words& words) {
      return losses_in(output(ranks, kOurs, for_each("train", {model}, with({"lr=0.01", "steps=4"}, words))));
    };
    const auto synchronized = trained(2, {"sync=1", "batch=4"}), whole = trained(1, {"batch=8"}),
               alone = trained(2, {"batch=4"});
    REQUIRE(synchronized.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(synchronized[i] / whole[i] - 1) < kRounding);
    CHECK(std::abs(alone[3] / whole[3] - 1) > 10 * kRounding);
  }
}

TEST_CASE("the deterministic pool has the values and gradients of LibTorch's own", "[models]") {
  torch::manual_seed(2);
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 2}, {7, 7}, {8, 6}, {13, 9}, {14, 20}}) {
    INFO(height << " by " << width);
    const at::Tensor one = torch::randn({2, 3, height, width}).requires_grad_();
    const at::Tensor other = one.detach().clone().requires_grad_();
    const at::Tensor pooled = deterministic_avg_pool2d(one, 7), expected = torch::adaptive_avg_pool2d(other, {7, 7});
    CHECK(torch::allclose(pooled, expected, 1e-5, 1e-6));
    if (height == 1 && width == 1) CHECK(torch::equal(pooled, expected));
    const at::Tensor gradient = torch::randn_like(expected);
    pooled.backward(gradient);
    expected.backward(gradient);
    CHECK(torch::allclose(one.grad(), other.grad(), 1e-5, 1e-6));
  }
}

TEST_CASE("the ConvNet takes images of any size from 4 by 4 on", "[models]") {
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{4, 4}, {8, 8}, {28, 28}, {30, 17}})
    CHECK(make_model({.name = "convnet", .height = height, .width = width})
              ->forward(torch::zeros({2, 1, height, width}))
              .sizes() == at::IntArrayRef{2, 10});
}

TEST_CASE("what cannot be built is thrown, and a text too long for the model is refused", "[models]") {
  CHECK_THROWS_WITH(make_model({.name = "resnet"}), Contains("Did you mean 'resnet18'?"));
  CHECK_THROWS_WITH(make_model({.name = "convnet", .height = 3}), Contains("only 3 by 8 pixels"));
  CHECK_THROWS_WITH(make_model({.name = "vgg11_bn"}), Contains("only 8 by 8 pixels"));
  const auto gpt = make_model({.name = "gpt", .vocabulary = 5, .context = 4});
  CHECK(gpt->forward(torch::zeros({2, 3}, torch::kLong)).sizes() == at::IntArrayRef{2, 3, 5});
  CHECK_THROWS_WITH(gpt->forward(torch::zeros({2, 5}, torch::kLong)),
                    "the model gpt cannot read tokens of the shape [2, 5]: it looks back on 4 of them. Give it [n, 1 "
                    "to 4].");
}
