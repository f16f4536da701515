#include "agent/diagnosis/kept_tracebacks.h"

#include <chrono>
#include <sstream>

#include "agent/diagnosis/failure_report.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kAgain{15};  // by then the next round has failed in the same way, or will not
constexpr std::size_t kLinesMax = 60;       // of a traceback in a report

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
  for (const auto& [key, kept] : all)
    if (!quotes(report, kept.text)) kept.show(kept.text);
}

std::vector<std::string> KeptTracebacks::lines_of(Key key) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  std::vector<std::string> lines;
  if (found == kept_.end()) return lines;
  std::istringstream in(found->second.text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(std::move(line));
  if (lines.size() > kLinesMax) lines.clear();
  return lines;
}

}  // namespace ddprun::agent
