#include "launcher/running/remote_job.h"

#include <memory>
#include <utility>

#include <asio/io_context.hpp>

#include "launcher/config/cli.h"
#include "launcher/config/etcd_settings.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/jobs/job_refused.h"
#include "launcher/plan/agent_options.h"
#include "launcher/running/etcd_jobs.h"
#include "rendezvous/base/error.h"
#include "rendezvous/coordination/wire/control_link.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/peer/dialer.h"
#include "rendezvous/peer/greeting.h"
#include "rendezvous/peer/resolver.h"

namespace ddprun::launcher {
namespace {

using namespace rendezvous;

constexpr std::chrono::seconds kLimit{10};        // for a connection
constexpr std::chrono::seconds kAnswerLimit{20};  // for the answer: stacks take 15 s at most

// One question to one place.
class Question {
 public:
  Question(const PeerTrust& trust, const ControlAddress& place, const std::string& line)
      : dialer_(io_, std::make_shared<Resolver>(io_), trust,
                {[this, line](PeerConnection connection) { send(std::move(connection), line); },
                 [this](const Dialer::Failure& failure) { fail(failure.why); }}) {
    dialer_.start({place, {}, Clock::now() + kLimit});
  }
  // Empty, and why() is set: no answer.
  std::optional<std::string> answer() {
    io_.run_for(kLimit + kAnswerLimit);
    return answer_;
  }
  const std::string& why() const { return why_; }

 private:
  void send(PeerConnection connection, const std::string& line) {
    link_ = std::make_unique<ControlLink>(std::move(connection),
                                          ControlLink::Hooks{[this](const std::string& bytes) { take(bytes); },
                                                             [this](const std::string& why) { fail(why); }});
    link_->send(encode(FromAgent(ClientRequest{line})));
  }
  void take(const std::string& bytes) {
    try {
      const ToAgent message = decode_to_agent(bytes);
      if (const auto* answer = std::get_if<ClientAnswer>(&message)) answer_ = answer->text;
    } catch (const BadMessage& bad) {
      why_ = bad.what();
    }
    io_.stop();
  }
  void fail(const std::string& why) {
    why_ = why;
    io_.stop();
  }

  asio::io_context io_;
  std::unique_ptr<ControlLink> link_;
  Dialer dialer_;
  std::optional<std::string> answer_;
  std::string why_ = "it has not answered within " + std::to_string((kLimit + kAnswerLimit).count()) + " s";
};

std::vector<ControlAddress> places_to_ask(const Config& config) {
  if (config.etcd) return coordinator_of(agent::read_job(*config.etcd, config.rdzv_id, kLimit));
  std::vector<ControlAddress> out;
  for (const MeetingPlace& place : places_of(config).meeting)
    out.push_back({place.host, static_cast<std::uint16_t>(place.port)});
  return out;
}

}  // namespace

Config config_of_access(std::vector<std::string> words, const std::string& run_id) {
  words.push_back("--nnodes=1:2");  // of several nodes: the endpoint counts
  words.push_back("--rdzv-id=" + (run_id.empty() ? "none" : run_id));
  words.push_back("true");
  hide_own_memory();  // it is about to hold a token or a key
  Inputs inputs = process_inputs();
  wipe_token_variable();
  CommandLine line = read_command_line(words, inputs);
  for (std::string& sentence : etcd_problems(line.config)) line.mistakes.push_back(std::move(sentence));
  if (!line.mistakes.empty()) throw JobRefused(line.mistakes.front());
  return line.config;
}

RemoteJob::RemoteJob(std::vector<std::string> words, const std::string& run_id)
    : config_(config_of_access(std::move(words), run_id)) {
  if (config_.etcd && run_id.empty())
    throw JobRefused("it takes the --rdzv-id of a job at etcd, which ddprun list --rdzv-backend=etcd shows.");
  places_ = places_to_ask(config_);
}

std::optional<std::string> RemoteJob::ask_at_places(const std::string& line, std::string& why) const {
  const PeerTrust trust{std::make_shared<TlsContext>(credentials(config_), config_.rdzv_id),
                        make_identity(host_name(), config_.rdzv_id),
                        {}};
  for (const ControlAddress& place : places_) {
    Question question(trust, place, line);
    if (auto answer = question.answer()) return answer;
    why += (why.empty() ? "" : "; ") + place.host + ":" + std::to_string(place.port) + ": " + question.why();
  }
  return {};
}

std::string RemoteJob::ask(const std::string& line) {
  std::string why;
  if (auto answer = ask_at_places(line, why)) return *answer;
  if (config_.etcd) try {  // another node may coordinate by now, or will
      const auto before = std::exchange(places_, places_to_ask(config_));
      if (auto answer = places_ != before ? ask_at_places(line, why) : std::nullopt) return *answer;
    } catch (const JobRefused& none) {
      why = none.what();
    }
  throw Error("cannot ask the job " + config_.rdzv_id, why);
}

}  // namespace ddprun::launcher
