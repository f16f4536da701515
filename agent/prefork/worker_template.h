// The process from which a node's workers are forked (--prefork): it has loaded the program's libraries, and waits.
//
// rendezvous/prefork/fork_request.h has what it is told. A worker that it forks is the agent's own child, and differs
// from one that spawn() starts in nothing but the time that it needed. Where that cannot be had, the worker is started
// by spawn(), and a sentence says why: a template costs no round.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "agent/prefork/loaded_files.h"
#include "agent/process/process.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct TemplateCommand {
  std::string program;  // a path, already looked up
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // without what only a worker has
  bool core_dumps = false;               // SpawnRequest::core_dumps
  bool python = false;                   // argv begins with an interpreter
  std::string imports = {};              // of Python: modules to import besides PyTorch, comma-separated
  std::string learned = {};  // of Python: a file of modules that the program has imported before; empty: none
};

struct TemplateTiming {
  std::chrono::milliseconds load_max = std::chrono::minutes(5);
  std::chrono::milliseconds fork_max = std::chrono::seconds(2);   // one that takes longer delays the round
  std::chrono::milliseconds forks_max = std::chrono::seconds(4);  // all of a round: the rest is started without it
};

class WorkerTemplate {
 public:
  // `say` gets sentences without their end. `on_settled`: it is loaded, or will not be: the first round need not wait.
  WorkerTemplate(asio::io_context& io, TemplateCommand command, std::function<void(const std::string&)> say,
                 std::function<void()> on_settled, TemplateTiming timing = {});
  ~WorkerTemplate();

  void start();
  void stop();
  // True until the first one is loaded, or cannot be.
  bool is_awaited() const { return awaited_; }
  // No round waits for it.
  void do_not_await() { awaited_ = false; }
  // Before the workers of a round are started: looks whether the template may be used, and says why not.
  void begin_round();
  // Asks it for a worker, which `done` gets later, as from spawn(); it waits until `go` is called, which is false if it
  // has ended. Empty: none was started. False: it may not be used, and `done` is not called. Then use spawn(). One
  // worker at a time.
  using Go = std::function<bool()>;
  using Forked = std::function<void(std::optional<Spawned>, const Go& go)>;
  bool fork(const SpawnRequest& request, Forked done);
  // The worker that is awaited is not wanted any more, and ends by itself. `done` is not called.
  void forget() { forking_.reset(); }
  // A child of the agent that is none of its workers.
  std::optional<pid_t> child() const;

 private:
  enum class State { none, probing, loading, ready };
  struct Running {
    pid_t pid;
    asio::posix::stream_descriptor fd;

    ChildProcess child() { return {pid, fd.native_handle()}; }
  };
  struct Forking {
    asio::posix::stream_descriptor worker;  // our end of its socket
    asio::steady_timer timer;
    TimePoint began;
    int cgroup_fd;
    Forked done;
  };

  Spawned spawn_with(std::vector<std::string> argv, const std::string& variable, std::vector<PassedFd> passed);
  void run(State state, Spawned spawned);
  void await_end();
  void on_end();
  void load();
  void await_hello();
  void on_hello();
  void settle();
  // Starts another one, as this one is unusable. Empty `why`: without a word.
  void replace(const std::string& why);
  void give_up(const std::string& why);
  void end_running();
  std::string obstacle();
  void await_answer();
  void on_answer();
  void no_answer();

  asio::io_context& io_;
  const TemplateCommand command_;
  const std::function<void(const std::string&)> say_;
  const std::function<void()> on_settled_;
  const TemplateTiming timing_;
  asio::steady_timer timer_;
  State state_ = State::none;
  std::optional<Running> running_;
  std::optional<asio::posix::stream_descriptor> socket_;  // to it
  pid_t pid_ = 0;  // its own: a wrapper of the interpreter may be what was started
  LoadedFiles files_;
  std::vector<std::string> harmless_files_;  // those that were open when there was no obstacle
  bool awaited_ = true, usable_ = false;
  Duration forks_took_ = {};  // in this round
  std::shared_ptr<Forking> forking_;
  int failed_loads_ = 0;  // since one was ready
};

}  // namespace ddprun::agent
