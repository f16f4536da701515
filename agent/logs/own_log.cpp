#include "agent/logs/own_log.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

namespace ddprun::agent {
namespace {

constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S.%e ddprun %l: %v";
constexpr int kPythonDebug = 10, kPythonInfo = 20;  // levels of Python's logging

class PrintSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit PrintSink(std::function<void(const std::string&)> print) : print_(std::move(print)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    print_(std::string(line.data(), line.size()));
  }
  void flush_() override {}

  std::function<void(const std::string&)> print_;
};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

LogLevel of_number(int number) {
  if (number <= kPythonDebug) return LogLevel::debug;
  return number <= kPythonInfo ? LogLevel::info : LogLevel::warning;
}

}  // namespace

struct OwnLog::Logger {
  spdlog::logger log;
};

std::optional<LogLevel> log_level_of(std::string_view loglevel) {
  int number = 0;
  const auto [end, error] = std::from_chars(loglevel.data(), loglevel.data() + loglevel.size(), number);
  if (!loglevel.empty() && error == std::errc() && end == loglevel.data() + loglevel.size()) return of_number(number);
  const std::string name = upper(loglevel);
  if (name == "DEBUG" || name == "NOTSET") return LogLevel::debug;
  if (name == "INFO") return LogLevel::info;
  for (const char* quiet : {"WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"})
    if (name == quiet) return LogLevel::warning;
  return {};
}

LogLevel log_level(std::string_view loglevel, bool verbose) {
  return std::min(log_level_of(loglevel).value_or(LogLevel::warning), verbose ? LogLevel::info : LogLevel::warning);
}

OwnLog::OwnLog(LogLevel level, std::function<void(const std::string&)> print) : level_(level) {
  if (level == LogLevel::warning) return;
  logger_.reset(new Logger{spdlog::logger("ddprun", std::make_shared<PrintSink>(std::move(print)))});
  logger_->log.set_pattern(kPattern);
  logger_->log.set_level(spdlog::level::debug);
}

OwnLog::~OwnLog() = default;

void OwnLog::write(LogLevel level, const std::string& text) {
  if (!logger_ || level < level_) return;
  logger_->log.log(level == LogLevel::debug ? spdlog::level::debug : spdlog::level::info, text);
}

}  // namespace ddprun::agent
