#include "tests/trainer/lr_lines.h"

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "ddprun/lr_schedule.h"

namespace ddprun::test {
namespace {

LrRule rule_of(const std::string& name, const std::vector<double>& n) {
  const auto count = [&](std::size_t i) { return static_cast<std::int64_t>(n.at(i)); };
  if (name == "constant") return ConstantLR{.factor = n.at(0), .total_iters = count(1)};
  if (name == "linear") return LinearLR{.start_factor = n.at(0), .end_factor = n.at(1), .total_iters = count(2)};
  if (name == "step") return StepLR{.step_size = count(0), .gamma = n.at(1)};
  if (name == "multistep") return MultiStepLR{.milestones = {n.begin() + 1, n.end()}, .gamma = n.at(0)};
  if (name == "exponential") return ExponentialLR{.gamma = n.at(0)};
  if (name == "cosine") return CosineAnnealingLR{.t_max = count(0), .eta_min = n.at(1)};
  if (name == "polynomial") return PolynomialLR{.total_iters = count(0), .power = n.at(1)};
  if (name == "lambda")
    return LambdaLR{[d = n.at(0)](std::int64_t step) { return 1 / (1 + static_cast<double>(step) / d); }};
  throw std::invalid_argument("no rule is named " + name);
}

double number(const std::string& word) { return std::strtod(word.c_str(), nullptr); }  // streams know no hexadecimals

// Reads up to the colon.
LrSchedule schedule_of(std::istream& words) {
  std::string word, name;
  words >> word;
  const double base = number(word);
  SequentialLR rules;
  std::vector<double> numbers;
  words >> name;
  while (words >> word && word != ":") {
    if (word != "at") {
      numbers.push_back(number(word));
      continue;
    }
    rules.rules.push_back(rule_of(name, numbers));
    numbers.clear();
    words >> rules.milestones.emplace_back() >> name;
  }
  rules.rules.push_back(rule_of(name, numbers));
  return {base, std::move(rules)};
}

}  // namespace

std::string lr_difference(const std::string& text, double relative, int& lines) {
  std::istringstream all(text);
  lines = 0;
  for (std::string line; std::getline(all, line); ++lines) {
    std::istringstream words(line);
    LrSchedule schedule = schedule_of(words);
    for (std::string word; words >> word; schedule.step()) {
      const double expected = number(word);
      if (std::abs(schedule.lr() - expected) <= relative * std::abs(expected)) continue;
      std::ostringstream difference;
      difference << std::hexfloat << schedule.lr() << " is not " << expected << " at step " << std::dec
                 << schedule.steps() << " of " << line.substr(0, line.find(':'));
      return difference.str();
    }
    if (schedule.steps() < 40) return "too few rates: " + line;
  }
  return "";
}

}  // namespace ddprun::test
