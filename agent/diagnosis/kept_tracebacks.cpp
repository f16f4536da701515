#include "agent/diagnosis/kept_tracebacks.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "agent/diagnosis/failure_report.h"
#include "agent/diagnosis/traceback_hold.h"
#include "rendezvous/coordination/account/ranks_in_words.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kAgain{15};  // by then the next round has failed in the same way, or will not
constexpr std::size_t kLinesMax = 60;       // of a traceback in a report

std::string without_ranks(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) out.append(without_rank(line)).append("\n");
  return out;
}

// Of a fatal error with the stacks of many threads: the error, and that of the thread that had it.
std::vector<std::string> of_current_thread(const std::vector<std::string>& lines) {
  const auto begins = [](std::string_view with) {
    return [with](const std::string& line) { return line.starts_with(with); };
  };
  const auto first = std::find_if(lines.begin(), lines.end(), begins("Current thread 0x"));
  if (first == lines.end()) return {};
  auto last = std::find_if(first + 1, lines.end(), [&](const std::string& line) { return !begins("  ")(line); });
  last = std::min(last, first + std::min<std::ptrdiff_t>(kLinesMax, lines.end() - first));
  std::vector<std::string> out{lines.front()};
  out.insert(out.end(), first, last);
  out.push_back("... (" + std::to_string(lines.size() - out.size()) + " more lines are shown above)");
  return out;
}

}  // namespace

void KeptTracebacks::keep(Key key, std::string text, Show show, TimePoint now) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = kept_.empty();
    kept_.insert_or_assign(key, Kept{std::move(text), std::move(show)});
  }
  if (!first) return;
  timer_.expires_at(now + kAgain);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) show_unless_quoted("");
  });
}

void KeptTracebacks::show_unless_quoted(const std::string& report) {
  std::map<Key, Kept> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(kept_);
  }
  timer_.cancel();
  std::map<std::pair<int, std::string>, std::vector<int>> ranks_of;  // round, text → who wrote it
  for (const auto& [key, kept] : all)
    if (!quotes(report, kept.text)) ranks_of[{key.first, without_ranks(kept.text)}].push_back(key.second);
  for (const auto& [key, kept] : all) {
    const auto found = ranks_of.find({key.first, without_ranks(kept.text)});
    if (found == ranks_of.end()) continue;
    kept.show(kept.text);
    std::vector<int> others(found->second.begin() + 1, found->second.end());
    ranks_of.erase(found);
    if (!others.empty()) say_("ddprun: " + rendezvous::ranks_in_words(others) + " wrote the same.");
  }
}

std::vector<std::string> KeptTracebacks::lines_of(Key key) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  std::vector<std::string> lines;
  if (found == kept_.end()) return lines;
  std::istringstream in(found->second.text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(std::move(line));
  if (lines.size() <= kLinesMax) return lines;
  return begins_fatal_error(lines.front()) ? of_current_thread(lines) : std::vector<std::string>();
}

}  // namespace ddprun::agent
