#include <torch/torch.h>

#include "tests/support/catch.h"
#include "trainer/models/models.h"

using namespace ddprun;
using namespace ddprun::train;
using Catch::Matchers::Contains;

TEST_CASE("the ConvNet takes images of any size from 4 by 4 on", "[models]") {
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{4, 4}, {8, 8}, {28, 28}, {30, 17}})
    CHECK(make_model({.name = "convnet", .height = height, .width = width})
              ->forward(torch::zeros({2, 1, height, width}))
              .sizes() == at::IntArrayRef{2, 10});
  CHECK_THROWS_WITH(make_model({.name = "convnet", .height = 3}), Contains("only 3 by 8 pixels"));
}
