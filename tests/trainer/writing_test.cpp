// Text by a model with its first weights: what matters is how its characters are chosen.
#include "trainer/loop/writing.h"

#include <torch/torch.h>

#include "tests/support/test.h"

namespace {

constexpr std::int64_t kContext = 6, kVocabulary = 11;

std::shared_ptr<Model> small_gpt() {
  torch::manual_seed(3);
  return make_model({.name = "gpt",
                     .vocabulary = kVocabulary,
                     .context = kContext,
                     .layers = 1,
                     .heads = 2,
                     .embedding = 8,
                     .dropout = 0.5});
}

// Of the last `kContext` ids.
std::int64_t likeliest(Model& model, const std::vector<std::int64_t>& text) {
  const torch::NoGradGuard no_grad;
  const auto begin = text.size() > kContext ? text.end() - kContext : text.begin();
  const at::Tensor window = torch::tensor(std::vector<std::int64_t>(begin, text.end()), at::kLong);
  return model.forward(window.unsqueeze(0))[0][-1].argmax().item<std::int64_t>();
}

}  // namespace

TEST_CASE("at temperature 0 each character is the likeliest after those before, as far as the model sees",
          "[writing]") {
  const auto model = small_gpt();
  std::vector<std::int64_t> text{1, 2, 3};
  const auto more = continue_text(*model, text, {.context = kContext, .length = 20, .sampling = {.temperature = 0}});
  REQUIRE(more.size() == 20);
  model->eval();
  for (const std::int64_t id : more) {
    REQUIRE(id == likeliest(*model, text));
    text.push_back(id);
  }
}

TEST_CASE("a seed repeats its text, and another one gives another", "[writing]") {
  const auto model = small_gpt();
  const auto text = [&](std::uint64_t seed) {
    return continue_text(*model, {0}, {.context = kContext, .length = 30, .seed = seed});
  };
  CHECK(text(1) == text(1));
  CHECK(text(1) != text(2));
}

TEST_CASE("to write changes neither the default generator nor the mode of the model, and may be ended", "[writing]") {
  const auto model = small_gpt();
  const at::Tensor before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  int seen = 0;
  CHECK(continue_text(*model, {0}, {.context = kContext, .length = 30}, [&](std::int64_t) {
          return ++seen < 4;
        }).size() == 4);
  CHECK(model->is_training());
  CHECK(before.equal(at::globalContext().defaultGenerator(at::kCPU).get_state()));
  model->eval();
  continue_text(*model, {0}, {.context = kContext, .length = 1});
  CHECK_FALSE(model->is_training());
}
