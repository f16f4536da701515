// Watches the workers' lines for the job's rules: a line whose number is bad for too long, or no line for too long. For
// programs that do not use the worker channel.
//
// A value: lines and times in, findings out.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/logs/line_search.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/failure_rules.h"

namespace ddprun::agent {

// What the text that a line rule captures has to be.
struct ValueTest {
  enum class By { any, equal, above, below };
  By by = By::any;
  std::string text = {};  // equal, whatever its case: "nan"
  double number = 0;      // above, below

  bool holds(const std::string& captured) const;
};
// "nan", "> 100", "< 0.1"; empty: neither.
std::optional<ValueTest> read_value_test(const std::string& text);

// Exactly one of pattern and silent is set.
struct OutputRule {
  std::string pattern = {};  // of lines of stdout and stderr; its first group captures the value
  ValueTest value = {};
  Duration lasts = {};                  // every such line has had such a value for so long
  std::optional<Duration> silent = {};  // no worker of this node has written a line for so long, after a first one
  rendezvous::RuleAction action = rendezvous::RuleAction::restart;
  std::string place = {};  // "job.toml:7"
  std::string text = {};   // as in the file: "line = 'loss (\S+)'\nvalue = \"nan\""
};

// One for each rule.
std::vector<LineSearch::Wanted> patterns_of(const std::vector<OutputRule>& rules);

class OutputWatch {
 public:
  explicit OutputWatch(const std::vector<OutputRule>& rules);
  void begin_round();
  void worker_ended(int local_rank);  // what it wrote counts no longer
  // `captured` by patterns_of() the rules.
  void take_line(int local_rank, const Captures& captured, TimePoint now);
  void drop(std::size_t rule);  // its pattern is searched for no longer
  struct Finding {
    int local_rank = 0;  // for silence the one that wrote the last line
    OutputRule rule;
  };
  // The first rule, in their order, that applies now.
  std::optional<Finding> finding(TimePoint now) const;

 private:
  struct Watched {
    OutputRule rule;
    std::map<int, TimePoint> bad_since = {};  // by local rank
  };
  std::vector<Watched> rules_;
  std::optional<TimePoint> last_line_at_;
  int last_writer_ = 0;
};

}  // namespace ddprun::agent
