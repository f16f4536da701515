#include "agent/logs/log_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <asio.hpp>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "agent/diagnosis/kept_tracebacks.h"
#include "agent/diagnosis/traceback_hold.h"
#include "agent/logs/console.h"
#include "agent/logs/line_buffer.h"
#include "agent/logs/stream_ends.h"
#include "agent/process/files/regular_file.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/thread.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} * 1024;        // as much as a pipe holds
constexpr std::size_t kBusyStreamBytes = std::size_t{16} * 1024;  // a stream with this much is read again at once
constexpr std::chrono::milliseconds kReadPause{1};                // others pause: single lines share a read
constexpr std::chrono::milliseconds kRedraw{100};                 // a progress bar's text is complete by then
constexpr std::chrono::milliseconds kResize{100};                 // only a stuck disk takes longer
constexpr std::chrono::milliseconds kFilesOnly{500};              // between two checks, once no console is waited for
constexpr std::chrono::seconds kHoldLimit{2};                     // time for an interpreter to end after its traceback
constexpr std::chrono::milliseconds kThreadEndLimit{500};         // for the thread to end, unless a disk is stuck
constexpr std::string_view kFreshLine = "\r\x1b[K";               // overwrites a worker's progress bar

std::string unwritable(const std::filesystem::path& path, const std::string& why) {
  return "ddprun: cannot write " + path.string() + ": " + why +
         ". The job goes on; this log is incomplete, and other logs may be, too.\n";
}

using Key = std::pair<int, int>;  // round, rank

// For the report: lines that passed through us, or where they begin in a file.
struct RememberedLines {
  Tail tail;
  std::filesystem::path file = {};
  std::uintmax_t begin = 0;
  bool passing = false;  // the stream is open: more may come
};

}  // namespace

struct LogPipes::State {
  // One worker's stream, from the pipe to its destinations.
  struct Stream {
    LogStream options;
    bool terminal;
    asio::posix::stream_descriptor pipe;
    Console* console = nullptr;
    LinePrefix shown_prefix = {};
    LineBuffer lines = {};
    TracebackHold hold = {};
    std::optional<asio::steady_timer> give_up_hold = {};
    std::unique_ptr<LogFile> file = {};
    LineBuffer file_lines = {};
    std::shared_ptr<LogFile> filtered = {};
    LineBuffer filtered_lines = {};
    LastBytes newest = {};  // guarded by State::mutex
  };
  using StreamPtr = std::shared_ptr<Stream>;

  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  Console::Listener listener{[this] { ++progress; }, [this](bool idle) { idle ? remove_pending() : add_pending(); }};
  Console out{io, STDOUT_FILENO, listener}, err{io, STDERR_FILENO, listener};
  bool one_console = out.same_place(STDERR_FILENO);
  asio::steady_timer pause_timer{io}, redraw_timer{io};
  KeptTracebacks kept{io, [this](const std::string& line) { print(line); }};
  std::vector<StreamPtr> paused;
  std::set<StreamPtr> redraws;
  std::map<std::filesystem::path, std::weak_ptr<LogFile>> filtered_files;  // used by the main thread only
  std::string scratch;
  bool warned = false;
  const std::unique_ptr<char[]> buffer{new char[kReadBytes]};  // not zeroed, which would cost time at every start

  std::atomic<std::uint64_t> progress = 0;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable idle;
  std::set<StreamPtr> streams;                // that are open; the main thread adds to it
  int pending = 0;                            // open streams, unprinted texts, consoles with something to write
  std::map<Key, RememberedLines> remembered;  // of the newest round alone

  Console& console(int fd) { return fd == STDOUT_FILENO || one_console ? out : err; }

  // Called by the main thread.
  void open(const LogStream& options, bool terminal, int fd) {
    StreamPtr stream(new Stream{options, terminal, asio::posix::stream_descriptor(io, fd)});
    if (options.console_fd >= 0) stream->console = &console(options.console_fd);
    set_shown_prefix(*stream);
    if (!options.file.empty()) stream->file = std::make_unique<LogFile>(options.file, options.limit);
    if (!options.filtered_file.empty()) {
      stream->filtered = filtered_file(options);
      stream->filtered_lines = LineBuffer(options.needles);
    }
    {
      const std::lock_guard lock(mutex);
      ++pending;
      streams.insert(stream);
      if (options.remember_tail) lines_to_remember(options).passing = true;
    }
    wait(stream);  // from here on the thread's; it need not wake up for that
  }

  static void set_shown_prefix(Stream& stream) {
    const LogStream& options = stream.options;
    if (!options.prefixed) return;
    const bool coloured = options.colour && stream.console && stream.console->terminal();
    stream.shown_prefix = coloured ? options.prefix.coloured(options.rank) : options.prefix;
  }

  bool is_open(const StreamPtr& stream) {
    const std::lock_guard lock(mutex);
    return streams.count(stream) > 0;
  }

  // In the thread.
  void go_on(const Key& from, const LogStream& as) {
    const std::lock_guard lock(mutex);
    for (const StreamPtr& stream : streams) {
      LogStream& options = stream->options;
      if (Key(options.round, options.rank) != from) continue;
      options.round = as.round;
      options.rank = as.rank;
      options.prefix = as.prefix;
      options.tap = as.tap;
      set_shown_prefix(*stream);
    }
  }

  // One file for all ranks, so that they share one size limit.
  std::shared_ptr<LogFile> filtered_file(const LogStream& options) {
    std::weak_ptr<LogFile>& known = filtered_files[options.filtered_file];
    std::shared_ptr<LogFile> file = known.lock();
    if (!file) known = file = std::make_shared<LogFile>(options.filtered_file, options.limit);
    return file;
  }

  void wait(const StreamPtr& stream) {
    stream->pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this, stream](const asio::error_code& error) { error ? close(stream) : read(stream); });
  }

  void read(const StreamPtr& stream) {
    if (stream->console && stream->console->full()) return stream->console->when_room([this, stream] { read(stream); });
    const ssize_t size = ::read(stream->pipe.native_handle(), buffer.get(), kReadBytes);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return wait(stream);
    if (size <= 0) return close(stream);  // end of file, or EIO after a terminal's last writer has closed it
    const std::string_view bytes(buffer.get(), static_cast<std::size_t>(size));
    pass_on(*stream, bytes);
    if (stream->options.tap) stream->options.tap(bytes);
    show_hold_later(stream);
    if (stream->lines.holds_redraw()) show_later(stream);
    if (static_cast<std::size_t>(size) < kBusyStreamBytes) return pause(stream);
    asio::post(io, [this, stream] { read(stream); });
  }

  void pause(const StreamPtr& stream) {
    paused.push_back(stream);
    if (paused.size() > 1) return;
    pause_timer.expires_after(kReadPause);
    pause_timer.async_wait([this](const asio::error_code&) {
      for (const StreamPtr& resumed : std::exchange(paused, {})) read(resumed);
    });
  }

  void pass_on(Stream& stream, std::string_view bytes) {
    ++progress;
    remember(stream, bytes);
    to_file(stream, bytes);
    to_filtered(stream, [&](LineBuffer& lines, const std::string& prefix) { lines.take(bytes, prefix, scratch); });
    if (!stream.console) return;
    if (!stream.options.hold_tracebacks) return to_console(stream, bytes);
    to_console(stream, stream.hold.take(bytes));
  }

  static void to_console(Stream& stream, std::string_view bytes) {
    if (bytes.empty()) return;
    if (!stream.options.whole_lines) return stream.console->add(&stream, bytes);
    const std::string& prefix = prefix_of(stream);
    stream.console->compose(&stream, [&](std::string& queue) { stream.lines.take(bytes, prefix, queue); });
  }

  // A program may print a traceback and go on: then it is shown late.
  void show_hold_later(const StreamPtr& stream) {
    if (!stream->hold.holds()) return stream->give_up_hold.reset();
    if (stream->give_up_hold) return;
    stream->give_up_hold.emplace(io, kHoldLimit);
    stream->give_up_hold->async_wait([this, stream](const asio::error_code& error) {
      if (error || !is_open(stream)) return;
      stream->give_up_hold.reset();
      to_console(*stream, stream->hold.release());
    });
  }

  static void end_lines(Stream& stream) {
    const std::string& prefix = prefix_of(stream);
    stream.console->compose(&stream, [&](std::string& queue) { stream.lines.take_rest(prefix, queue, true); });
  }

  static const std::string& prefix_of(Stream& stream) {
    return stream.shown_prefix.text(std::chrono::system_clock::now());
  }

  // Closes the descriptor, which is not needed while the traceback waits.
  void keep(const StreamPtr& stream) {
    stream->give_up_hold.reset();
    stream->pipe.close();
    const auto show = [stream](const std::string& text) {
      to_console(*stream, text);
      end_lines(*stream);
    };
    kept.keep({stream->options.round, stream->options.rank}, stream->hold.release(), show, Clock::now());
  }

  void remember(Stream& stream, std::string_view bytes) {
    const TimePoint now = Clock::now();
    const std::lock_guard lock(mutex);
    stream.newest.add(bytes, now);
    if (!stream.options.remember_tail) return;
    remembered[{stream.options.round, stream.options.rank}].tail.add(bytes);
  }

  void to_file(Stream& stream, std::string_view bytes) {
    if (!stream.file) return;
    if (!stream.file->limited()) return write(*stream.file, bytes);
    scratch.clear();
    stream.file_lines.take(bytes, {}, scratch);
    write(*stream.file, scratch);
  }

  template <class Take>
  void to_filtered(Stream& stream, Take take) {
    if (!stream.filtered) return;
    scratch.clear();
    take(stream.filtered_lines, stream.options.prefix.text(std::chrono::system_clock::now()));
    write(*stream.filtered, scratch);
  }

  void write(LogFile& file, std::string_view bytes) {
    if (bytes.empty()) return;
    if (const int error = file.write(bytes)) warn(unwritable(file.path(), why_unwritable(error)));
  }

  void warn(const std::string& text) {
    if (!std::exchange(warned, true)) print(text);
  }

  void print(std::string line) {
    if (line.ends_with('\n')) line.pop_back();
    put(visible(line) + "\n");
  }

  void put(const std::string& text) {
    Console& to = console(STDERR_FILENO);
    to.add(this, to.terminal() ? std::string(kFreshLine) + text : text);
  }

  // Cut to the terminal's width, as a wrapped line could not be overwritten.
  void show(const std::string& text) {
    const std::string line = visible(text);
    Console& to = console(STDERR_FILENO);
    if (!to.terminal() || to.full()) return;
    std::size_t size = std::min(line.size(), columns_of(STDERR_FILENO) - 1);
    while (size > 0 && size < line.size() && (line[size] & 0xC0) == 0x80) --size;  // between two characters of UTF-8
    const std::string cut = line.substr(0, size);
    to.add(this, std::string(kFreshLine) + (cut.empty() ? "" : cut + "\r"));
  }

  void show_later(const StreamPtr& stream) {
    redraws.insert(stream);
    if (redraws.size() > 1) return;
    redraw_timer.expires_after(kRedraw);
    redraw_timer.async_wait([this](const asio::error_code&) {
      for (const StreamPtr& held : std::exchange(redraws, {})) show_redraw(held);
    });
  }

  void show_redraw(const StreamPtr& stream) {
    if (!is_open(stream) || !stream->lines.holds_redraw()) return;
    if (stream->console->full()) return show_later(stream);
    const std::string& prefix = prefix_of(*stream);
    stream->console->compose(stream.get(), [&](std::string& queue) { stream->lines.show_redraw(prefix, queue); });
  }

  // On a shared console an incomplete last line gets a line end, or the next worker's line would be appended to it.
  void close(const StreamPtr& stream) {
    to_filtered(*stream, [&](LineBuffer& lines, const std::string& prefix) { lines.take_rest(prefix, scratch, true); });
    scratch.clear();
    stream->file_lines.take_rest({}, scratch, false);
    if (stream->file) write(*stream->file, scratch);
    if (stream->hold.holds_traceback())
      keep(stream);
    else if (stream->console) {
      to_console(*stream, stream->hold.release());
      end_lines(*stream);
    }
    on_stream_end(stream);
  }

  void resize() {
    const std::lock_guard lock(mutex);
    for (const StreamPtr& stream : streams)
      if (stream->terminal) copy_size(stream->options.console_fd, stream->pipe.native_handle());
  }

  void abandon_stuck_consoles() {
    for (Console* console : {&out, &err})
      if (console->busy()) console->abandon();
  }

  void add_pending() {
    const std::lock_guard lock(mutex);
    ++pending;
  }

  void remove_pending() {
    const std::lock_guard lock(mutex);
    --pending;
    idle.notify_all();
  }

  void on_stream_end(const StreamPtr& stream) {
    const LogStream& options = stream->options;
    const std::lock_guard lock(mutex);
    streams.erase(stream);
    --pending;
    if (options.remember_tail)
      if (const auto memory = remembered.find({options.round, options.rank}); memory != remembered.end())
        memory->second.passing = false;
    idle.notify_all();
  }

  // Forgets older rounds.
  RememberedLines& lines_to_remember(const LogStream& options) {
    remembered.erase(remembered.begin(), remembered.lower_bound({options.round, 0}));
    return remembered[{options.round, options.rank}];
  }

  bool wait_until_idle(std::chrono::milliseconds stuck) {
    std::unique_lock lock(mutex);
    for (;;) {
      const std::uint64_t before = progress;
      if (idle.wait_for(lock, stuck, [this] { return pending == 0; })) return true;
      if (progress == before) return false;
    }
  }
};

struct LogPipes::End {
  std::mutex mutex;
  std::condition_variable notified;
  bool reached = false;
};

LogPipes::LogPipes() : state_(std::make_shared<State>()), read_file_(newest_part), end_(std::make_shared<End>()) {
  const std::string refused = start_detached([state = state_, end = end_]() mutable {
    state->io.run();
    state.reset();
    const std::lock_guard lock(end->mutex);
    end->reached = true;
    end->notified.notify_all();
  });
  if (!refused.empty())
    throw Error("cannot start", refused,
                "Raise the limit of processes of this user (ulimit -u) or of this control group (pids.max).");
}

// A thread blocked by a stuck disk must not block us; otherwise the thread has ended before the process is torn down.
LogPipes::~LogPipes() {
  state_->io.stop();
  state_.reset();
  std::unique_lock lock(end_->mutex);
  end_->notified.wait_for(lock, kThreadEndLimit, [this] { return end_->reached; });
}

Fd LogPipes::open(const LogStream& options) {
  StreamEnds ends = options.prefixed ? open_pipe() : open_like(options.console_fd);
  fcntl(ends.read.get(), F_SETFL, O_NONBLOCK);
  state_->open(options, ends.terminal, ends.read.release());
  return std::move(ends.write);
}

Fd LogPipes::own_file(const LogStream& options, OpenedFile opened) {
  if (!opened.fd) {
    warn(unwritable(options.file, why_unwritable(opened.error)));
  } else if (options.remember_tail) {
    const std::lock_guard lock(state_->mutex);
    state_->lines_to_remember(options) = {{}, options.file, opened.bytes};
  }
  return std::move(opened.fd);
}

void LogPipes::go_on(int round, int rank, const LogStream& as) {
  const Key from(round, rank);
  {
    const std::lock_guard lock(state_->mutex);
    if (auto lines = state_->remembered.extract(from)) {
      lines.key() = {as.round, as.rank};
      lines.mapped().tail = {};
      std::error_code unknown;
      if (const auto& file = lines.mapped().file; !file.empty())
        if (const std::uintmax_t size = std::filesystem::file_size(file, unknown); !unknown)
          lines.mapped().begin = size;
      state_->remembered.insert(std::move(lines));
    }
  }
  asio::post(state_->io, [&state = *state_, from, as] { state.go_on(from, as); });
}

std::vector<std::string> LogPipes::last_lines(int round, int rank) const {
  if (std::vector<std::string> traceback = state_->kept.lines_of({round, rank}); !traceback.empty()) return traceback;
  RememberedLines known;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->remembered.find({round, rank});
    if (found == state_->remembered.end()) return {};
    known = found->second;
  }
  if (!known.file.empty()) known.tail.add(read_file_(known.file, known.begin));
  return known.tail.lines();
}

std::vector<LogPipes::PassedEnd> LogPipes::passed_ends(int round, int rank) const {
  std::vector<PassedEnd> out;
  const std::lock_guard lock(state_->mutex);
  for (const State::StreamPtr& stream : state_->streams)
    if (stream->options.round == round && stream->options.rank == rank)
      out.push_back({stream->options.is_stdout, stream->newest.at(), stream->newest.bytes()});
  return out;
}

void LogPipes::await_end(int round, int rank, std::chrono::milliseconds limit) const {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait_for(lock, limit, [&] {
    const auto found = state_->remembered.find({round, rank});
    return found == state_->remembered.end() || !found->second.passing;
  });
}

void LogPipes::await_close(int round, int rank, std::chrono::milliseconds limit) const {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait_for(lock, limit, [&] {
    return std::none_of(state_->streams.begin(), state_->streams.end(), [&](const State::StreamPtr& stream) {
      return stream->options.round == round && stream->options.rank == rank;
    });
  });
}

void LogPipes::print(const std::string& line) {
  state_->add_pending();
  asio::post(state_->io, [&state = *state_, line] {
    state.print(line);
    state.remove_pending();
  });
}

void LogPipes::print_lines(const std::string& text) {
  state_->add_pending();
  asio::post(state_->io, [&state = *state_, text] {
    state.put(visible_lines(text));
    state.remove_pending();
  });
}

void LogPipes::show_tracebacks(const std::string& report) {
  state_->add_pending();
  asio::post(state_->io, [&state = *state_, report] {
    state.kept.show_unless_quoted(report);
    state.remove_pending();
  });
}

void LogPipes::show(const std::string& line) {
  state_->add_pending();
  asio::post(state_->io, [&state = *state_, line] {
    state.show(line);
    state.remove_pending();
  });
}

void LogPipes::warn(const std::string& text) {
  state_->add_pending();
  asio::post(state_->io, [&state = *state_, text] {
    state.warn(text);
    state.remove_pending();
  });
}

void LogPipes::resize() {
  const auto done = std::make_shared<std::promise<void>>();
  asio::post(state_->io, [&state = *state_, done] {
    state.resize();
    done->set_value();
  });
  done->get_future().wait_for(kResize);
}

bool LogPipes::drain(std::chrono::milliseconds stuck) {
  if (state_->wait_until_idle(stuck)) return true;
  asio::post(state_->io, [&state = *state_] { state.abandon_stuck_consoles(); });
  state_->wait_until_idle(std::min(stuck, kFilesOnly));
  return false;
}

}  // namespace ddprun::agent
