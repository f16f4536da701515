// Reads numbers from rank 0's output, such as a loss: the metrics of the job's file.
//
// A value: what lines have in, numbers out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/logs/line_search.h"

namespace ddprun::agent {

struct MetricDefinition {
  std::string name = {};
  std::string pattern = {};  // PCRE2; its first group is the number, or all that matches if it has none
  std::string place = {};    // "job.toml:7"
};

struct Metric {
  std::string name = {};
  double last = 0;
  double least = 0, most = 0;  // without nan; nan if there was nothing else
  std::uint64_t count = 0;     // of all rounds
};

// One for each definition.
std::vector<LineSearch::Wanted> patterns_of(const std::vector<MetricDefinition>& definitions);

class OutputMetrics {
 public:
  explicit OutputMetrics(const std::vector<MetricDefinition>& definitions);
  // `captured` by patterns_of() the definitions. What is not a number is left out.
  void take_line(const Captures& captured);
  // Those with a new value since the last call, in the order of their definitions.
  std::vector<Metric> take_changed();

 private:
  struct Watched {
    Metric metric;
    bool changed = false;
  };
  std::vector<Watched> watched_;
};

// "0.25", "nan", "inf", "1e-3": the whole text, apart from blanks around it.
std::optional<double> number_in(std::string_view text);

}  // namespace ddprun::agent
