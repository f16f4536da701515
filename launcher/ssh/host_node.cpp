#include "launcher/ssh/host_node.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>

#include "agent/round/signal_queue.h"
#include "launcher/ssh/agent_command.h"
#include "launcher/ssh/host_agent.h"
#include "launcher/ssh/node_links.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/peer/frame.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kQueuedUpMax = std::size_t{1} << 20;
constexpr std::chrono::seconds kEndSlack{5};                    // from the end of the grace period to SIGKILL
constexpr std::chrono::seconds kLastWordsLimit{5};              // to be read by the other side
constexpr int kFirstHostPort = 20'000, kLastHostPort = 29'999;  // below those that the kernel gives to clients
constexpr int kPortAttempts = 50;

std::string node_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool port_is_free(int port) {
  const Fd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int both = 0;
  setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (socket) return bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  const Fd old(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any.sin6_port;
  return bind(old.get(), reinterpret_cast<const sockaddr*>(&any4), sizeof any4) == 0;
}

int free_port_here() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirstHostPort, kLastHostPort);
  for (int attempt = 0; attempt < kPortAttempts; ++attempt)
    if (const int port = ports(random); port_is_free(port)) return port;
  return 0;
}

class HostNode {
 public:
  HostNode(std::string version, std::function<std::vector<std::string>(const NodeQuestion&)> check)
      : version_(std::move(version)),
        check_(std::move(check)),
        input_(io_, dup(STDIN_FILENO)),
        output_(io_, dup(STDOUT_FILENO)),
        second_(io_),
        end_timer_(io_),
        signals_(io_, {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    dup2(STDERR_FILENO, STDOUT_FILENO);  // what else is printed here is no message
    const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dup2(nothing.get(), STDIN_FILENO);
  }

  int run() {
    write_bytes(to_line({version_, std::filesystem::read_symlink("/proc/self/exe").string()}));
    signals_.on_signal([this](int signal, bool /*from_terminal*/) { on_own_signal(signal); });
    heard_ = Clock::now();
    read_more();
    tick();
    io_.run();
    return 0;
  }

 private:
  void tick() {
    second_.expires_after(kContactPause);
    second_.async_wait([this](const asio::error_code& cancelled) {
      if (cancelled) return;
      if (sending_.empty()) send(StillHere{});
      if (!alone_ && Clock::now() - heard_ > kContactLimit && !has_input(input_.native_handle())) lose_contact();
      tick();
    });
  }

  void read_more() {
    input_.async_read_some(asio::buffer(piece_), [this](const asio::error_code& error, std::size_t size) {
      if (alone_) return;
      if (error) return lose_contact();
      heard_ = Clock::now();
      frames_.add({piece_.data(), size});
      explicit_bzero(piece_.data(), size);  // it may contain the token
      while (auto frame = frames_.next()) {
        const auto message = decode_down(*frame);
        rendezvous::wipe(*frame);
        if (!message) return lose_contact();
        on_message(*message);
        heard_ = Clock::now();  // a check takes its time
      }
      if (frames_.broken()) return lose_contact();
      read_more();
    });
  }

  void on_message(const DownMessage& message) {
    std::visit(overloaded{
                   [](const StillHere&) {},
                   [&](const HostJobOrder& order) { take_order(order); },
                   [&](const StartAgents& start) { start_agent(start); },
                   [&](const SendSignal& send) { pass_signal(send.signal); },
               },
               message);
  }

  void take_order(const HostJobOrder& order) {
    if (order_ || order.hosts.empty()) return lose_contact();
    order_ = order;
    if (!order.token.empty()) prctl(PR_SET_DUMPABLE, 0);  // processes of our user, workers too, cannot read our memory
    reach_others();
    for (const auto& [name, value] : order.environment) setenv(name.c_str(), value.c_str(), 1);
    if (const std::string wrong = problem_here(); !wrong.empty()) {
      over_ = true;
      send(HostRefused{own().index, wrong, true});
      return end_if_done();
    }
    const SshAddresses addresses = ssh_addresses(node_variable("SSH_CONNECTION"));
    send(HostReady{own().index, addresses.server, addresses.client, free_port_here()});
  }

  void reach_others() {
    HostJobOrder others = *order_;
    others.hosts.erase(others.hosts.begin());
    if (others.hosts.empty()) return;
    links_.emplace(io_, std::move(others), version_, "",
                   NodeLinks::Listener{[this](const UpMessage& message) { send(message); }, [this] { end_if_done(); },
                                       [this] { return has_room(); }});
    links_->start();
  }

  std::string problem_here() const {
    if (chdir(order_->folder.c_str()) != 0)
      return own().name + ": the folder " + order_->folder + " cannot be entered: " + std::strerror(errno) +
             ". A job runs in the same folder on all its hosts: make it there.";
    std::string all;
    for (const std::string& sentence : check_({words_to_check(*order_), order_->config_name, order_->config_text}))
      all += (all.empty() ? own().name + ": " : " ") + sentence;
    return all;
  }

  void start_agent(const StartAgents& start) {
    if (!order_ || agent_) return lose_contact();
    if (links_) links_->send(start);
    if (over_ || !start.ranks.contains(own().index)) {
      over_ = true;
      return end_if_done();
    }
    agent_.emplace(io_, order_->shares_output,
                   HostAgent::Listener{[this](int stream, std::string lines) {
                                         send(HostOutput{own().index, stream, std::move(lines)});
                                       },
                                       [this](bool reported, const agent::JobEnd& end) {
                                         over_ = true;
                                         send(HostEnded{own().index, reported, end});
                                         end_if_done();
                                       },
                                       [this] { return has_room(); }});
    try {
      agent_->start({agent_words(*order_, start, {HostAgent::kConfigPath, HostAgent::kEventPath}), order_->token,
                     order_->config_text, order_->sends_events});
    } catch (const std::exception& error) {
      over_ = true;
      send(HostEnded{own().index, true, {kUnavailable, own().name + ": " + error.what(), {}}});
      end_if_done();
    }
    rendezvous::wipe(order_->token);
  }

  void pass_signal(int signal) {
    if (links_) links_->send(SendSignal{signal});
    if (agent_) agent_->signal(signal);
  }

  // As by a shutdown of this machine: for this host alone.
  void on_own_signal(int signal) {
    if (signal == SIGHUP) return;  // the end of the connection tells the same
    if (agent_ && agent_->runs()) return agent_->signal(signal);
    lose_contact();
  }

  void lose_contact() {
    if (std::exchange(alone_, true)) return;
    asio::error_code ignored;
    input_.close(ignored);
    if (links_) links_->close();
    if (!agent_ || !agent_->runs()) return io_.stop();
    resume_reading();  // what it prints is dropped
    agent_->signal(SIGTERM);
    end_timer_.expires_after(std::chrono::milliseconds(order_->stop_grace_ms) + kEndSlack);
    end_timer_.async_wait([this](const asio::error_code& cancelled) {
      if (!cancelled && agent_) agent_->signal(SIGKILL);
    });
  }

  // The other side has all our messages, or does not read any more.
  void end_if_done() {
    if (!over_ || (!alone_ && links_ && !links_->all_closed())) return;
    if (alone_ || sending_.empty()) return io_.stop();
    ending_ = true;
    end_timer_.expires_after(kLastWordsLimit);
    end_timer_.async_wait([this](const asio::error_code& cancelled) {
      if (!cancelled) io_.stop();
    });
  }

  void send(const UpMessage& message) {
    if (!alone_) write_bytes(rendezvous::framed(encode(message)));
  }

  void write_bytes(const std::string& bytes) {
    unsent_ += bytes;
    if (sending_.empty()) write_more();
  }

  void write_more() {
    sending_ = std::exchange(unsent_, {});
    asio::async_write(output_, asio::buffer(sending_), [this](const asio::error_code& error, std::size_t) {
      sending_.clear();
      if (error) {
        unsent_.clear();
        return lose_contact();
      }
      if (!unsent_.empty()) write_more();
      if (has_room()) resume_reading();
      if (ending_ && sending_.empty()) io_.stop();
    });
  }

  bool has_room() const { return alone_ || unsent_.size() + sending_.size() < kQueuedUpMax; }

  void resume_reading() {
    if (agent_) agent_->resume();
    if (links_) links_->resume();
  }

  const JobHost& own() const { return order_->hosts.front(); }

  static constexpr int kUnavailable = 69;

  const std::string version_;
  const std::function<std::vector<std::string>(const NodeQuestion&)> check_;
  asio::io_context io_;
  asio::posix::stream_descriptor input_, output_;
  asio::steady_timer second_, end_timer_;
  agent::SignalQueue signals_;
  std::array<char, 65'536> piece_;
  rendezvous::FrameReader frames_;
  TimePoint heard_;
  std::optional<HostJobOrder> order_;
  std::optional<NodeLinks> links_;
  std::optional<HostAgent> agent_;
  std::string unsent_, sending_;
  bool alone_ = false;   // nobody listens any more
  bool over_ = false;    // nothing runs here, or will
  bool ending_ = false;  // all is told
};

}  // namespace

int run_host_node(const std::string& version,
                  const std::function<std::vector<std::string>(const NodeQuestion&)>& check) try {
  if (isatty(STDIN_FILENO)) {
    print_line(stderr, "ddprun: ssh-node is what ddprun --hosts starts on each host; it is of no use by hand.");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  HostNode(version, check).run();
  return 0;
} catch (const std::exception& error) {
  print_line(stderr, std::string("ddprun: ") + error.what());
  return 70;
}

}  // namespace ddprun::launcher
