#include "launcher/ssh/job_head.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>

#include "agent/logs/console.h"
#include "agent/process/children.h"
#include "agent/process/keeper.h"
#include "agent/round/signal_queue.h"
#include "launcher/ssh/job_progress.h"
#include "launcher/ssh/node_links.h"
#include "launcher/ssh/repeated_lines.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

std::set<int> signals_of(std::set<int> ending) {
  ending.insert({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT});
  return ending;
}

ProgressOptions progress_options(const JobHeadOptions& options) {
  ProgressOptions out{{}, options.least, options.order.ssh};
  for (const JobHost& host : options.order.hosts) out.names.push_back(host.name);
  return out;
}

Fd event_file(const std::string& path) {
  if (path.empty()) return Fd();
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file)
    throw UsageError("cannot write events to " + path, std::strerror(errno),
                     "Pass a file that can be written by --event-log-handler file:PATH.");
  return file;
}

class JobHead {
 public:
  JobHead(JobHeadOptions options, int keeper_fd, bool prints_end)
      : options_(std::move(options)),
        prints_end_(prints_end),
        events_(event_file(options_.event_file)),
        signals_(io_, signals_of(options_.ending_signals)),
        keeper_(io_, dup(keeper_fd)),
        timer_(io_),
        out_(io_, STDOUT_FILENO, listener()),
        err_(io_, STDERR_FILENO, listener()),
        one_console_(out_.same_place(STDERR_FILENO)),
        progress_(progress_options(options_), Clock::now()),
        links_(io_, options_.order, options_.version, options_.own_name,
               {[this](const UpMessage& message) { on_message(message); }, [] {}, [this] { return has_room(); }}) {}

  agent::JobEnd run() {
    signals_.on_signal([this](int signal, bool /*from_terminal*/) { on_signal(signal); });
    keeper_.async_wait(asio::posix::stream_descriptor::wait_read, [](const asio::error_code& error) {
      if (error) return;
      agent::end_all_children(agent::kEndLimit);
      _exit(agent::kKeeperDied);
    });
    links_.start();
    await_deadline();
    io_.run();
    return end_;
  }

 private:
  agent::Console::Listener listener() {
    return {[] {},
            [this](bool idle) {
              if (idle) asio::post(io_, [this] { stop_if_finished(); });
            }};
  }

  agent::Console& console(int stream) { return stream == 1 || one_console_ ? out_ : err_; }
  bool has_room() const { return !out_.full() && !err_.full(); }

  void on_message(const UpMessage& message) {
    if (const auto* output = std::get_if<HostOutput>(&message)) return show(*output);
    carry_out(progress_.on(message, Clock::now()));
  }

  void show(const HostOutput& output) {
    if (output.stream == kEventStream) return write_events(output.bytes);
    agent::Console& to = console(output.stream);
    const void* const writer = &writers_[{output.index, output.stream}];
    to.add(writer,
           output.stream == 1 ? output.bytes : repeated_.without_repeated(output.index, output.bytes, Clock::now()));
    if (!to.full() || std::exchange(waits_for_room_, true)) return;
    to.when_room([this] {
      waits_for_room_ = false;
      links_.resume();
    });
  }

  // Whole lines, so that a reader never sees half of one.
  void write_events(const std::string& lines) {
    if (!events_ || write(events_.get(), lines.data(), lines.size()) == static_cast<ssize_t>(lines.size())) return;
    print("cannot write events to " + options_.event_file + ": " + std::strerror(errno) + "; further ones are lost.");
    events_.reset();
  }

  void print(const std::string& sentence) { console(2).add(nullptr, visible_lines("ddprun: " + sentence + "\n")); }

  void on_signal(int signal) {
    if (finished_ && options_.ending_signals.contains(signal)) return io_.stop();  // nobody reads our output
    carry_out(progress_.on_signal(signal, options_.ending_signals.contains(signal)));
  }

  void carry_out(const std::vector<ProgressAction>& actions) {
    for (const ProgressAction& action : actions)
      std::visit(overloaded{
                     [&](const PrintSentence& say) { print(say.sentence); },
                     [&](const StartOn& start) { start_agents(start.ranks); },
                     [&](const SendSignal& send) { links_.send(send); },
                     [&](const FinishJob& finish) { finish_job(finish); },
                 },
                 action);
  }

  void start_agents(const std::map<int, int>& ranks) {
    auto further = options_.start_options(progress_.ready());
    if (const auto* why = std::get_if<std::string>(&further)) return finish_job({{kUsageExit, *why, {}}, {*why}});
    links_.send(StartAgents{ranks, std::get<std::vector<std::string>>(further)});
  }

  void finish_job(const FinishJob& finish) {
    if (std::exchange(finished_, true)) return;
    end_ = finish.end;
    if (prints_end_)
      for (const std::string& sentence : finish.sentences) print(sentence);
    timer_.cancel();
    asio::post(io_, [this] {
      links_.close();
      stop_if_finished();
    });
  }

  void stop_if_finished() {
    if (finished_ && !out_.busy() && !err_.busy()) io_.stop();
  }

  void await_deadline() {
    const auto deadline = progress_.next_deadline();
    if (!deadline || finished_) return;
    timer_.expires_at(*deadline);
    timer_.async_wait([this](const asio::error_code& cancelled) {
      if (cancelled) return;
      carry_out(progress_.on_time(Clock::now()));
      await_deadline();
    });
  }

  static constexpr int kUsageExit = 2;

  const JobHeadOptions options_;
  const bool prints_end_;
  Fd events_;
  asio::io_context io_;
  agent::SignalQueue signals_;
  asio::posix::stream_descriptor keeper_;
  asio::steady_timer timer_;
  agent::Console out_, err_;
  const bool one_console_;
  bool waits_for_room_ = false, finished_ = false;
  std::map<std::pair<int, int>, char> writers_;  // whose addresses name the writers of progress bars
  RepeatedLines repeated_;
  JobProgress progress_;
  NodeLinks links_;
  agent::JobEnd end_;
};

}  // namespace

agent::JobEnd run_job_head(JobHeadOptions options, int keeper_fd, bool prints_end) {
  signal(SIGPIPE, SIG_IGN);
  return JobHead(std::move(options), keeper_fd, prints_end).run();
}

}  // namespace ddprun::launcher
