#include "launcher/command/report_command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "agent/http/page/page.h"
#include "agent/process/files/regular_file.h"
#include "launcher/command/job_submission.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/jobs/job_record.h"
#include "launcher/report/event_reader.h"
#include "launcher/report/job_report.h"
#include "launcher/report/report_text.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kJobsNamedMax = 8;

int complain(const std::string& sentence) {
  print_line(stderr, "ddprun report: " + sentence);
  return kUsage;
}

std::string listed(const std::vector<std::string>& jobs) {
  std::string out;
  for (std::size_t i = 0; i < jobs.size() && i < kJobsNamedMax; ++i) out += (i ? ", " : "") + jobs[i];
  return jobs.size() > kJobsNamedMax ? out + " and others" : out;
}

// For a job instead of a file, which goes before it: the file of its events, and its run id. A sentence: there is none.
std::string find_events(ReportWords& request) {
  std::error_code failed;
  const auto environment = own_environment();
  if (std::filesystem::exists(request.file, failed) || !has_records_folder(environment)) return "";
  const auto found = find_record(records_folder(environment), request.file);
  const auto* record = std::get_if<JobRecord>(&found);
  if (!record) return "";
  request.file = record->path("events.jsonl");
  if (!is_plain(*record)) return "";
  const nlohmann::json submitted = record->submitted();
  request.file = submitted.is_object() ? submitted.value("event_log", "") : "";
  if (request.file.empty())
    return record->id() + " has kept no events. Start such a job with --event-log-handler file:EVENTS.";
  if (request.run_id.empty()) request.run_id = submitted.value("run_id", "");
  return "";
}

// Why it cannot be written; empty: it can, as far as its name says.
std::string refusal_of_page(const ReportWords& request) {
  const std::filesystem::path page(request.page), folder = page.parent_path();
  if (request.page.empty()) return "";
  if (request.json) return "--json and -o exclude each other: leave out one of them.";
  if (page.extension() != ".html") return "-o is '" + request.page + "'; it takes a name that ends with .html.";
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    return "-o is '" + request.page + "', and there is no folder '" + folder.string() + "': make it first.";
  return "";
}

// Of a job that `ddprun run` or `submit` started: its events lie in its record, beside its description.
std::string snapshot_of_record(const std::string& events) try {
  const JobRecord record(std::filesystem::absolute(events).parent_path());
  if (record.submitted().is_null()) return {};
  const JobDescription job = load_job(record).job;
  const std::filesystem::path file = std::filesystem::path(job.source_dir) / job.snapshot.path;
  return !job.snapshot.path.empty() && std::filesystem::file_size(file) > 0 ? file.string() : "";
} catch (const std::exception&) {
  return {};  // the folder of its program is not here any more, for example
}

int write_page(const std::string& file, const JobReport& report) {
  errno = 0;
  if (agent::replace_file(file, agent::page_with(to_page_data(report)))) return kSuccess;
  return complain("cannot write '" + file + "': " + std::strerror(errno) + ".");
}

// The value of the option in that word, behind a '=' or in the next one; empty: it is another word.
std::optional<std::string> value_of(const std::string& name, const std::vector<std::string>& words, std::size_t& at,
                                    ReportWords& out) {
  const std::string& word = words[at];
  if (word.starts_with("--") && word.starts_with(name + "=")) return word.substr(name.size() + 1);
  if (word != name) return {};
  if (at + 1 < words.size()) return words[++at];
  out.mistake = name + " needs a value.";
  return "";
}

}  // namespace

ReportWords read_report_words(const std::vector<std::string>& words) {
  ReportWords out;
  for (std::size_t i = 0; i < words.size() && out.mistake.empty(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") return {.help = true};
    if (words[i] == "--json") {
      out.json = true;
    } else if (const auto page = value_of("-o", words, i, out)) {
      out.page = *page;
    } else if (const auto output = value_of("--output", words, i, out)) {
      out.page = *output;
    } else if (const auto run_id = value_of("--run-id", words, i, out)) {
      out.run_id = *run_id;
    } else if (words[i].starts_with('-')) {
      out.mistake = no_option(words[i], {"--json", "--run-id", "--output"}, "ddprun report");
    } else if (!out.file.empty()) {
      out.mistake = "'" + visible(words[i]) + "' is one word too many.";
    } else {
      out.file = words[i];
    }
  }
  if (out.mistake.empty() && out.file.empty())
    out.mistake = "it takes a file of events, or a job: ddprun report --help.";
  return out;
}

std::string report_help() {
  return "usage: ddprun report EVENTS|JOB [options]\n"
         "Prints where the time of a job went, and what each of its rounds has cost.\n"
         "\n"
         "  EVENTS                   the file that --event-log-handler file:EVENTS has\n"
         "                           written, of one agent or of all\n"
         "  JOB                      a job of ddprun list\n"
         "  -o, --output FILE.html   draws it as a page for browsers, in one file, which\n"
         "                           is replaced if it is there\n"
         "  --run-id ID              the job, if the file has several\n"
         "  --json                   as JSON\n"
         "\n"
         "To run a program of that name: ddprun ./report\n";
}

int report_events(const std::vector<std::string>& words) {
  ReportWords request = read_report_words(words);
  if (request.help) return print_text(stdout, report_help()), kSuccess;
  if (!request.mistake.empty()) return complain(request.mistake);
  if (const std::string refusal = refusal_of_page(request); !refusal.empty()) return complain(refusal);
  if (const std::string none = find_events(request); !none.empty()) return complain(none);
  if (std::error_code error; std::filesystem::is_directory(request.file, error))
    return complain("'" + request.file + "' is a folder; name the file of events in it, such as " +
                    (std::filesystem::path(request.file) / "events.jsonl").string() + ".");
  std::ifstream in(request.file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || in.bad()) return complain("cannot read '" + request.file + "': " + std::strerror(errno) + ".");
  const EventFile file = read_events(text);
  for (const std::string& problem : file.problems) complain("'" + request.file + "': " + problem + ".");
  if (!file.problems.empty()) return kUsage;
  const std::vector<std::string> jobs = jobs_of(file.events);
  if (jobs.empty()) return complain("'" + request.file + "' has no events.");
  if (jobs.size() > 1 && request.run_id.empty())
    return complain("'" + request.file + "' has events of several jobs; name one of them by --run-id: " + listed(jobs) +
                    ".");
  auto report = report_of(file.events, request.run_id.empty() ? jobs.front() : request.run_id);
  if (!report && !request.run_id.empty())
    return complain("'" + request.file + "' has no round of the job " + request.run_id +
                    "; its jobs are: " + listed(jobs) + ".");
  if (!report) return complain("'" + request.file + "' has no round: the job has run no worker.");
  report->snapshot_file = snapshot_of_record(request.file);
  if (!request.page.empty()) return write_page(request.page, *report);
  print_text(stdout, request.json ? to_json(*report) : to_text(*report));
  return kSuccess;
}

}  // namespace ddprun::launcher
