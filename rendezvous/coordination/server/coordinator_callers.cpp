#include "rendezvous/coordination/server/coordinator_callers.h"

#include <utility>
#include <vector>

#include <asio/post.hpp>

#include "rendezvous/coordination/server/coordinator_sessions.h"
#include "rendezvous/coordination/wire/copies_opening.h"
#include "rendezvous/store/proxy/store_opening.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kCallersMax = 8192;
constexpr std::chrono::seconds kCallerLimit{30};

}  // namespace

ControlLink* CoordinatorCallers::add(PeerConnection connection, TimePoint now) {
  if (callers_.size() >= kCallersMax) return nullptr;
  const Id id = ++last_;
  auto link = std::make_unique<ControlLink>(
      std::move(connection), ControlLink::Hooks{[this, id](const std::string& message) { on_message(id, message); },
                                                [this, id](const std::string&) { end(id); }});
  return (callers_[id] = {std::move(link), now}).link.get();
}

void CoordinatorCallers::on_message(Id id, const std::string& bytes) {
  ControlLink& link = *find(id);
  if (const auto round = parse_store_opening(bytes)) {
    hooks_.on_store_opening(*round, link);
    return end(id);
  }
  if (is_copies_opening(bytes)) {
    hooks_.on_copies_opening(link);
    return end(id);
  }
  try {
    const FromAgent message = decode_from_agent(bytes, link.peer().instance);
    if (const auto* hello = std::get_if<Hello>(&message)) return hooks_.on_hello(id, *hello);
    if (const auto* request = std::get_if<VoteRequest>(&message))
      return hooks_.on_vote_request(*request, [this, id](const Vote& vote) { post_answer(id, vote); });
    if (const auto* request = std::get_if<ClientRequest>(&message); request && hooks_.on_request)
      return hooks_.on_request(request->line,
                               [this, id](const std::string& text) { post_answer(id, ClientAnswer{text}); });
    if (const auto* announcement = std::get_if<CoordinatorAnnouncement>(&message))
      return hooks_.on_announcement(*announcement, {link.remote_address(), announcement->control_port});
    hooks_.log("dropped the connection of " + link.peer().name + ": it sent no hello");
  } catch (const BadMessage& bad) {
    hooks_.log("dropped the connection of " + link.peer().name + ": it sent an invalid message: " + bad.what());
  }
  end(id);
}

// From any thread.
void CoordinatorCallers::post_answer(Id id, const ToAgent& answer) {
  asio::post(io_, [this, id, answer] {
    if (ControlLink* link = find(id)) link->send(encode(answer));
  });
}

ControlLink* CoordinatorCallers::find(Id id) const {
  const auto found = callers_.find(id);
  return found == callers_.end() ? nullptr : found->second.link.get();
}

std::unique_ptr<ControlLink> CoordinatorCallers::take(Id id) { return std::move(callers_.extract(id).mapped().link); }

void CoordinatorCallers::end(Id id) {
  if (callers_.contains(id)) end_link(io_, take(id));
}

void CoordinatorCallers::end_idle(TimePoint now) {
  std::vector<Id> idle;
  for (const auto& [id, caller] : callers_)
    if (now - caller.since >= kCallerLimit) idle.push_back(id);
  for (const Id id : idle) end(id);
}

void CoordinatorCallers::end_all() {
  while (!callers_.empty()) end(callers_.begin()->first);
}

}  // namespace ddprun::rendezvous
