// Authenticated connections to a control port that have not said hello: receives their first message and passes it on.
//
// For the thread of its io_context. Inside a hook the caller may be ended or taken.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/wire/control_link.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::rendezvous {

class CoordinatorCallers {
 public:
  using Id = std::uint64_t;
  struct Hooks {
    std::function<void(Id, const Hello&)> on_hello;
    std::function<void(int round, ControlLink&)> on_store_opening;  // the link ends afterwards; it may be released
    std::function<void(ControlLink&)> on_copies_opening;            // so it does here
    std::function<void(const VoteRequest&, std::function<void(const Vote&)> answer)> on_vote_request;
    std::function<void(const CoordinatorAnnouncement&, const ControlAddress& coordinator)> on_announcement;
    // Whoever is no agent asks something; answer from any thread.
    std::function<void(const std::string& line, std::function<void(const std::string&)> answer)> on_request;
    std::function<void(const std::string& line)> log;
  };
  CoordinatorCallers(asio::io_context& io, Hooks hooks) : io_(io), hooks_(std::move(hooks)) {}

  // Null: there are too many, and the connection is closed.
  ControlLink* add(PeerConnection connection, TimePoint now);
  // Null: it has gone.
  ControlLink* find(Id id) const;
  // Its hooks must be set again.
  std::unique_ptr<ControlLink> take(Id id);
  void end_idle(TimePoint now);
  void end_all();
  bool empty() const { return callers_.empty(); }

 private:
  struct Caller {
    std::unique_ptr<ControlLink> link;
    TimePoint since;
  };
  void on_message(Id id, const std::string& bytes);
  void post_answer(Id id, const ToAgent& answer);
  void end(Id id);

  asio::io_context& io_;
  const Hooks hooks_;
  Id last_ = 0;
  std::map<Id, Caller> callers_;
};

}  // namespace ddprun::rendezvous
