#include "agent/desk/last_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "agent/diagnosis/error_file.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kCutMarkBytes = 4;  // " ..." of printable_line()
constexpr std::string_view kOwnLine = "ddprun: ";
constexpr std::chrono::seconds kCoarseTime{2};  // of some file systems

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::string last_redraw(const std::string& line) {
  const std::vector<std::string> redraws = split(line, '\r');
  for (auto redraw = redraws.rbegin(); redraw != redraws.rend(); ++redraw)
    if (std::string text = trimmed(printable_line(trimmed(*redraw), rendezvous::kOutputLineMax - kCutMarkBytes));
        !text.empty())
      return text;
  return {};
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Of ranks that write one file only the file's line is known, not whose it is.
using RanksByFile = std::map<FileId, std::set<int>>;
RanksByFile ranks_by_file(const std::vector<WorkerOutput>& workers) {
  RanksByFile out;
  for (const WorkerOutput& worker : workers)
    for (const OutputEnd& end : worker.ends)
      if (end.file) out[*end.file].insert(worker.rank);
  return out;
}

struct Newest {
  rendezvous::OutputLine line;
  std::optional<FileId> file;
};

std::optional<Newest> newest_of(const WorkerOutput& worker, Duration run_time) {
  std::optional<Newest> out;
  bool knows_stdout = false;
  for (const OutputEnd& end : worker.ends) {
    knows_stdout |= end.is_stdout;
    if (out && out->line.age <= end.age) continue;
    if (end.file && end.age > run_time + kCoarseTime) continue;
    if (std::string text = end.file ? last_line_of_workers(end.bytes) : last_line(end.bytes); !text.empty())
      out = {{worker.rank, end.age, std::move(text)}, end.file};
  }
  return knows_stdout ? out : std::nullopt;
}

}  // namespace

std::string last_line(std::string_view end) {
  while (!end.empty() && continues_character(end.front())) end.remove_prefix(1);  // the first one was cut
  std::vector<std::string> lines = split(end, '\n');
  const std::string unfinished = std::exchange(lines.back(), {});
  if (unfinished.find('\r') != unfinished.npos) lines.back() = unfinished;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (std::string text = last_redraw(*line); !text.empty()) return text;
  return last_redraw(unfinished);
}

std::string last_line_of_workers(std::string_view end) {
  std::string kept;
  for (const std::string& line : split(end, '\n'))
    if (!line.starts_with(kOwnLine)) kept += line + "\n";
  if (!kept.empty()) kept.pop_back();
  return last_line(kept);
}

std::vector<rendezvous::OutputLine> last_lines(const std::vector<WorkerOutput>& workers, Duration run_time) {
  const RanksByFile ranks = ranks_by_file(workers);
  std::set<FileId> told;
  std::vector<rendezvous::OutputLine> out;
  for (const WorkerOutput& worker : workers) {
    auto newest = newest_of(worker, run_time);
    if (!newest) continue;
    const bool shared = newest->file && ranks.at(*newest->file).size() > 1;
    if (shared && !told.insert(*newest->file).second) continue;
    if (shared) newest->line.rank = rendezvous::kSeveralRanks;
    out.push_back(std::move(newest->line));
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.age < b.age; });
  if (out.size() > rendezvous::kOutputLinesMax) out.resize(1);
  return out;
}

}  // namespace ddprun::agent
