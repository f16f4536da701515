// The ranks of a group as threads of the test: gloo does not mind, and nothing has to be started.
#pragma once
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "ddprun/process_group.h"

namespace ddprun::test {

class RankThreads {
 public:
  // `options` but for ranks and store; over gloo unless they ask for nccl.
  explicit RankThreads(int world_size, InitOptions options = {}) : groups_(static_cast<std::size_t>(world_size)) {
    if (options.backend == Backend::automatic) options.backend = Backend::gloo;
    options.store = c10::make_intrusive<c10d::HashStore>();
    options.world_size = world_size;
    if (options.timeout > std::chrono::minutes(1)) options.timeout = std::chrono::minutes(1);
    in_threads([&](std::size_t rank) {
      InitOptions own = options;
      own.rank = static_cast<int>(rank);
      groups_[rank] = make_process_group(own);
    });
  }

  // Each rank's part at the same time. What the first of them throws is thrown on.
  void each(const std::function<void(ProcessGroup&)>& part) {
    in_threads([&](std::size_t rank) { part(groups_[rank]); });
  }

  // What each of them throws; "" for nothing.
  std::vector<std::string> errors(const std::function<void(ProcessGroup&)>& part) {
    std::vector<std::string> texts(groups_.size());
    in_threads([&](std::size_t rank) {
      try {
        part(groups_[rank]);
      } catch (const std::exception& error) {
        texts[rank] = error.what();
      }
    });
    return texts;
  }

 private:
  void in_threads(const std::function<void(std::size_t rank)>& part) {
    std::vector<std::exception_ptr> errors(groups_.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < groups_.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          part(rank);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    for (auto& thread : threads) thread.join();
    for (const auto& error : errors)
      if (error) std::rethrow_exception(error);
  }

  std::vector<ProcessGroup> groups_;
};

}  // namespace ddprun::test
