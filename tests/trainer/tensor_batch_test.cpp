#include "ddprun/tensor_batch.h"

#include <torch/torch.h>

#include "ddprun/data_loader.h"
#include "ddprun/lr_schedule.h"
#include "ddprun/set_lr.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "tests/trainer/lr_lines.h"

namespace {

std::string error_text(const std::vector<Tensors>& samples) {
  return test::error_text([&] { Collate{}(samples); });
}

}  // namespace

TEST_CASE("samples of tensors become batches of tensors, by any number of threads", "[loader]") {
  const auto images = torch::rand({50, 3, 4}), labels = torch::arange(50);
  for (const int threads : {0, 2}) {
    const DataLoader loader(
        [&](std::int64_t index, SampleRng& rng) {
          return Tensors{images[index] + rng.uniform(), labels[index]};
        },
        Collate{.pin_memory = true}, {.batch_size = 20, .threads = threads, .seed = 4});
    auto indices = test::up_to(50);
    std::reverse(indices.begin(), indices.end());
    auto batches = loader.epoch(indices, 2);
    std::int64_t at = 50;
    while (const auto batch = batches.next()) {
      REQUIRE(batch->size() == 2);
      for (std::int64_t i = 0; i < batches.samples(); ++i) {
        --at;
        REQUIRE((*batch)[1][i].item<std::int64_t>() == at);
        REQUIRE(torch::equal((*batch)[0][i], images[at] + SampleRng(4, 2, at).uniform()));
      }
      CHECK((*batch)[0].is_pinned() == torch::cuda::is_available());
    }
    CHECK(at == 0);
  }
}

TEST_CASE("samples that do not fit together are refused, and say how they differ", "[loader]") {
  CHECK(error_text({{torch::zeros({2, 3})}, {torch::zeros({2, 4})}}) ==
        "samples do not fit together: part 0 is [2, 3] Float in the first and [2, 4] Float in another.");
  CHECK_THAT(error_text({{torch::zeros({2})}, {torch::zeros({2}, torch::kLong)}}), Contains("[2] Long in another"));
  CHECK_THAT(error_text({{torch::zeros({2})}, {}}), Contains("the first has 1 parts and another 0"));
  CHECK(Collate{}({}).empty());
}

TEST_CASE("a batch is data: it leads back to no graph", "[loader]") {
  const auto weight = torch::ones({2}, torch::requires_grad());
  CHECK_FALSE(Collate{}({{weight * 2}, {weight * 3}})[0].requires_grad());
}

TEST_CASE("a schedule's rate reaches all of an optimizer's parameter groups", "[lr]") {
  torch::optim::SGD optimizer(std::vector<torch::optim::OptimizerParamGroup>{{{torch::zeros(1)}}, {{torch::zeros(1)}}},
                              0.1);
  LrSchedule schedule(0.1, StepLR{.step_size = 1});
  schedule.step();
  set_lr(optimizer, schedule.lr());
  for (const auto& group : optimizer.param_groups()) CHECK(group.options().get_lr() == schedule.lr());
}

TEST_CASE("learning rates are those of the PyTorch that is installed, to the bit", "[lr]") {
  const auto python =
      test::run({test::venv_python(), test::source_folder() + "/tests/trainer/lr_golden.py"}, std::chrono::seconds(60));
  REQUIRE(python == test::exited(0));
  int lines = 0;
  CHECK(test::lr_difference(python.out, 0, lines) == "");
  CHECK(lines == 54);
}
