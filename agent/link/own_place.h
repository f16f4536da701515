// Listens at the first of a job's meeting places that belongs to this machine, as soon as possible.
//
// Their owners are known or found by name; a cluster's name service may be slow, or lag behind its nodes. A port in
// use, by another program or by a connection that ended a moment ago, is tried again and again. If another agent of
// the job has it, that one coordinates, and stop() follows.
//
// For the thread of the io_context. No hook is called inside a call of ours, nor after stop() or destruction.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/round/round.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/resolver.h"

namespace ddprun::agent {

class OwnPlace {
 public:
  struct Options {
    std::vector<rendezvous::ControlAddress> places;
    std::vector<rendezvous::Locality> whose;  // of each place
    bool others_may_host = false;             // agents of this machine; false: a port in use is an Error
    std::shared_ptr<rendezvous::Resolver> names;
  };
  struct Hooks {
    std::function<void(const rendezvous::Listening&)>
        on_listening;               // by keep_trying(), at an earlier place than before
    std::function<void()> on_held;  // a port of this machine could not be bound, again
  };
  OwnPlace(asio::io_context& io, Options options, Hooks hooks);

  // Tries at once; empty: no such place so far. Throws Error.
  std::optional<rendezvous::Listening> listen();
  void keep_trying();
  void stop();

  rendezvous::Locality whose(std::size_t place) const { return whose_[place]; }
  const std::optional<std::size_t>& place() const { return at_; }  // where we listen
  // Why not at an earlier one; empty: no reason.
  const std::string& why_not() const { return why_not_; }
  TimePoint held_since() const { return held_since_; }

 private:
  std::size_t wanted() const { return at_.value_or(options_.places.size()); }  // the places before this one are wanted
  std::optional<rendezvous::Listening> listen_at(std::size_t place);
  void try_again();
  void schedule_retry();
  void look_up_unknown();

  const Options options_;
  const Hooks hooks_;
  std::vector<rendezvous::Locality> whose_;
  std::set<std::size_t> pending_lookups_;  // of the names of these places
  std::optional<std::size_t> at_;
  std::string why_not_;
  TimePoint held_since_;
  asio::steady_timer retry_timer_;
  Duration pause_;
  std::shared_ptr<const int> trying_;  // queued handlers check it: it expires when we stop
};

}  // namespace ddprun::agent
