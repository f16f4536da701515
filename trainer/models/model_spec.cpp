#include "trainer/models/model_spec.h"

#include <bit>
#include <initializer_list>
#include <limits>
#include <utility>

#include "trainer/models/model_names.h"

namespace ddprun::train {
namespace {

// What is wrong and how to fix it; an empty `why` means no problem.
struct Problem {
  std::string why = {}, remedy = {};
};

using Sizes = std::initializer_list<std::pair<const char*, std::int64_t>>;

// Above it a product of two sizes may overflow int64; no machine has that much memory.
constexpr std::int64_t kSizeMax = std::numeric_limits<std::int32_t>::max();

Problem size_range_problem(const Sizes& sizes) {
  for (const auto& [name, size] : sizes)
    if (size < 1 || size > kSizeMax)
      return {std::string("its ") + name + " would be " + std::to_string(size), "It must be from 1 to 2147483647."};
  return {};
}

Problem image_size_problem(const ModelSpec& spec, std::int64_t least, const char* halvings) {
  if (spec.height >= least && spec.width >= least) return {};
  return {std::string("it halves its images ") + halvings + " but these are only " + std::to_string(spec.height) +
              " by " + std::to_string(spec.width) + " pixels",
          "Give it images of at least " + std::to_string(least) + " by " + std::to_string(least) + "."};
}

Problem variant_problem(const ModelSpec& spec) {
  if (spec.head != "small" && spec.head != "imagenet")
    return {"there is no head '" + spec.head + "'", "It is small or imagenet."};
  constexpr std::int64_t kNarrowest = 64;  // channels of its narrowest layer
  if (spec.width_divisor < 1 || spec.width_divisor > kNarrowest ||
      !std::has_single_bit(static_cast<std::uint64_t>(spec.width_divisor)))
    return {"its channels cannot be divided by " + std::to_string(spec.width_divisor),
            "The divisor is 1, 2, 4, 8, 16, 32 or 64."};
  return {};
}

Problem image_model_problem(const ModelSpec& spec) {
  if (Problem problem = size_range_problem({{"number of channels", spec.channels},
                                            {"images' height", spec.height},
                                            {"images' width", spec.width},
                                            {"number of classes", spec.classes}});
      !problem.why.empty())
    return problem;
  if (spec.name == "convnet") return image_size_problem(spec, 4, "twice");
  if (Problem problem = variant_problem(spec); !problem.why.empty()) return problem;
  return spec.name == "vgg11_bn" ? image_size_problem(spec, 32, "five times") : Problem{};
}

Problem token_model_problem(const ModelSpec& spec) {
  if (Problem problem = size_range_problem({{"vocabulary", spec.vocabulary},
                                            {"context", spec.context},
                                            {"number of layers", spec.layers},
                                            {"number of heads", spec.heads},
                                            {"embedding", spec.embedding}});
      !problem.why.empty())
    return problem;
  if (spec.embedding % spec.heads != 0)
    return {"an embedding of " + std::to_string(spec.embedding) + " cannot be divided among " +
                std::to_string(spec.heads) + " heads",
            "Make it a multiple of them."};
  if (!(spec.dropout >= 0 && spec.dropout < 1))
    return {"its dropout would be " + std::to_string(spec.dropout), "It must be at least 0 and below 1."};
  return {};
}

Problem problem_of(const ModelSpec& spec, ModelInput input) {
  if (input == ModelInput::images) return image_model_problem(spec);
  if (input == ModelInput::tokens) return token_model_problem(spec);
  return size_range_problem({{"number of features", spec.features}, {"number of outputs", spec.outputs}});
}

}  // namespace

std::optional<UsageError> problem_with(const ModelSpec& spec) {
  const ModelName* model = find_model(spec.name);
  if (model == nullptr) return UsageError("cannot build a model", no_such_model(spec.name));
  const Problem problem = problem_of(spec, model->input);
  if (problem.why.empty()) return std::nullopt;
  return UsageError("cannot build the model " + spec.name, problem.why, problem.remedy);
}

}  // namespace ddprun::train
