// Looks up names without blocking: a slow look-up delays neither event loop, nor other names, nor the process's exit.
//
// A look-up cannot be cancelled, so it has a thread of its own, and continues when its caller has stopped waiting: the
// next request for that name gets its result. Otherwise every request starts a new look-up, as a cluster's name service
// may lag behind its nodes. For a name that was found before the wait is short, and its last addresses are used while
// no name server answers.
//
// For the thread of its io_context, which must outlive it. Handlers are never called inside a function of ours, nor
// after our destruction.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/base/time.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::rendezvous {

class Resolver {
 public:
  using Done = std::function<void(const LookUp&)>;
  // `look_up` may take long; it is called in threads of its own.
  explicit Resolver(asio::io_context& io, std::function<LookUp(const std::string& host)> look_up = rendezvous::look_up);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `done` once, at the latest when the limit is over.
  void resolve(const std::string& host, Duration limit, Done done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
