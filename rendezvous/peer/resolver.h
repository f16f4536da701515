// Looks names up beside an event loop: a look-up that takes long holds up neither the loop, nor another name's, nor the
// process's end.
//
// A look-up cannot be stopped, so it has a thread of its own, and goes on when whoever asked has stopped waiting: the
// next to ask for that name gets what came of it. Otherwise every question is put anew, as a cluster's name service may
// lag behind its nodes. A name that was found before is not waited for long, and its last addresses serve while nobody
// can be asked for it.
//
// For the thread of its io_context, which must outlive it. Handlers never run inside a call of ours, nor after our end.
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

  // `done` is called once, when the limit is over at the latest.
  void resolve(const std::string& host, Duration limit, Done done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
