// Listens at the first of a job's meeting places that is this machine's, as soon as it can.
//
// Whose they are is known, or their names tell: a cluster's name service may be slow, or lag behind its nodes. A port
// that is held, by another program or by a connection that ended a moment ago, is tried again and again. Another agent
// of the job may hold it, too: then it coordinates, and stop() follows.
//
// For the thread of the io_context. No hook runs inside a call of ours, nor after stop() or our end.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/round.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/resolver.h"

namespace ddprun::agent {

class OwnPlace {
 public:
  struct Options {
    std::vector<rendezvous::ControlAddress> places;
    std::vector<rendezvous::Whose> whose;  // of each place
    bool others_may_host = false;          // other agents of this machine; else a port that is held is an Error
    std::shared_ptr<rendezvous::Resolver> names;
  };
  struct Hooks {
    std::function<void(const rendezvous::Listening&)>
        on_listening;               // by keep_trying(), at an earlier place than before
    std::function<void()> on_held;  // a port that is this machine's could not be had again
  };
  OwnPlace(asio::io_context& io, Options options, Hooks hooks);

  // At once; empty: there is no such place so far. Throws Error.
  std::optional<rendezvous::Listening> listen();
  void keep_trying();
  void stop();

  rendezvous::Whose whose(std::size_t place) const { return whose_[place]; }
  const std::optional<std::size_t>& place() const { return at_; }  // where we listen
  // Why not at an earlier one; empty: nothing is in the way.
  const std::string& why_not() const { return why_not_; }
  TimePoint held_since() const { return held_since_; }

 private:
  std::size_t wanted() const { return at_.value_or(options_.places.size()); }  // those before it
  std::optional<rendezvous::Listening> listen_at(std::size_t place);
  void try_again();
  void plan();
  void look_up_unknown();

  const Options options_;
  const Hooks hooks_;
  std::vector<rendezvous::Whose> whose_;
  std::set<std::size_t> asked_;  // whose names are being looked up
  std::optional<std::size_t> at_;
  std::string why_not_;
  TimePoint held_since_;
  asio::steady_timer again_;
  Duration pause_;
  std::shared_ptr<const int> trying_;  // what is queued when we stop finds it gone
};

}  // namespace ddprun::agent
