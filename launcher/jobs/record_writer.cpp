#include "launcher/jobs/record_writer.h"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/process/files/regular_file.h"
#include "launcher/jobs/recurring_problem.h"
#include "rendezvous/base/error.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

void write_now(const JobRecord& record, const RecordContent& content) {
  record.write("status.json", content.status);
  record.write("result.json", content.result);
}

std::string cannot_write(const fs::path& file, const std::string& why) {
  return "cannot write " + file.string() + ": " + why;
}

// Others may read it.
std::string write_result(const fs::path& to, const std::string& text) {
  return agent::replace_file(to, text) ? "" : cannot_write(to, std::strerror(errno));
}

std::string copy_log(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  if (fs::exists(from, failed)) fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  return failed ? cannot_write(to, failed.message()) : "";
}

}  // namespace

struct RecordWriter::Shared {
  Shared(JobRecord of, std::function<void(const std::string&)> tell) : record(std::move(of)), say(std::move(tell)) {}

  const JobRecord record;
  const std::function<void(const std::string&)> say;
  std::mutex mutex = {};
  std::optional<RecordContent> next = {};
  RecurringProblem problem = {};

  void write_next() {
    std::unique_lock lock(mutex);
    const std::optional<RecordContent> content = std::exchange(next, std::nullopt);
    lock.unlock();
    std::string why;
    try {
      write_now(record, *content);
    } catch (const std::exception& error) {
      why = error.what();
      if (why.ends_with('.')) why.pop_back();
    }
    lock.lock();
    const std::string sentence =
        problem.on(why, "the job's record is not up to date; the job goes on, and it is written again later",
                   "the job's record is up to date again");
    lock.unlock();
    if (!sentence.empty()) say(sentence);
  }
};

RecordWriter::RecordWriter(JobRecord record, const std::function<void(const std::string&)>& say)
    : shared_(std::make_shared<Shared>(std::move(record), say)),
      record_files_([say](const std::string& text) { say(text + "."); }),
      output_files_([say](const std::string& text) { say(text + "."); }) {}

void RecordWriter::write_first(const RecordContent& content) const { write_now(shared_->record, content); }

void RecordWriter::write(RecordContent content) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (std::exchange(shared_->next, std::move(content))) return;  // the thread has not come to the one before
  }
  const auto work = [shared = shared_]() -> std::string {
    shared->write_next();
    return {};
  };
  if (!record_files_.call("the job's record " + shared_->record.folder().string(), work)) work();
}

bool RecordWriter::fails() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->problem.fails();
}

void RecordWriter::hand_over(const fs::path& folder, const nlohmann::json& result) {
  const fs::path result_file = folder / "result.json", log_file = folder / "log";
  const auto post = [this](const fs::path& file, const std::function<std::string()>& work) {
    if (output_files_.post(file.string(), 0, work)) return;
    if (const std::string problem = work(); !problem.empty()) shared_->say(problem + ".");
  };
  post(result_file, [to = result_file, text = text_of(result)] { return write_result(to, text); });
  post(log_file, [from = shared_->record.path("log"), to = log_file] { return copy_log(from, to); });
}

}  // namespace ddprun::launcher
