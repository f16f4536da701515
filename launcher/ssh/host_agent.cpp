#include "launcher/ssh/host_agent.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <cerrno>
#include <cstring>

#include "agent/process/files/regular_file.h"
#include "agent/process/process.h"
#include "launcher/ssh/message.h"
#include "rendezvous/base/error.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::milliseconds kShowRedraw{200};
constexpr std::chrono::seconds kOutputLimit{2};  // from the agent's end to that of its output
constexpr std::size_t kEndFileMax = 4 << 20;
constexpr int kConfigFd = 4, kEventFd = 5;
constexpr int kSignalBase = 128;
constexpr int kPipeBytes = 1 << 20;

struct AgentPipe {
  Fd read, write;
};

AgentPipe agent_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("cannot start the agent", std::strerror(errno));
  fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes);
  return {Fd(ends[0]), Fd(ends[1])};
}

Fd memory_file(const std::string& text) {
  Fd file(memfd_create("ddprun-config", MFD_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Error("cannot hand over the configuration file", std::strerror(errno));
  return file;
}

std::filesystem::path folder_for_end_file() {
  std::string name = (std::filesystem::temp_directory_path() / "ddprun-host-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error("cannot make a folder in " + std::filesystem::temp_directory_path().string(), std::strerror(errno));
  return name;
}

// Options of ddprun come by its command line only.
bool is_for_agents(const std::string& variable) {
  for (const char* own : {"PET_", "DDPRUN_TOKEN=", "DDPRUN_STARTED_BY=", "DDPRUN_END_FILE=", "DDPRUN_HAS_RECORD="})
    if (variable.starts_with(own)) return false;
  return true;
}

std::vector<std::string> environment_for_agent(const std::string& token, const std::string& end_file) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry)
    if (is_for_agents(*entry)) out.emplace_back(*entry);
  out.push_back("DDPRUN_STARTED_BY=" + std::to_string(getpid()));
  out.push_back("DDPRUN_END_FILE=" + end_file);
  out.push_back("DDPRUN_HAS_RECORD=1");  // the head keeps it
  if (!token.empty()) out.push_back(std::string(rendezvous::kTokenVariable) + "=" + token);
  return out;
}

}  // namespace

HostAgent::HostAgent(asio::io_context& io, bool end_lines, Listener listener)
    : io_(io),
      end_lines_(end_lines),
      listener_(std::move(listener)),
      out_(io, 1),
      err_(io, 2),
      events_(io, kEventStream),
      process_fd_(io),
      drain_(io) {}

HostAgent::~HostAgent() {
  if (runs()) ::kill(pid_, SIGKILL);
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void HostAgent::start(const Order& order) {
  folder_ = folder_for_end_file();
  const Fd config = memory_file(order.config_text), nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  AgentPipe out = agent_pipe(), err = agent_pipe(), events = agent_pipe();
  agent::SpawnRequest request;
  request.program = std::filesystem::read_symlink("/proc/self/exe").string();
  request.argv = {program_invocation_name};  // as this one was called: it chooses the same Python
  request.argv.insert(request.argv.end(), order.words.begin(), order.words.end());
  request.environment = environment_for_agent(order.token, (folder_ / "end.json").string());
  request.stdin_fd = nothing.get();
  request.stdout_fd = out.write.get();
  request.stderr_fd = err.write.get();
  request.passed = {{config.get(), kConfigFd}};
  if (order.sends_events) request.passed.push_back({events.write.get(), kEventFd});
  agent::Spawned spawned = agent::spawn(request);
  for (std::string& variable : request.environment)
    if (variable.starts_with(rendezvous::kTokenVariable)) rendezvous::wipe(variable);
  if (spawned.error != 0) throw Error("cannot run " + request.program, std::strerror(spawned.error));
  pid_ = spawned.pid;
  out_.pipe.assign(out.read.release());
  err_.pipe.assign(err.read.release());
  events_.pipe.assign(events.read.release());
  process_fd_.assign(spawned.fd.release());
  await_end();
  for (Stream* stream : {&out_, &err_, &events_}) read(*stream);
}

void HostAgent::signal(int number) const {
  if (runs()) ::kill(pid_, number);  // not reaped, so the pid is still its own
}

void HostAgent::resume() {
  for (Stream* stream : {&out_, &err_, &events_})
    if (std::exchange(stream->paused, false)) read(*stream);
}

void HostAgent::read(Stream& stream) {
  if (stream.ended) return;
  if (!listener_.may_read()) {
    stream.paused = true;
    return;
  }
  stream.pipe.async_read_some(asio::buffer(stream.piece),
                              [this, &stream](const asio::error_code& error, std::size_t size) {
                                if (stream.ended) return;
                                if (error) return end_stream(stream);
                                take(stream, {stream.piece.data(), size});
                                read(stream);
                              });
}

void HostAgent::take(Stream& stream, std::string_view bytes) {
  std::string lines;
  stream.lines.take(bytes, "", lines);
  if (!lines.empty()) listener_.on_output(stream.number, std::move(lines));
  if (stream.lines.holds_redraw()) show_redraw_later(stream);
}

void HostAgent::show_redraw_later(Stream& stream) {
  stream.redraw.expires_after(kShowRedraw);
  stream.redraw.async_wait([this, &stream](const asio::error_code& cancelled) {
    if (cancelled || !stream.lines.holds_redraw()) return;
    std::string lines;
    stream.lines.show_redraw("", lines);
    listener_.on_output(stream.number, std::move(lines));
  });
}

void HostAgent::end_stream(Stream& stream) {
  if (std::exchange(stream.ended, true)) return;
  stream.redraw.cancel();
  std::string rest;
  stream.lines.take_rest("", rest, end_lines_);
  if (!rest.empty()) listener_.on_output(stream.number, std::move(rest));
  end_if_done();
}

void HostAgent::await_end() {
  process_fd_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    const auto status = agent::reap({pid_, process_fd_.native_handle()}, 0);
    if (!status) return await_end();
    exit_code_ = status->signal ? kSignalBase + status->signal : status->code;
    ended_ = true;
    limit_output();
    end_if_done();
  });
}

// All that the agent started has ended with it; what could not be ended may hold its output.
void HostAgent::limit_output() {
  drain_.expires_after(kOutputLimit);
  drain_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    if (out_.paused || err_.paused || events_.paused) return limit_output();
    for (Stream* stream : {&out_, &err_, &events_}) end_stream(*stream);
  });
}

void HostAgent::end_if_done() {
  if (!ended_ || !out_.ended || !err_.ended || !events_.ended || std::exchange(told_, true)) return;
  drain_.cancel();
  auto end = read_job_end(agent::beginning_of_file(folder_ / "end.json", kEndFileMax));
  const bool reported = end.has_value();
  listener_.on_end(reported, reported ? *end : agent::JobEnd{exit_code_, {}, {}});
}

}  // namespace ddprun::launcher
