// What a run measures, step by step, in files that other programs read: lines of JSON, and TensorBoard's event files.
// A run that is killed and resumed has each step once in both.
//
//   MetricsLog metrics({.jsonl = "metrics.jsonl", .tensorboard = "runs/digits", .resumed_step = at.step}, now);
//   metrics.write({.step = 17, .epoch = 1, .values = {{"loss", 0.25}, {"lr", 0.1}}, .wall_time = now});
//
// For rank 0 alone; for one thread. Every row is written at once, so that a kill loses none; none is synced, so that a
// power cut may cost the last seconds.
//
// JSON: one object per line, RFC 8259, in this order:
//   {"step":17,"epoch":1,"time":1754550000.5,"loss":0.25,"lr":0.1}
// JSON has no NaN and no infinities: they are null, which every reader takes (pandas makes NaN of it). Names that are
// not UTF-8 get replacement characters.
//
// TensorBoard: a new file in the folder for each MetricsLog; every value is a scalar under its name, and so is epoch.
// Scalars are floats there: numbers keep 7 digits, and have NaN and infinities.
//
// A metrics file is never worth the training: what the disk refuses is told once per file, by `say`, and the run goes
// on. What could not be written is lost; later rows are tried again.
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
  std::int64_t step = 0;  // never less than in the row before; a step may have several rows
  std::int64_t epoch = 0;
  std::vector<std::pair<std::string, double>> values = {};  // none is called step, epoch or time
  double wall_time = 0;                                     // seconds since 1970
};

struct MetricsOptions {
  std::string jsonl = {};        // the file; empty: none
  std::string tensorboard = {};  // the folder, made where it is not there; empty: none
  // The step after which this run goes on. Rows of later steps, written by a run that was killed, are dropped.
  // Nothing: a run from its beginning, which drops all rows.
  std::optional<std::int64_t> resumed_step = {};
  std::function<void(const std::string& sentence)> say = {};
};

class MetricsLog {
 public:
  // `now`: seconds since 1970. Throws Error where the JSON file is there and not one of ours: it is left as it was.
  MetricsLog(const MetricsOptions& options, double now);
  ~MetricsLog();
  MetricsLog(MetricsLog&&) noexcept;

  void write(const MetricsRow& row);

  // A place for rows: a file of one of the two kinds.
  class Sink;

 private:
  std::function<void(const std::string&)> say_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

// Without the newline.
std::string json_line(const MetricsRow& row);

}  // namespace ddprun::train
