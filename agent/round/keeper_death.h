// Ends this process and all that it started when its keeper has died (agent/process/keeper.h).
#pragma once
#include <functional>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace ddprun::agent {

class KeeperDeath {
 public:
  // Takes ownership of `keeper_fd`.
  KeeperDeath(asio::io_context& io, int keeper_fd) : keeper_(io, keeper_fd) {}
  // `clean_up` is called once no child is left; then the process exits.
  void on_death(std::function<void()> clean_up);

 private:
  asio::posix::stream_descriptor keeper_;
};

}  // namespace ddprun::agent
