// Decides at the head of a job what happens to its hosts: start, signal, end. Pure: messages and time come in.
//
// All hosts are asked first. A job of a fixed size starts when all are ready; an elastic one when all have answered
// and enough are ready. The job's end is that of its agents, which all end alike (docs/decisions/007); the head ends it
// where an agent cannot: a host is lost and too few are left, or an agent refused to begin.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/ssh/message.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

constexpr std::chrono::seconds kRefusalLimit{5};  // after which a refusal is told, whoever has not answered yet
constexpr std::chrono::seconds kAnswerLimit{30};  // a login may be slow

struct ProgressOptions {
  std::vector<std::string> names = {};     // by index
  int least = 1;                           // hosts that the job needs
  std::vector<std::string> ssh = {"ssh"};  // --ssh
};

struct PrintSentence {
  std::string sentence = {};
  bool operator==(const PrintSentence&) const = default;
};
struct StartOn {
  std::map<int, int> ranks = {};  // node ranks by index
  bool operator==(const StartOn&) const = default;
};
struct FinishJob {
  agent::JobEnd end = {};
  std::vector<std::string> sentences = {};  // to print: the end's message
};
using ProgressAction = std::variant<PrintSentence, StartOn, SendSignal, FinishJob>;

class JobProgress {
 public:
  JobProgress(ProgressOptions options, TimePoint now);

  // In the order in which it happened; carry out the actions in order. After FinishJob all answers are empty.
  std::vector<ProgressAction> on(const UpMessage& message, TimePoint now);
  // Of the user's: `ends`, it would end a job.
  std::vector<ProgressAction> on_signal(int signal, bool ends);
  std::vector<ProgressAction> on_time(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  const std::map<int, HostReady>& ready() const { return ready_; }

 private:
  enum class Phase { asking, running, finished };
  using Actions = std::vector<ProgressAction>;

  Actions start_or_refuse(TimePoint now);
  Actions start();
  Actions refuse();
  Actions on_answer(int index, TimePoint now);
  Actions on_ended(const HostEnded& ended);
  Actions on_lost(int index, const std::string& sentence);
  Actions stop_for(int code, const std::string& message);
  Actions finish_if_all_ended();
  Actions finish(agent::JobEnd end, std::vector<std::string> sentences);
  agent::JobEnd end_of_agents() const;
  std::string waiting_for() const;
  int hosts() const { return static_cast<int>(options_.names.size()); }
  int answered() const { return static_cast<int>(ready_.size() + refused_.size()); }
  const std::string& name(int index) const { return options_.names[static_cast<std::size_t>(index)]; }

  const ProgressOptions options_;
  const TimePoint begun_;
  Phase phase_ = Phase::asking;
  bool told_waiting_ = false;
  int interrupted_by_ = 0;          // the last signal that the agents were sent to end
  std::map<int, HostReady> ready_;  // those that run, once the job has started
  std::map<int, HostRefused> refused_;
  std::map<int, int> running_;          // node ranks by index
  std::vector<agent::JobEnd> ends_;     // of agents that reported, in their order
  std::optional<agent::JobEnd> cause_;  // why the head ends the job
};

}  // namespace ddprun::launcher
