#include "ddprun/clip_grad.h"

#include <torch/torch.h>

#include "tests/support/test.h"
#include "tests/trainer/golden.h"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Those of numbers_golden.py.
std::vector<at::Tensor> parameters(const std::string& kind) {
  torch::manual_seed(11);
  const std::vector<std::vector<std::int64_t>> shapes{{3},    {17, 5},   {},     {4, 3, 2, 2},
                                                      {1000}, {33, 129}, {0, 2}, {70000}};
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    at::Tensor gradient = torch::randn(shapes[i]) * 3;
    if (kind == "half" || (kind == "mixed" && i % 2)) gradient = gradient.to(torch::kBFloat16);
    if (kind == "mixed" && i % 4 == 0) gradient = gradient.to(torch::kDouble);
    if (kind == "small") gradient = gradient * 1e-4;
    if (kind == "infinite" && i == 3) gradient[1] = kInfinity;
    if (kind == "nan" && i == 3) gradient[1] = std::numeric_limits<double>::quiet_NaN();
    if (kind == "strided" && shapes[i].size() == 2) gradient = gradient.t().contiguous().t();
    at::Tensor parameter = torch::zeros(shapes[i], gradient.scalar_type());
    if (i != 4 || kind != "float") parameter.mutable_grad() = gradient;
    result.push_back(parameter);
  }
  return result;
}

std::string python_name(double norm_type) {
  if (norm_type == kInfinity) return "inf";
  std::ostringstream text;
  text << norm_type;
  return text.str().find('.') == std::string::npos ? text.str() + ".0" : text.str();
}

}  // namespace

TEST_CASE("clipped gradients and their norms have PyTorch's bits", "[clip]") {
  torch::set_num_threads(1);
  const std::map<at::ScalarType, const char*> types{
      {at::kFloat, "torch.float32"}, {at::kDouble, "torch.float64"}, {at::kBFloat16, "torch.bfloat16"}};
  std::ostringstream lines;
  for (const std::string kind : {"float", "half", "mixed", "small", "infinite", "nan", "strided"}) {
    for (const double norm_type : {2.0, 1.0, 3.0, 0.5, kInfinity})
      for (const double max_norm : {0.1, 1.0, 7.3}) {
        auto weights = parameters(kind);
        if (norm_type == kInfinity)
          std::erase_if(weights, [](const at::Tensor& weight) { return weight.numel() == 0; });
        const at::Tensor norm = clip_grad_norm(weights, max_norm, norm_type);
        lines << kind << ' ' << python_name(norm_type) << ' ' << python_name(max_norm) << ' '
              << types.at(norm.scalar_type()) << ' ' << number(norm.item<double>()) << ' '
              << (kind == "infinite" || kind == "nan" ? "" : crc(gradients_of(weights))) << '\n';
      }
    for (const double value : {0.1, 1.0}) {
      const auto weights = parameters(kind);
      clip_grad_value(weights, value);
      lines << kind << " value " << python_name(value) << ' ' << (kind == "nan" ? "" : crc(gradients_of(weights)))
            << '\n';
    }
  }
  CHECK(difference_to_python("clip", lines.str()) == "");
}

TEST_CASE("a norm that is not finite is refused before any gradient changes, where that is asked for", "[clip]") {
  const auto weights = parameters("infinite");
  const std::string before = crc(gradients_of(weights));
  CHECK_THROWS_WITH(clip_grad_norm(weights, 1, 2, true),
                    "cannot clip the gradients: their norm of order 2 is inf. Lower the learning rate, or leave such a "
                    "step out: see loss_guard.h and amp.h.");
  CHECK(crc(gradients_of(weights)) == before);
  CHECK_THROWS_WITH(clip_grad_norm(parameters("nan"), 1, kInfinity, true), Contains("order inf is nan"));
}

TEST_CASE("a gradient without elements has no part in the largest element", "[clip]") {
  at::Tensor weight = torch::zeros(2), empty = torch::zeros({0, 2});
  weight.mutable_grad() = torch::tensor({3.F, -4.F});
  empty.mutable_grad() = torch::zeros({0, 2});
  CHECK(clip_grad_norm({empty, weight}, 1, kInfinity).item<float>() == 4);
  CHECK(clip_grad_norm({empty}, 1, kInfinity).item<float>() == 0);
}

TEST_CASE("without gradients there is nothing to clip", "[clip]") {
  CHECK(clip_grad_norm({}, 1).item<float>() == 0);
  CHECK(clip_grad_norm({torch::zeros(3)}, 1, 2, true).item<float>() == 0);
  clip_grad_value({torch::zeros(3)}, 1);
}
