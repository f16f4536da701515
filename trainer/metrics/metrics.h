// Writes a run's metrics, step by step, to files for other programs: lines of JSON, and TensorBoard's event files.
// After a kill and a resume both have each step once.
//
//   MetricsLog metrics({.jsonl = "metrics.jsonl", .tensorboard = "runs/digits", .resumed_step = at.step}, now);
//   metrics.write({.step = 17, .epoch = 1, .values = {{"loss", 0.25}, {"lr", 0.1}}, .wall_time = now});
//
// For rank 0 only; not thread-safe. Every row is written at once, so that a kill loses none; rows are not synced, so a
// power cut may lose the last seconds.
//
// JSON: one object per line, RFC 8259, in this order:
//   {"step":17,"epoch":1,"time":1754550000.5,"loss":0.25,"lr":0.1}
// JSON has no NaN and no infinities: they are written as null, which every reader accepts (pandas reads NaN). Names
// that are not UTF-8 get replacement characters.
//
// TensorBoard: a new file in the folder for each MetricsLog; every value is a scalar under its name, and so is epoch.
// Scalars are floats there: numbers keep 7 digits, and have NaN and infinities.
//
// A disk error never ends the training: `say` reports it once per file, and the run continues. Rows that could not be
// written are lost; later rows are tried again.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::train {

struct MetricsRow {
  std::int64_t step = 0;  // never decreases; a step may have several rows
  std::int64_t epoch = 0;
  std::vector<std::pair<std::string, double>> values = {};  // none is called step, epoch or time
  double wall_time = 0;                                     // seconds since 1970
};

struct MetricsOptions {
  std::string jsonl = {};        // the file; empty: none
  std::string tensorboard = {};  // the folder, created if missing; empty: none
  // The step after which this run continues. Rows of later steps, written by a killed run, are dropped. Empty: a new
  // run, which drops all rows.
  std::optional<std::int64_t> resumed_step = {};
  std::function<void(const std::string& sentence)> say = {};
};

class MetricsLog {
 public:
  // `now`: seconds since 1970. Throws Error if the JSON file exists and is not one of ours: it is left unchanged.
  MetricsLog(const MetricsOptions& options, double now);
  ~MetricsLog();
  MetricsLog(MetricsLog&&) noexcept;

  void write(const MetricsRow& row);

  // A file of one of the two kinds.
  class Sink;

 private:
  std::function<void(const std::string&)> say_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

// Without the newline.
std::string json_line(const MetricsRow& row);

}  // namespace ddprun::train
