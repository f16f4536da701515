#include "agent/round/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/process/keeper.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"

namespace ddprun::agent {
namespace {

Fd open_queue(const std::set<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Fd queue(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!queue) throw Error("cannot wait for signals", std::strerror(errno));
  return queue;
}

}  // namespace

SignalQueue::SignalQueue(asio::io_context& io, const std::set<int>& signals)
    : file_(io, open_queue(signals).release()) {}

void SignalQueue::on_signal(std::function<void(int signal, bool from_terminal)> handler) {
  handler_ = std::move(handler);
  await();
}

void SignalQueue::await() {
  file_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    read_all();
    await();
  });
}

void SignalQueue::read_all() {
  signalfd_siginfo info{};
  while (read(file_.native_handle(), &info, sizeof info) == sizeof info)
    handler_(static_cast<int>(info.ssi_signo), info.ssi_code == SI_QUEUE && info.ssi_int == kFromTerminal);
}

}  // namespace ddprun::agent
