#include "trainer/models/model_spec.h"

#include "tests/support/test.h"
#include "trainer/models/model_names.h"

namespace {

std::string problem(const ModelSpec& spec) {
  const auto found = problem_with(spec);
  return found ? found->what() : "";
}

}  // namespace

TEST_CASE("a model that there is not is told with the one that was probably meant, and all that there are",
          "[model-names]") {
  CHECK(no_such_model("resnet") ==
        "there is no model 'resnet'. Did you mean 'resnet18'? There are convnet, vgg11_bn, resnet18, resnet34, "
        "resnet50, resnet101, resnet152, linear and gpt");
  const std::vector<std::pair<const char*, const char*>> mistyped{
      {"vgg11", "vgg11_bn"},   {"VGG11_BN", "vgg11_bn"},  {"vgg", "vgg11_bn"},
      {"resnet8", "resnet18"}, {"resnet-50", "resnet50"}, {"ConvNets", "convnet"},
      {"gpt2", "gpt"},         {"gpt-2", "gpt"},          {"lin", "linear"}};
  for (const auto& [typed, meant] : mistyped)
    CHECK_THAT(no_such_model(typed), Contains(std::string("Did you mean '") + meant + "'?"));
  for (const char* other : {"", "x", "transformer", "densenet121"})
    CHECK_THAT(no_such_model(other), !Contains("Did you mean"));
  CHECK_THAT(no_such_model("\x1b[2J"), Contains("'\\x1b[2J'"));
}

TEST_CASE("every model is found by its name, and says what it is in a line", "[model-names]") {
  for (const ModelName& model : model_names()) {
    CHECK(find_model(model.name) == &model);
    CHECK(std::string(model.help).find('\n') == std::string::npos);
  }
  CHECK(find_model("gpt")->input == ModelInput::tokens);
  CHECK(find_model("linear")->input == ModelInput::features);
  CHECK(find_model("Gpt") == nullptr);
}

TEST_CASE("models of good sizes have no problem", "[model-spec]") {
  CHECK(problem({.name = "convnet", .height = 4, .width = 4}) == "");
  CHECK(problem({.name = "vgg11_bn", .channels = 3, .height = 32, .width = 33, .width_divisor = 64}) == "");
  CHECK(problem({.name = "resnet18", .height = 1, .width = 1, .head = "imagenet"}) == "");
  CHECK(problem({.name = "linear", .channels = 0, .head = "none"}) == "");  // sizes that it does not read
  CHECK(problem({.name = "gpt", .vocabulary = 1, .context = 1, .layers = 1, .heads = 3, .embedding = 9}) == "");
}

TEST_CASE("sizes that cannot be are told in one sentence, with the way out", "[model-spec]") {
  CHECK(problem({.name = "convent"}) ==
        "cannot build a model: there is no model 'convent'. Did you mean 'convnet'? "
        "There are convnet, vgg11_bn, resnet18, resnet34, resnet50, resnet101, resnet152, linear and gpt.");
  CHECK(problem({.name = "convnet", .height = 3}) ==
        "cannot build the model convnet: it halves its images twice but these are only 3 by 8 pixels. Give it images "
        "of at least 4 by 4.");
  CHECK(problem({.name = "vgg11_bn", .height = 28, .width = 64}) ==
        "cannot build the model vgg11_bn: it halves its images five times but these are only 28 by 64 pixels. Give it "
        "images of at least 32 by 32.");
  CHECK(problem({.name = "resnet18", .classes = 0}) ==
        "cannot build the model resnet18: its number of classes would be 0. It must be from 1 to 2147483647.");
  CHECK(problem({.name = "resnet18", .head = "large"}) ==
        "cannot build the model resnet18: there is no head 'large'. It is small or imagenet.");
  for (const std::int64_t divisor : {0, -1, 3, 128})
    CHECK_THAT(problem({.name = "vgg11_bn", .height = 32, .width = 32, .width_divisor = divisor}),
               Contains("its channels cannot be divided by " + std::to_string(divisor) + ". The divisor is 1, 2,"));
  CHECK(problem({.name = "gpt", .vocabulary = 65, .heads = 3}) ==
        "cannot build the model gpt: an embedding of 64 cannot be divided among 3 heads. Make it a multiple of them.");
  CHECK_THAT(problem({.name = "gpt"}), Contains("its vocabulary would be 0."));
  CHECK_THAT(problem({.name = "gpt", .vocabulary = 1, .layers = INT64_MAX}), Contains("its number of layers would be"));
  CHECK_THAT(problem({.name = "gpt", .vocabulary = 1, .dropout = 1}), Contains("its dropout would be 1"));
  CHECK_THAT(problem({.name = "linear", .outputs = -2}), Contains("its number of outputs would be -2."));
}
