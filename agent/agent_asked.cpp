// What somebody asks for by `ddprun stacks`, `status` and `ctl`: of all nodes, through the coordinator.
#include <unistd.h>

#include <algorithm>

#include "agent/agent.h"
#include "agent/process/process_table.h"
#include "agent/status/status_json.h"

namespace ddprun::agent {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr std::chrono::seconds kAskedLimit{8};
constexpr double kSamplesMax = 2e9;

// All nodes' texts pass through the coordinator's one connection to the asker.
constexpr std::size_t kAllNodesMax = 8 << 20;

std::string cut(std::string text, int nodes) {
  const std::size_t share = kAllNodesMax / static_cast<std::size_t>(std::max(nodes, 1));
  const std::size_t most = std::min(share, rendezvous::kStacksTextMax) - 64;
  if (text.size() > most) text = text.substr(0, text.rfind('\n', most)) + "\n... (cut)\n";
  return text;
}

}  // namespace

void Agent::open_socket() {
  socket_.emplace(
      io_, AgentAddress{geteuid(), getpid(), options_.command.job.run_id},
      [this](const AgentSocket::Request& request, const AgentSocket::Reply& reply) { on_request(request, reply); });
}

void Agent::on_request(const AgentSocket::Request& request, const AgentSocket::Reply& reply) {
  if (request.line == kAskStacks) return ask_for_stacks(reply);
  if (request.line == kAskStatus) return ask_for_status(reply);
  if (request.line.starts_with(kAskAct)) return ask_for_act(request, reply);
  reply("");
}

// The kernel knows who asks here; elsewhere the token says that he may, and he says who he is.
void Agent::ask_for_act(const AgentSocket::Request& request, const AgentSocket::Reply& reply) {
  const auto answer = [reply](const ActAnswer& said) { reply(to_line(said)); };
  auto parsed = parse_act(request.line);
  if (const auto* why = std::get_if<std::string>(&parsed)) return answer({false, *why});
  auto& act = std::get<rendezvous::Act>(parsed);
  if (!request.by.empty()) act.by = request.by + " on " + options_.logs.host;
  if (!contact_.coordination().connected()) return answer({false, "the coordinator is out of reach now"});
  const int serial = asked_acts_.begin(answer);
  contact_.send(rendezvous::ActWanted{node(), serial, std::move(act)});
}

void Agent::suspend_workers(const rendezvous::SuspendWorkers& message) {
  if (supervisor_.running_round() == message.round) watch_.suspend(message.suspended);
}

void Agent::take_snapshot(const rendezvous::TakeSnapshot& message) {
  if (supervisor_.running_round() == message.round) workers_.channels().request_snapshot(Clock::now());
}

void Agent::ask_for_stacks(const AgentSocket::Reply& reply) {
  if (!contact_.coordination().connected()) return reply("The coordinator is out of reach now.\n");
  const int serial = asked_stacks_.begin(reply);
  contact_.send(rendezvous::StacksWanted{node(), serial});
}

void Agent::ask_for_status(const AgentSocket::Reply& reply) {
  ask_for_status_json([reply](const nlohmann::json& status) {
    reply(status.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  });
}

// Without a coordinator a node still knows its own workers.
void Agent::ask_for_status_json(const std::function<void(const nlohmann::json&)>& reply) {
  const auto send = [this, reply](StatusAnswer answer) {
    add_self(answer);
    if (!answer.job) answer.nodes = {report()};
    reply(to_json(answer));
  };
  if (finished_) return send({.problem = "the job has ended here"});
  if (!contact_.coordination().connected()) return send({.problem = "the coordinator is out of reach now"});
  const int serial = asked_status_.begin(send);
  contact_.send(rendezvous::StatusWanted{node(), serial});
}

void Agent::add_self(StatusAnswer& answer) const {
  answer.run_id = options_.command.job.run_id;
  answer.program = options_.command.program;
  answer.host = options_.logs.host;
  answer.run_time = Clock::now() - started_;
}

rendezvous::NodeReport Agent::report() {
  rendezvous::NodeReport out{.name = options_.logs.host, .declined_fault = faults_.declined()};
  if (!seat_) return out;
  out.round = seat_->round;
  out.group_rank = seat_->group_rank;
  out.spent = account_.spent();
  if (!supervisor_.round_with_workers()) return out;
  watch_.look();
  if (const auto step = watch_.median_step())
    out.step_us = static_cast<std::uint64_t>(duration_cast<microseconds>(*step).count());
  for (const rendezvous::Standing& one : watch_.standings()) out.ranks.push_back(view_of(one));
  std::sort(out.ranks.begin(), out.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

rendezvous::RankView Agent::view_of(const rendezvous::Standing& standing) {
  rendezvous::RankView out{.rank = standing.rank,
                           .activity = standing.activity,
                           .collective = standing.collective,
                           .step = standing.step,
                           .age = standing.age,
                           .stopped = standing.stopped,
                           .paused = standing.paused,
                           .held = standing.held};
  const int local_rank = standing.rank - seat_->first_rank;
  const WorkerRecord& worker = workers_.records().at(local_rank);
  if (worker.status) return out;
  out.pid = worker.pid;
  if (const auto stat = task_stat(worker.pid)) out.memory = stat->resident_bytes;
  const TimePoint now = Clock::now();
  const Progress progress = workers_.channels().progress(local_rank, now);
  out.snapshot_step = progress.snapshot_step;
  if (progress.snapshot_at) out.snapshot_age = now - *progress.snapshot_at;
  out.snapshot_bytes = progress.snapshot_bytes;
  out.samples_per_second = static_cast<int>(std::clamp(progress.samples_per_second.value_or(0), 0.0, kSamplesMax));
  out.loss = progress.loss;
  out.total_steps = progress.total_steps;
  if (progress.beat) {
    out.load = progress.beat->load;
    out.compute = progress.beat->compute;
    out.wait = progress.beat->wait;
  }
  return out;
}

void Agent::take_asked_stacks(const rendezvous::TakeStacks& asked) {
  if (!seat_) return;
  watch_.look();
  std::vector<pid_t> pids;
  std::vector<std::string> headings;
  for (const rendezvous::Standing& one : watch_.standings()) {
    if (one.activity == rendezvous::Activity::ended) continue;
    const pid_t pid = workers_.records().at(one.rank - seat_->first_rank).pid;
    pids.push_back(pid);
    headings.push_back("rank " + std::to_string(one.rank) + " on " + options_.logs.host + ", process " +
                       std::to_string(pid) + ": " + in_words(one) + "\n");
  }
  const auto send = [this, asked, headings](const std::vector<ProcessStacks>& stacks) {
    std::string text;
    for (std::size_t i = 0; i < headings.size(); ++i) text += headings[i] + to_text(stacks[i]) + "\n";
    if (headings.empty()) text = "no worker runs on " + options_.logs.host + "\n\n";
    contact_.send(
        rendezvous::StacksTaken{node(), asked.asker, asked.serial, cut(std::move(text), seat_->group_world_size)});
  };
  if (pids.empty()) return send({});
  watch_.take_stacks(pids, kAskedLimit, send);
}

}  // namespace ddprun::agent
