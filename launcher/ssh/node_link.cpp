#include "launcher/ssh/node_link.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "agent/process/process.h"
#include "launcher/ssh/connecting.h"
#include "launcher/ssh/ssh_command.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::milliseconds kDrainLimit{500};  // from ssh's end to that of its output

struct PipeEnds {
  Fd read, write;
};

PipeEnds link_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("cannot connect to a host", "no pipe", "Raise ulimit -n.");
  return {Fd(ends[0]), Fd(ends[1])};
}

std::vector<std::string> own_environment_lines() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) out.emplace_back(*entry);
  return out;
}

// As execvp would find it; the name itself if there is none.
std::string path_of_command(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "/usr/bin:/bin", ':'))
    if (const std::string file = (folder.empty() ? "." : folder) + "/" + name; access(file.c_str(), X_OK) == 0)
      return file;
  return name;
}

}  // namespace

bool has_input(int fd) {
  pollfd ready{fd, POLLIN, 0};
  return poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN);
}

NodeLink::NodeLink(asio::io_context& io, HostJobOrder order, std::vector<std::string> command, std::string version,
                   Listener listener)
    : io_(io),
      order_(std::move(order)),
      command_(std::move(command)),
      version_(std::move(version)),
      listener_(std::move(listener)),
      input_(io),
      output_(io),
      errors_(io),
      process_fd_(io),
      drain_(io),
      connect_(io) {
  for (const JobHost& host : order_.hosts) hosts_[host.index] = HostState::asked;
}

NodeLink::~NodeLink() {
  if (pid_ > 0 && !ended_) ::kill(pid_, SIGKILL);  // not reaped, so the pid is still its own
}

void NodeLink::start() {
  spawn_command();
  if (ended_) return end_if_done();
  await_end();
  limit_connecting();
  read_output();
  read_errors();
}

void NodeLink::spawn_command() {
  PipeEnds in = link_pipe(), out = link_pipe(), err = link_pipe();
  agent::SpawnRequest request;
  request.program = path_of_command(command_.front());
  request.argv = command_;
  request.environment = own_environment_lines();
  request.stdin_fd = in.read.get();
  request.stdout_fd = out.write.get();
  request.stderr_fd = err.write.get();
  agent::Spawned spawned = agent::spawn(request);
  if (spawned.error != 0) {
    status_.start_error = spawned.error;
    ended_ = output_ended_ = true;
    return;
  }
  pid_ = spawned.pid;
  input_.assign(in.write.release());
  output_.assign(out.read.release());
  errors_.assign(err.read.release());
  process_fd_.assign(spawned.fd.release());
}

void NodeLink::limit_connecting() {
  connect_.expires_after(kConnectLimit);
  connect_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled || closed_ || ended_ || greeting_.greeting() || !is_connecting(pid_)) return;
    refuse_first(not_answering(order_.ssh, host()));
    lose("");
  });
}

void NodeLink::await_end() {
  process_fd_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    const auto status = agent::reap({pid_, process_fd_.native_handle()}, 0);
    if (!status) return await_end();
    status_ = *status;
    ended_ = true;
    limit_output();
    end_if_done();
  });
}

// Another process may hold the other end of the pipe, such as a connection that ssh shares.
void NodeLink::limit_output() {
  drain_.expires_after(kDrainLimit);
  drain_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled || output_ended_ || closed_) return;
    if (paused_ || has_input(output_.native_handle())) return limit_output();
    output_ended_ = true;
    end_if_done();
  });
}

void NodeLink::read_output() {
  if (closed_ || output_ended_) return;
  if (!listener_.may_read()) {
    paused_ = true;
    return;
  }
  output_.async_read_some(asio::buffer(piece_), [this](const asio::error_code& error, std::size_t size) {
    if (error == asio::error::operation_aborted || closed_) return;
    if (error) {
      output_ended_ = true;
      return end_if_done();
    }
    heard_ = Clock::now();
    take({piece_.data(), size});
    read_output();
  });
}

void NodeLink::resume() {
  if (std::exchange(paused_, false)) read_output();
}

void NodeLink::read_errors() {
  errors_.async_read_some(asio::buffer(error_piece_), [this](const asio::error_code& error, std::size_t size) {
    if (error || closed_) return;
    last_words_.add({error_piece_.data(), size});
    read_errors();
  });
}

void NodeLink::take(std::string_view bytes) {
  if (greeting_.greeting()) {
    frames_.add(bytes);
    return take_frames();
  }
  greeting_.add(bytes);
  if (greeting_.greeting()) return greeted();
  if (greeting_.too_much()) lose("its shell prints without end before ddprun starts");
}

void NodeLink::greeted() {
  const Greeting& there = *greeting_.greeting();
  if (there.version != version_) {
    refuse_first(host() + " has ddprun " + there.version + " (" + there.path + "), and this is ddprun " + version_ +
                 ": install the same version there.");
    return lose("");
  }
  send(order_);
  frames_.add(greeting_.take_rest());
  take_frames();
}

void NodeLink::take_frames() {
  while (auto frame = frames_.next()) {
    if (closed_) return;
    const std::optional<UpMessage> message = decode_up(*frame);
    if (!message) return lose("it sends what is no message of ddprun " + version_);
    take_message(*message);
  }
  if (frames_.broken()) lose("it sends what is no message of ddprun " + version_);
}

void NodeLink::take_message(const UpMessage& message) {
  const auto index =
      std::visit(overloaded{[](const StillHere&) { return -1; }, [](const auto& of) { return of.index; }}, message);
  if (index < 0) return;
  const auto host = hosts_.find(index);
  if (host == hosts_.end() || host->second == HostState::over) return;
  if (std::holds_alternative<HostReady>(message))
    host->second = HostState::ready;
  else if (!std::holds_alternative<HostOutput>(message))
    host->second = HostState::over;
  listener_.on_message(message);
}

void NodeLink::send(const DownMessage& message) {
  if (closed_ || ended_ || !greeting_.greeting()) return;
  if (std::holds_alternative<StillHere>(message) && !unsent_.empty()) return;
  unsent_ += rendezvous::framed(encode(message));
  if (!writing_) write_more();
}

void NodeLink::write_more() {
  if (unsent_.empty() || closed_) return;
  writing_ = true;
  sending_ = std::exchange(unsent_, {});
  asio::async_write(input_, asio::buffer(sending_), [this](const asio::error_code& error, std::size_t) {
    writing_ = false;
    std::fill(sending_.begin(), sending_.end(), '\0');  // it may have held the token
    if (!error) write_more();
  });
}

void NodeLink::on_second(TimePoint now) {
  if (closed_) return;
  send(StillHere{});
  const bool in_contact = hosts_.at(order_.hosts.front().index) != HostState::asked;
  if (!in_contact || paused_ || ended_ || now - heard_ <= kContactLimit || has_input(output_.native_handle())) return;
  lose("it has not answered for " + std::to_string(kContactLimit.count()) + " s");
}

void NodeLink::close() {
  if (std::exchange(closed_, true)) return;
  asio::error_code ignored;
  input_.close(ignored);
  if (pid_ > 0 && !ended_) ::kill(pid_, SIGTERM);
}

void NodeLink::lose(const std::string& why) {
  if (closed_) return;
  over(why);
  close();
  if (pid_ > 0 && !ended_) ::kill(pid_, SIGKILL);
  listener_.on_closed();
}

void NodeLink::end_if_done() {
  if (!ended_ || !output_ended_ || closed_) return;
  drain_.cancel();
  over(connection_loss(status_, last_words_.lines()));
  closed_ = true;
  listener_.on_closed();
}

void NodeLink::refuse_first(const std::string& why) {
  const int index = order_.hosts.front().index;
  hosts_.at(index) = HostState::over;
  refused_ = true;
  listener_.on_message(HostRefused{index, why, false});
}

void NodeLink::over(const std::string& why) {
  if (refused_) return;
  if (!greeting_.greeting() && ended_)
    return refuse_first(ssh_failure({order_.ssh, host(), order_.ddprun, version_, status_, last_words_.lines()}));
  for (const JobHost& one : order_.hosts) {
    HostState& state = hosts_.at(one.index);
    if (std::exchange(state, HostState::over) != HostState::over) listener_.on_message(HostLost{one.index, why});
  }
}

std::vector<JobHost> NodeLink::unreached() const {
  if (!refused_) return {};
  return {order_.hosts.begin() + 1, order_.hosts.end()};
}

}  // namespace ddprun::launcher
