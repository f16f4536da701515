#include "launcher/rank_log.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "launcher/exit_codes.h"
#include "launcher/inputs.h"
#include "launcher/job_submission.h"
#include "launcher/live_job.h"
#include "launcher/machine.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kAskAgain{500};

void say(const std::string& sentence) { print_line(stderr, "ddprun log: " + sentence); }

// Two streams in files of their own are told apart as by tail(1).
class Printer {
 public:
  explicit Printer(int rank) : rank_(rank) {}

  void print(const agent::LogAnswer& answer) {
    if (round_ != 0 && answer.round != round_)
      say("round " + std::to_string(answer.round) + " begins, on " + visible(answer.host) + ".");
    round_ = answer.round;
    for (const agent::LogPart& part : answer.parts) print(part);
    std::fflush(stdout);
  }
  bool has_printed() const { return round_ != 0; }

 private:
  void print(const agent::LogPart& part) {
    if (part.left_out > 0) say(std::to_string(part.left_out) + " bytes before this are gone: it prints too fast.");
    if (part.stream != stream_)
      std::printf("%s==> rank %d, %s <==\n", at_line_begin_ ? "" : "\n", rank_, part.stream.c_str());
    stream_ = part.stream;
    std::fwrite(part.bytes.data(), 1, part.bytes.size(), stdout);
    if (!part.bytes.empty()) at_line_begin_ = part.bytes.back() == '\n';
  }

  const int rank_;
  int round_ = 0;
  std::string stream_ = {};
  bool at_line_begin_ = true;
};

// Of "round-12".
int number_of_round(const std::string& name) {
  constexpr std::string_view kPrefix = "round-";
  int number = 0;
  if (name.starts_with(kPrefix)) std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  return number;
}

// Of the last round in which the rank has any; empty: there are none.
fs::path folder_of_rank(const fs::path& run, int rank) {
  std::error_code failed;
  int newest = 0;
  for (const auto& entry : fs::directory_iterator(run, failed))
    if (fs::is_directory(entry.path() / ("rank-" + std::to_string(rank)), failed))
      newest = std::max(newest, number_of_round(entry.path().filename()));
  return newest == 0 ? "" : run / ("round-" + std::to_string(newest)) / ("rank-" + std::to_string(rank));
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

JobRecord ended_job(const std::string& handle) {
  const auto found = find_record(records_folder(own_environment()), handle);
  if (const auto* record = std::get_if<JobRecord>(&found)) return *record;
  throw JobRefused(std::get<std::string>(found));
}

int show_files(const JobRecord& record, int rank) {
  const nlohmann::json submitted = record.submitted();
  const std::string folder = submitted.is_object() ? submitted.value("log_folder", "") : "";
  if (!is_plain(record))
    throw JobRefused(record.id() + " does not run here, and its log has all ranks: ddprun log " + record.id() + ".");
  if (folder.empty())
    throw JobRefused(record.id() +
                     " has ended, and what its ranks had printed last was kept as long as it ran; "
                     "--log-dir DIR keeps all in files.");
  const fs::path files = folder_of_rank(folder, rank);
  if (files.empty())
    throw JobRefused("there are no files of rank " + std::to_string(rank) + " of " + record.id() + " below " +
                     visible(folder) + ".");
  Printer printer(rank);
  agent::LogAnswer answer{.round = 1};
  for (const std::string stream : {"stdout", "stderr"})
    if (std::string bytes = content_of(files / (stream + ".log")); !bytes.empty())
      answer.parts.push_back({stream, std::move(bytes)});
  printer.print(answer);
  return kSuccess;
}

int show_running(LiveJob& job, const JobWords& words, const std::string& id) {
  Printer printer(*words.rank);
  agent::LogRequest request{*words.rank};
  std::string said;
  for (;;) {
    const auto answer = job.log(request);
    if (!answer && printer.has_printed()) return kSuccess;
    if (!answer) throw JobRefused(id + " has ended.");
    if (!answer->problem.empty()) {
      if (!words.follow || !answer->passes) throw JobRefused(visible(answer->problem) + ".");
      if (std::exchange(said, answer->problem) != answer->problem) say(visible(answer->problem) + "; asking again.");
      std::this_thread::sleep_for(kAskAgain);
      continue;
    }
    printer.print(*answer);
    request.from = answer->next;
    if (!answer->more && !words.follow) return kSuccess;
    request.waits = !answer->more;
  }
}

}  // namespace

int show_rank_log(const JobWords& words) {
  std::optional<LiveJob> job;
  try {
    job.emplace(words);
  } catch (const JobRefused&) {
    if (!words.access.empty()) throw;
  }
  if (job) return show_running(*job, words, words.handle.empty() ? "the job" : visible(words.handle));
  return show_files(ended_job(words.handle), *words.rank);
}

}  // namespace ddprun::launcher
