#include "agent/diagnosis/failure_report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <utility>

#include "agent/diagnosis/last_lines.h"
#include "agent/diagnosis/traceback_hold.h"
#include "agent/process/exit_status.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kLabelColumns = 14;
constexpr std::size_t kKindsMax = 8;    // to fit a screen
constexpr std::size_t kRangesMax = 12;  // of ranks with the same end
constexpr std::size_t kErrorLinesMax = 20;
constexpr std::size_t kLineBytesMax = 400;  // five lines of a terminal

std::string seconds(std::chrono::nanoseconds time, const char* format = "%.1f s") {
  char text[32];
  std::snprintf(text, sizeof text, format, std::chrono::duration<double>(time).count());
  return text;
}

std::string local_time_ms(WallTime when) {
  const std::time_t whole = std::chrono::system_clock::to_time_t(when);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  std::tm parts{};
  localtime_r(&whole, &parts);
  char date[32], text[48];
  std::strftime(date, sizeof date, "%F %T", &parts);
  std::snprintf(text, sizeof text, "%s.%03d", date, static_cast<int>(since % 1000));
  return text;
}

std::string margin(const std::string& label) {
  std::string out = "  " + label + ":";
  out.resize(kLabelColumns, ' ');
  return out;
}

// A name or path, unchanged so that it can be copied.
void exactly(std::ostringstream& out, const std::string& label, const std::string& text) {
  if (!text.empty()) out << margin(label) << visible(text) << '\n';
}

// Broken between words if a line would be wider than the screen.
void labelled(std::ostringstream& out, const std::string& label, const std::string& text) {
  if (text.empty()) return;
  std::string line = margin(label);
  bool fresh = true;
  std::istringstream words(text);
  for (std::string word; words >> word; fresh = false) {
    if (!fresh && line.size() + 1 + word.size() > kColumns) {
      out << line << '\n';
      line.assign(kLabelColumns, ' ');
      fresh = true;
    }
    line += (fresh ? "" : " ") + word;
  }
  out << line << '\n';
}

constexpr std::string_view kQuoted = "    | ";

void quoted(std::ostringstream& out, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) out << kQuoted << line << '\n';
}

std::string cut(const std::string& text) {
  return text.size() > kLineBytesMax ? text.substr(0, kLineBytesMax) + " ..." : text;
}

std::vector<std::string> printable(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const std::string& line : lines) out.push_back(printable_line(line, kLineBytesMax));
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(std::move(line));
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

// A traceback shows its kind at the start and the error at the end.
std::vector<std::string> shortened(std::vector<std::string> lines) {
  if (lines.size() <= kErrorLinesMax) return lines;
  const std::size_t left_out = lines.size() - kErrorLinesMax + 1;
  lines.erase(lines.begin() + 1, lines.begin() + 1 + static_cast<std::ptrdiff_t>(left_out));
  lines.insert(lines.begin() + 1, "... (" + std::to_string(left_out) + " lines)");
  return lines;
}

bool all_among(const std::vector<std::string>& lines, const std::vector<std::string>& others) {
  return std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return std::find(others.begin(), others.end(), line) != others.end();
  });
}

void add_error(std::ostringstream& out, const FailureReport& report, const std::vector<std::string>& last_lines) {
  const auto lines = printable(shortened(lines_of(report.error.text)));
  if (lines.empty() || all_among(lines, last_lines)) return;  // Python prints what it records
  out << "  its error file says" << (report.error.when ? ", at " + local_time_ms(*report.error.when) : "") << ":\n";
  quoted(out, lines);
}

std::string ranges(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    parts.push_back(std::to_string(ranks[i]) + (last > i ? "-" + std::to_string(ranks[last]) : ""));
    i = last + 1;
  }
  std::string out = ranks.size() > 1 ? "ranks " : "rank ";
  for (std::size_t i = 0; i < parts.size() && i < kRangesMax; ++i) out += (i ? ", " : "") + parts[i];
  return parts.size() > kRangesMax ? out + ", ..." : out;
}

// "was killed" in the plural.
std::string of_many(const std::string& words) { return words.starts_with("was ") ? "were " + words.substr(4) : words; }

std::string where_in_words(const FailureReport& report) {
  return report.host + (report.pid ? ", pid " + std::to_string(report.pid) : "");
}

std::string when_in_words(const FailureReport& report) {
  const std::string round = "in round " + std::to_string(report.failure.round);
  if (!report.pid) return local_time_ms(report.when) + ", " + round;
  return local_time_ms(report.when) + ", " + seconds(report.into_round, "%.3f s") + " after its start, " + round;
}

// `explained`: another line says why it could not be started.
std::string who_and_how(const rendezvous::Failure& failure, bool explained) {
  const bool told = failure.local_rank == failure.rank;  // as on one node
  return "rank " + std::to_string(failure.rank) +
         (told ? " " : " (local rank " + std::to_string(failure.local_rank) + ") ") +
         (failure.status.start_error && explained ? "could not be started" : in_words(failure));
}

struct SortedEnds {
  std::size_t stopped = 0;
  std::vector<OtherEnd> failed;
};

SortedEnds sorted(const std::vector<OtherEnd>& others) {
  SortedEnds out;
  for (const OtherEnd& other : others)
    if (was_stopped(other.status))
      ++out.stopped;
    else if (!other.status.ok())
      out.failed.push_back(other);
  return out;
}

// ": KeyError: 'lr' (train.py:12)"
std::string with_place(const std::string& error, const FailureReport& report) {
  const std::string place = place_of_traceback(report.last_lines);
  return error.empty()
             ? ""
             : ": " + printable_line(error, kLineBytesMax) + (place.empty() ? "" : " (" + visible(place) + ")");
}

std::string sentence(const std::string& words) { return words + (words.ends_with('.') ? "\n" : ".\n"); }

// "rank 1", "ranks 0 and 2", "all 3 ranks"; of a single node.
std::string all_alike(const FailureReport& report) {
  std::vector<int> ranks{report.failure.rank};
  for (const OtherEnd& other : report.others)
    if (other.alike) ranks.push_back(other.rank);
  std::sort(ranks.begin(), ranks.end());
  if (ranks.size() > 1 && ranks.size() == static_cast<std::size_t>(report.world_size))
    return "all " + std::to_string(ranks.size()) + " ranks";
  return ranges(ranks);
}

// A line for comparing ranks: without its own, and without the thread, as faulthandler writes "Current thread
// 0x00007f2c (most recent call first):".
std::string alike(std::string_view line) {
  constexpr std::string_view kThread = "hread 0x";
  std::string out(without_rank(line));
  const std::size_t number = out.find(kThread);
  if (number == out.npos) return out;
  return out.erase(number, out.find(' ', number + kThread.size()) - number);
}

}  // namespace

std::string failure_in_words(const rendezvous::Failure& failure, bool several_nodes) {
  std::string out = "rank " + std::to_string(failure.rank);
  if (several_nodes && !failure.host.empty()) out += " on " + visible(failure.host);
  out += " " + in_words(failure);
  return failure.place.empty() ? out : out + " in " + visible(failure.place);
}

std::string headline(const rendezvous::Failure& failure, std::chrono::nanoseconds into_round) {
  return who_and_how(failure, false) +
         (failure.status.start_error ? " in round " : ", " + seconds(into_round) + " into round ") +
         std::to_string(failure.round);
}

std::string ends_in_words(const std::vector<OtherEnd>& ends) {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;
  for (const OtherEnd& end : ends) {
    const std::string how = in_words(end.status);
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == how; });
    if (kind == kinds.end()) kind = kinds.insert(kind, {how, {}});
    kind->second.push_back(end.rank);
  }
  std::string out;
  for (std::size_t i = 0; i < kinds.size() && i < kKindsMax; ++i)
    out += (i ? "; " : "") + ranges(kinds[i].second) + " " +
           (kinds[i].second.size() > 1 ? of_many(kinds[i].first) : kinds[i].first);
  return kinds.size() > kKindsMax ? out + "; others in other ways" : out;
}

bool quotes(const std::string& report, const std::string& lines) {
  std::vector<std::string> quoted_lines, wanted;
  for (const std::string& line : lines_of(report))
    if (line.starts_with(kQuoted)) quoted_lines.push_back(alike(std::string_view(line).substr(kQuoted.size())));
  for (const std::string& line : lines_of(lines))
    if (!line.empty()) wanted.push_back(printable_line(alike(line), kLineBytesMax));
  if (!quoted_lines.empty() || wanted.empty()) return all_among(wanted, quoted_lines);
  return report.substr(0, report.find('\n')).find(": " + wanted.back()) != report.npos;  // a short one
}

std::string to_text(const FailureReport& report) {
  const bool is_short = report.failure.cannot_begin || report.failure.kind == rendezvous::FailureClass::usage;
  if (!is_short || report.last_lines.empty()) return to_full_text(report);
  const std::string log = report.log.empty() ? "" : "; its log is " + visible(report.log);
  std::ostringstream out;
  out << "ddprun: the job failed: " << all_alike(report) << ' ' << in_words(report.failure);
  if (report.is_shown && report.meaning.empty() && report.failure.kind == rendezvous::FailureClass::usage) {
    out << ", a usage error: no restart" << log << ".\n";  // what was wrong stands above
    return out.str();
  }
  out << sentence(report.is_shown ? "" : with_place(last_line_to_compare(report.last_lines), report));
  if (!report.meaning.empty())
    exactly(out, "meaning", report.meaning);
  else if (!report.is_shown)
    exactly(out, "program", cut(report.program));
  exactly(out, "class", name_of(report.failure.kind) + ", no restart: " + report.reason + log);
  return out.str();
}

std::string to_full_text(const FailureReport& report) {
  const auto last_lines = printable(report.last_lines);
  const SortedEnds others = sorted(report.others);
  std::ostringstream out;
  const bool by_exception = report.failure.status.code == 1;  // as Python ends of one that nobody has caught
  out << sentence("ddprun: the job failed: " + who_and_how(report.failure, !report.meaning.empty()) +
                  (by_exception ? with_place(error_of_traceback(report.last_lines), report) : ""));
  exactly(out, "program", cut(report.program));
  labelled(out, "where", where_in_words(report));
  labelled(out, "when", when_in_words(report));
  if (report.failure.kind != rendezvous::FailureClass::clean) labelled(out, "class", name_of(report.failure.kind));
  labelled(out, "meaning", report.meaning);
  labelled(out, "note", report.note);
  labelled(out, "core", report.core);
  labelled(out, "no restart", report.reason);
  labelled(out, "afterwards", ends_in_words(others.failed));
  if (others.stopped)
    labelled(
        out, "stopped",
        std::to_string(others.stopped) + (others.stopped > 1 ? " other workers" : " other worker") + ", by ddprun");
  exactly(out, "log", report.log);
  add_error(out, report, last_lines);
  if (!last_lines.empty()) out << "  the last lines of its stderr:\n";
  quoted(out, last_lines);
  return out.str();
}

}  // namespace ddprun::agent
