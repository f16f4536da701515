#include "trainer/metrics/metrics.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "trainer/metrics/kept_rows.h"
#include "trainer/metrics/row_file.h"
#include "trainer/metrics/tensorboard.h"

namespace ddprun::train {

class MetricsLog::Sink {
 public:
  explicit Sink(std::string what) : what_(std::move(what)) {}
  virtual ~Sink() = default;

  // After a success it does nothing. Throws std::system_error on a disk error.
  virtual void open() = 0;
  // Opens it first if that has failed so far.
  virtual void write(const MetricsRow& row) = 0;

  // Reports only the first error.
  void report_error(const std::string& why, const std::function<void(const std::string&)>& say) {
    if (!error_reported_ && say)
      say("cannot write " + what_ + ": " + why +
          ". The training goes on without these metrics; free some space there, or name another place next time.");
    error_reported_ = true;
  }

 private:
  const std::string what_;
  bool error_reported_ = false;
};

namespace {

using OrderedJson = nlohmann::ordered_json;

class JsonLines : public MetricsLog::Sink {
 public:
  explicit JsonLines(const MetricsOptions& options)
      : Sink("the metrics file " + options.jsonl), path_(options.jsonl), resumed_step_(options.resumed_step) {}

  void open() override {
    if (file_) return;
    auto file = std::make_unique<RowFile>(path_);
    // Only the file's end is dropped, as steps never decrease: the truncation is atomic.
    file->cut(bytes_to_keep(*file, resumed_step_, path_));
    file_ = std::move(file);
  }
  void write(const MetricsRow& row) override {
    open();
    file_->append(json_line(row) + "\n");
  }

 private:
  const std::string path_;
  const std::optional<std::int64_t> resumed_step_;
  std::unique_ptr<RowFile> file_;
};

std::string host_name() {
  char name[256] = {};  // HOST_NAME_MAX is 64
  return gethostname(name, sizeof name - 1) == 0 && *name ? name : "localhost";
}

class EventFile : public MetricsLog::Sink {
 public:
  EventFile(const MetricsOptions& options, double now)
      : Sink("metrics for TensorBoard into " + options.tensorboard),
        folder_(options.tensorboard),
        first_step_(options.resumed_step ? *options.resumed_step + 1 : 0),
        start_time_(now) {}

  void open() override {
    if (file_) return;
    std::filesystem::create_directories(folder_);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    const std::string name = event_file_name(names, static_cast<std::int64_t>(start_time_), host_name(), getpid());
    auto file = std::make_unique<RowFile>(folder_ + "/" + name);
    file->append(tf_record(file_version_event(start_time_)) + tf_record(session_start_event(start_time_, first_step_)));
    file_ = std::move(file);
  }
  void write(const MetricsRow& row) override {
    open();
    auto values = row.values;
    values.emplace_back("epoch", static_cast<double>(row.epoch));
    file_->append(tf_record(scalars_event(row.wall_time, row.step, values)));
  }

 private:
  const std::string folder_;
  const std::int64_t first_step_;
  const double start_time_;
  std::unique_ptr<RowFile> file_;
};

}  // namespace

std::string json_line(const MetricsRow& row) {
  OrderedJson line{{"step", row.step}, {"epoch", row.epoch}, {"time", row.wall_time}};
  for (const auto& [name, value] : row.values) {
    check(!line.contains(name), "a row of metrics has each name once");
    line[name] = value;
  }
  return json_text(line);  // NaN and infinities become null
}

MetricsLog::MetricsLog(const MetricsOptions& options, double now) : say_(options.say) {
  if (!options.jsonl.empty()) sinks_.push_back(std::make_unique<JsonLines>(options));
  if (!options.tensorboard.empty()) sinks_.push_back(std::make_unique<EventFile>(options, now));
  for (const auto& sink : sinks_) {
    try {
      sink->open();
    } catch (const std::system_error& error) {
      sink->report_error(error.code().message(), say_);
    }
  }
}

MetricsLog::~MetricsLog() = default;
MetricsLog::MetricsLog(MetricsLog&&) noexcept = default;

void MetricsLog::write(const MetricsRow& row) {
  for (const auto& sink : sinks_) {
    try {
      sink->write(row);
    } catch (const std::system_error& error) {
      sink->report_error(error.code().message(), say_);
    } catch (const Error& error) {  // the file became readable only now, and is not one of ours
      sink->report_error(error.what(), say_);
    }
  }
}

}  // namespace ddprun::train
