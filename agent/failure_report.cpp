#include "agent/failure_report.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

#include "agent/exit_status.h"

namespace ddprun {
namespace {

constexpr std::size_t kRawMax = 4096;
constexpr std::size_t kOthersMax = 8;  // a screen, not a list of a thousand ranks

std::string seconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

std::string local_time(std::chrono::system_clock::time_point when) {
  const std::time_t whole = std::chrono::system_clock::to_time_t(when);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  std::tm parts{};
  localtime_r(&whole, &parts);
  char date[32], text[48];
  std::strftime(date, sizeof date, "%F %T", &parts);
  std::snprintf(text, sizeof text, "%s.%03d", date, static_cast<int>(since % 1000));
  return text;
}

void indented(std::ostringstream& out, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out << "    | " << line << '\n';
}

void name_others(std::ostringstream& out, const std::vector<std::string>& others) {
  if (others.empty()) return;
  out << "  afterwards: ";
  for (std::size_t i = 0; i < others.size() && i < kOthersMax; ++i) out << (i ? "; " : "") << others[i];
  if (others.size() > kOthersMax) out << "; and " << others.size() - kOthersMax << " more";
  out << '\n';
}

}  // namespace

std::string headline(const Failure& failure, std::chrono::nanoseconds into_round) {
  return "rank " + std::to_string(failure.rank) + " (local rank " + std::to_string(failure.local_rank) + ") " +
         in_words(failure.status) +
         (failure.status.start_error ? " in round " : ", " + seconds(into_round) + " into round ") +
         std::to_string(failure.round);
}

std::string to_text(const FailureReport& report) {
  std::ostringstream out;
  out << "ddprun: the job failed: " << headline(report.failure, report.into_round) << ".\n"
      << "  program:    " << report.program << '\n';
  if (const std::string why = hint(report.failure.status); !why.empty()) out << "  meaning:    " << why << '\n';
  out << "  when:       " << local_time(report.when) << " on " << report.host;
  if (report.pid) out << ", pid " << report.pid;
  out << "\n  no restart: " << report.reason << '\n';
  name_others(out, report.others);
  if (!report.log.empty()) out << "  log:        " << report.log << '\n';
  if (!report.error_message.empty()) {
    out << "  it left this error:\n";
    indented(out, report.error_message);
  }
  if (!report.last_lines.empty()) {
    out << "  the last lines of its stderr:\n";
    for (const std::string& line : report.last_lines) out << "    | " << line << '\n';
  }
  return out.str();
}

std::string error_message_of(const std::string& content) {
  const auto json = nlohmann::json::parse(content, nullptr, /*allow_exceptions=*/false);
  const auto text_at = [](const nlohmann::json& object, const char* key) -> std::string {
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
  };
  if (json.is_object() && json.contains("message")) {
    const auto& message = json["message"];
    if (message.is_string()) return message.get<std::string>();
    if (message.is_object() && message.contains("extraInfo"))
      if (const std::string stack = text_at(message["extraInfo"], "py_callstack"); !stack.empty()) return stack;
    if (const std::string text = text_at(message, "message"); !text.empty()) return text;
  }
  return content.substr(0, kRawMax);
}

}  // namespace ddprun
