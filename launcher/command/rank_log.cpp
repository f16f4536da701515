#include "launcher/command/rank_log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/jobs/job_refused.h"
#include "launcher/running/live_job.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kAskAgain{500};
constexpr std::size_t kBlock = std::size_t{64} * 1024;

void say(const std::string& sentence) { print_line(stderr, "ddprun log: " + sentence); }

// Two streams in files of their own are told apart as by tail(1).
class Printer {
 public:
  explicit Printer(int rank) : rank_(rank) {}

  void print(const agent::LogAnswer& answer) {
    if (round_ != 0 && answer.round != round_)
      flush(), say("round " + std::to_string(answer.round) + " begins, on " + visible(answer.host) + ".");
    round_ = answer.round;
    for (const agent::LogPart& part : answer.parts) {
      print_title(part.stream);
      print(part.bytes, part.left_out);
    }
    flush();
  }
  void print_file(const std::string& stream, const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes(kBlock, '\0');
    for (bool titled = false; in;) {
      in.read(bytes.data(), kBlock);
      const std::string_view read(bytes.data(), static_cast<std::size_t>(in.gcount()));
      if (!read.empty() && !std::exchange(titled, true)) print_title(stream);
      print(read, 0);
    }
    flush();
  }
  bool has_printed() const { return round_ != 0; }

 private:
  void print_title(const std::string& stream) {
    if (std::exchange(stream_, stream) != stream)
      std::printf("%s==> rank %d, %s <==\n", at_line_begin_ ? "" : "\n", rank_,
                  stream.empty() ? "both" : stream.c_str());
  }
  void print(std::string_view bytes, std::uint64_t left_out) {
    if (left_out > 0) flush(), say(std::to_string(left_out) + " bytes before this are gone: it prints too fast.");
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    if (!bytes.empty()) at_line_begin_ = bytes.back() == '\n';
  }
  static void flush() {
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw Error("cannot write the output", std::strerror(errno));
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

int show_files(const JobRecord& record, int rank) {
  const nlohmann::json submitted = record.submitted();
  const std::string folder = submitted.is_object() ? submitted.value("log_folder", "") : "";
  if (folder.empty())
    throw JobRefused(record.id() +
                     " has ended, and what its ranks had printed last was kept as long as it ran; "
                     "--log-dir DIR keeps all in files.");
  const fs::path files = folder_of_rank(folder, rank);
  if (files.empty())
    throw JobRefused("there are no files round-N/rank-" + std::to_string(rank) + " of " + record.id() + " below " +
                     visible(folder) + ".");
  Printer printer(rank);
  for (const std::string stream : {"stdout", "stderr"}) printer.print_file(stream, files / (stream + ".log"));
  return kSuccess;
}

// `why`: it is no running job.
int show_ended(const JobWords& words, const std::string& why) {
  const auto found = find_record(records_folder(own_environment()), words.handle);
  const auto* record = std::get_if<JobRecord>(&found);
  if (!record) throw JobRefused(why);
  if (!is_plain(*record))
    throw JobRefused("the output of one rank can be had while its job runs, on a machine where it does; ddprun log " +
                     record->id() + " prints that of all.");
  return show_files(*record, *words.rank);
}

// Empty: the job has ended. Elsewhere that is seen by its endpoint, once it has answered.
std::optional<agent::LogAnswer> next_answer(LiveJob& job, const agent::LogRequest& request, bool may_be_gone) {
  try {
    return job.log(request);
  } catch (const Error& error) {
    if (!may_be_gone) throw;
    say(std::string("nobody answers any more: ") + error.what());
    return {};
  }
}

int show_running(LiveJob& job, const JobWords& words, const std::string& id) {
  Printer printer(*words.rank);
  agent::LogRequest request{*words.rank};
  std::string said;
  for (;;) {
    const auto answer = next_answer(job, request, printer.has_printed() && !words.access.empty());
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
  std::string why;
  try {
    job.emplace(words);
  } catch (const JobRefused& refused) {
    if (!words.access.empty()) throw;
    why = refused.what();
  }
  if (job) return show_running(*job, words, words.handle.empty() ? "the job" : visible(words.handle));
  return show_ended(words, why);
}

}  // namespace ddprun::launcher
