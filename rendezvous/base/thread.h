// Starts threads that receive no signal, as only the main thread handles them, and says why one cannot be had: a limit
// of threads (ulimit -u, pids.max) may be reached at any moment.
#pragma once
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/base/signals_blocked.h"

namespace ddprun {

// "no thread could be created: Resource temporarily unavailable"
inline std::string no_thread(const std::system_error& error) {
  return "no thread could be created: " + error.code().message();
}

// Empty: it runs. Else as above; `function` was not called.
template <class Function>
[[nodiscard]] std::string start_thread(std::thread& thread, Function&& function) {
  const SignalsBlocked blocked;
  try {
    thread = std::thread(std::forward<Function>(function));
    return {};
  } catch (const std::system_error& error) {
    return no_thread(error);
  }
}

template <class Function>
[[nodiscard]] std::string start_detached(Function&& function) {
  std::thread thread;
  std::string refused = start_thread(thread, std::forward<Function>(function));
  if (refused.empty()) thread.detach();
  return refused;
}

}  // namespace ddprun
