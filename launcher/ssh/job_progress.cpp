#include "launcher/ssh/job_progress.h"

#include <algorithm>
#include <csignal>

#include "launcher/ssh/ssh_command.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

// launcher/config/exit_codes.h, which is above this folder.
constexpr int kUsageCode = 2, kUnavailableCode = 69, kInternalCode = 70, kRequeueCode = 75, kSignalCode = 128;

// An agent that ended with one of them has not begun: the others would wait for it.
bool is_refusal(int code) { return code == kUsageCode || code == kUnavailableCode || code == kInternalCode; }

std::string no_answer(const std::vector<std::string>& ssh, const std::string& host) {
  return "cannot reach " + host + ": no answer for " + std::to_string(kAnswerLimit.count()) + " s. " +
         try_reaching(ssh, host);
}

std::string with_full_stop(const std::string& text) { return text.ends_with('.') ? text : text + "."; }

}  // namespace

JobProgress::JobProgress(ProgressOptions options, TimePoint now) : options_(std::move(options)), begun_(now) {}

JobProgress::Actions JobProgress::on(const UpMessage& message, TimePoint now) {
  if (phase_ == Phase::finished) return {};
  return std::visit(overloaded{
                        [&](const HostReady& ready) {
                          ready_.emplace(ready.index, ready);
                          return on_answer(ready.index, now);
                        },
                        [&](const HostRefused& refused) {
                          refused_.emplace(refused.index, refused);
                          return on_answer(refused.index, now);
                        },
                        [&](const HostEnded& ended) { return on_ended(ended); },
                        [&](const HostLost& lost) {
                          const std::string why = "the connection to " + name(lost.index) + " is lost: " + lost.why;
                          if (phase_ == Phase::running) return on_lost(lost.index, with_full_stop(why));
                          ready_.erase(lost.index);
                          refused_[lost.index] = {lost.index, with_full_stop(why), false};
                          return on_answer(lost.index, now);
                        },
                        [](const auto&) { return Actions{}; },
                    },
                    message);
}

JobProgress::Actions JobProgress::on_answer(int, TimePoint now) {
  return phase_ == Phase::asking ? start_or_refuse(now) : Actions{};
}

JobProgress::Actions JobProgress::start_or_refuse(TimePoint now) {
  const bool all = answered() == hosts();
  const bool enough = static_cast<int>(ready_.size()) >= options_.least;
  if (all && enough) return start();
  const bool hopeless = hosts() - static_cast<int>(refused_.size()) < options_.least;
  if (hopeless && (all || now >= begun_ + kRefusalLimit)) return refuse();
  return {};
}

JobProgress::Actions JobProgress::start() {
  phase_ = Phase::running;
  Actions actions;
  for (const auto& [index, refused] : refused_)
    actions.push_back(PrintSentence{refused.why + " The job starts without " + name(index) + "."});
  int rank = 0;
  for (const auto& [index, ready] : ready_) running_.emplace(index, rank++);
  actions.push_back(StartOn{running_});
  return actions;
}

JobProgress::Actions JobProgress::refuse() {
  agent::JobEnd end{kUsageCode, {}, {}};
  std::vector<std::string> sentences;
  for (const auto& [index, refused] : refused_) {
    if (!refused.usage) end.exit_code = kUnavailableCode;
    end.message += (end.message.empty() ? "" : "\n") + refused.why;
    sentences.push_back(refused.why);
  }
  return finish(std::move(end), std::move(sentences));
}

JobProgress::Actions JobProgress::on_ended(const HostEnded& ended) {
  if (!running_.contains(ended.index)) return {};
  const bool too_early = !ended.reported && interrupted_by_ > 0;  // the signal came before the agent could take it
  if (!ended.reported && !too_early)
    return on_lost(ended.index, "ddprun on " + name(ended.index) +
                                    " was killed, or could not say how it ended (exit code " +
                                    std::to_string(ended.end.exit_code) + ").");
  running_.erase(ended.index);
  ends_.push_back(too_early ? agent::JobEnd{kSignalCode + interrupted_by_, {}, {}} : ended.end);
  const bool others_need_it = static_cast<int>(running_.size()) < options_.least && !running_.empty();
  if (is_refusal(ended.end.exit_code) && others_need_it && !cause_)
    return stop_for(ended.end.exit_code, ended.end.message);
  return finish_if_all_ended();
}

JobProgress::Actions JobProgress::on_lost(int index, const std::string& sentence) {
  if (running_.erase(index) == 0) return {};
  const bool ending = cause_ || !ends_.empty();
  if (!ending && static_cast<int>(running_.size()) < options_.least)
    return stop_for(kRequeueCode, sentence + " The others were stopped.");
  Actions actions;
  if (!cause_) actions.push_back(PrintSentence{sentence});  // else the cause is told at the end
  const Actions more = finish_if_all_ended();
  actions.insert(actions.end(), more.begin(), more.end());
  return actions;
}

JobProgress::Actions JobProgress::stop_for(int code, const std::string& message) {
  cause_ = agent::JobEnd{code, message, {}};
  if (running_.empty()) return finish_if_all_ended();
  return {SendSignal{SIGTERM}};
}

JobProgress::Actions JobProgress::finish_if_all_ended() {
  if (!running_.empty()) return {};
  agent::JobEnd end = cause_ ? *cause_ : end_of_agents();
  std::vector<std::string> sentences;
  if (!end.message.empty()) sentences.push_back(end.message);
  return finish(std::move(end), std::move(sentences));
}

// A node that left before the others says nothing about the job: the last one counts. The fullest report is printed.
agent::JobEnd JobProgress::end_of_agents() const {
  if (ends_.empty()) return {kRequeueCode, "no host has said how the job ended.", {}};
  agent::JobEnd end = ends_.back();
  for (const agent::JobEnd& other : ends_)
    if (other.exit_code == end.exit_code && other.message.size() > end.message.size()) end = other;
  return end;
}

JobProgress::Actions JobProgress::finish(agent::JobEnd end, std::vector<std::string> sentences) {
  phase_ = Phase::finished;
  return {FinishJob{std::move(end), std::move(sentences)}};
}

JobProgress::Actions JobProgress::on_signal(int signal, bool ends) {
  if (phase_ == Phase::running) {
    if (ends) interrupted_by_ = signal;
    return {SendSignal{signal}};
  }
  if (phase_ == Phase::finished || !ends) return {};
  return finish({kSignalCode + signal, "interrupted before the job began.", {}}, {});
}

JobProgress::Actions JobProgress::on_time(TimePoint now) {
  if (phase_ != Phase::asking) return {};
  if (now >= begun_ + kAnswerLimit) {
    for (int index = 0; index < hosts(); ++index)
      if (!ready_.contains(index) && !refused_.contains(index))
        refused_[index] = {index, no_answer(options_.ssh, name(index)), false};
    return start_or_refuse(now);
  }
  Actions actions = start_or_refuse(now);
  if (!actions.empty() || now < begun_ + kRefusalLimit || told_waiting_) return actions;
  told_waiting_ = true;
  return {PrintSentence{"waiting for " + waiting_for() + " to answer; at most " + std::to_string(kAnswerLimit.count()) +
                        " s."}};
}

std::string JobProgress::waiting_for() const {
  constexpr std::size_t kNamed = 5;
  std::vector<std::string> names;
  for (int index = 0; index < hosts(); ++index)
    if (!ready_.contains(index) && !refused_.contains(index)) names.push_back(name(index));
  if (names.size() > kNamed) {
    const std::size_t more = names.size() - kNamed;
    names.resize(kNamed);
    names.push_back(std::to_string(more) + " more");
  }
  return listed(names, "and");
}

std::optional<TimePoint> JobProgress::next_deadline() const {
  if (phase_ != Phase::asking) return {};
  return begun_ + (told_waiting_ ? Duration(kAnswerLimit) : Duration(kRefusalLimit));
}

}  // namespace ddprun::launcher
