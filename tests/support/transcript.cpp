#include "tests/support/transcript.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "agent/process/exit_status.h"
#include "agent/round/supervisor.h"

namespace ddprun::test {
namespace {

using Fields = std::map<std::string, std::string>;

int number(const Fields& fields, const std::string& name, int fallback) {
  const auto found = fields.find(name);
  return found == fields.end() ? fallback : std::stoi(found->second);
}

int signal_number(const std::string& name) {
  for (int signal = 1; signal < NSIG; ++signal)
    if (agent::signal_name(signal) == name) return signal;
  throw std::invalid_argument("no signal " + name);
}

rendezvous::ExitStatus status_of(const Fields& fields) {
  rendezvous::ExitStatus status{.code = number(fields, "code", 0), .start_error = number(fields, "start_error", 0)};
  if (fields.count("signal")) status.signal = signal_number(fields.at("signal"));
  return status;
}

rendezvous::Outcome outcome_of(const std::string& word, const Fields& fields) {
  if (word == "success") return {};
  if (word == "worker-failed") return {rendezvous::Verdict::worker_failed, 0, "", {}};
  return {
      rendezvous::Verdict::interrupted, fields.count("signal") ? signal_number(fields.at("signal")) : SIGINT, "", {}};
}

// "name word key=value key=value"
struct Line {
  explicit Line(const std::string& text) {
    std::istringstream words(text);
    words >> name;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos)
        plain = word;
      else
        fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  std::string name, plain;
  Fields fields;
};

agent::StopPolicy policy_of(const Line& line) {
  agent::StopPolicy policy;
  policy.stop_grace = std::chrono::seconds(number(line.fields, "stop_grace", 25));
  if (const int timeout = number(line.fields, "peer_exit_timeout", 0))
    policy.peer_exit_timeout = std::chrono::seconds(timeout);
  if (const int code = number(line.fields, "preempt_exit_code", 0)) policy.preempt_exit_code = code;
  if (const auto signal = number(line.fields, "notice_signal", 0)) policy.notice_signals = {static_cast<int>(signal)};
  return policy;
}

}  // namespace

rendezvous::Seat seat_of(int workers, int round) {
  return {.round = round, .workers = workers, .world_size = workers, .master_host = "127.0.0.1", .master_port = 29500};
}

agent::Event parse_event(const std::string& line) {
  const Line parsed(line);
  const auto& [name, plain, fields] = parsed;
  const int round = number(fields, "round", 1), local_rank = number(fields, "local_rank", 0);
  if (name == "round-formed") return agent::RoundFormed{seat_of(number(fields, "workers", 2), round)};
  if (name == "round-started") return agent::RoundStarted{round};
  if (name == "worker-started") return agent::WorkerStarted{round, local_rank};
  if (name == "worker-dying") return agent::WorkerDying{round, local_rank, status_of(fields)};
  if (name == "worker-exited") return agent::WorkerExited{round, local_rank, status_of(fields)};
  if (name == "swept") return agent::Swept{round};
  if (name == "round-ended") return agent::RoundEnded{round, plain == "planned"};
  if (name == "job-ended") return agent::JobEnded{outcome_of(plain, fields)};
  if (name == "isolated") return agent::Isolated{};
  if (name == "signalled") return agent::Signalled{signal_number(plain)};
  if (name == "tick") return agent::Tick{};
  throw std::invalid_argument("no event '" + line + "'");
}

std::string replay(const std::string& transcript) {
  agent::Supervisor supervisor({});
  TimePoint now{};
  std::istringstream in(transcript);
  std::ostringstream out;
  std::string actions;
  bool skipping = false;  // skips the recorded actions
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) skipping = false;
    if (skipping) continue;
    out << line << '\n';
    if (line.empty() || line[0] == '#') continue;
    if (line == "----") {
      out << std::exchange(actions, {});
      skipping = true;
      continue;
    }
    if (line.starts_with("policy ")) {
      supervisor = agent::Supervisor(policy_of(Line(line)));
      continue;
    }
    if (line[0] == '+') {
      now += std::chrono::seconds(std::stoi(line.substr(1)));
      line = line.substr(line.find(' ') + 1);
    }
    for (const agent::Action& action : supervisor.on(parse_event(line), now)) actions += to_string(action) + "\n";
  }
  return out.str();
}

bool matches_golden(const std::filesystem::path& file, const std::string& actual) {
  if (std::getenv("DDPRUN_UPDATE")) {
    std::ofstream(file) << actual;
    return true;
  }
  std::ifstream in(file);
  std::ostringstream expected;
  expected << in.rdbuf();
  return expected.str() == actual;
}

}  // namespace ddprun::test
