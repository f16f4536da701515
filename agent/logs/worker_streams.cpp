#include "agent/logs/worker_streams.h"

#include <fcntl.h>

#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun::agent {
namespace {

using Way = StreamPlan::Way;

std::string log_name(StreamBits stream) { return stream == kStdout ? "stdout.log" : "stderr.log"; }

std::string filtered_name(StreamBits stream) { return "filtered_" + log_name(stream); }

std::string goes_on_without(const std::string& problem) {
  return "ddprun: " + problem + " The job goes on without it.\n";
}

}  // namespace

WorkerStreams::WorkerStreams(LogOptions options, LogLayout& layout, LogPipes& pipes)
    : options_(std::move(options)), layout_(layout), pipes_(pipes) {}

void WorkerStreams::make_error_folder() {
  try {
    layout_.make_error_folder();
  } catch (const Error& error) {
    pipes_.warn(goes_on_without(error.what()));
  }
}

void WorkerStreams::prepare(asio::io_context& io, const std::vector<WorkerPlace>& workers, const std::set<int>& staying,
                            const std::function<void()>& ready) {
  if (!layout_.keeps_logs()) return ready();
  if (!files_)
    files_ = std::make_unique<RoundFiles>(
        io, [&pipes = pipes_](const std::string& sentence) { pipes.print("ddprun: " + sentence + ".\n"); });
  std::map<int, WantedFiles> wanted;
  for (const WorkerPlace& worker : workers)
    wanted[worker.rank] =
        staying.contains(worker.local_rank) ? WantedFiles{layout_.log_folder(worker)} : wanted_files(worker);
  files_->make(layout_.round_folder(workers.front()), std::move(wanted), ready);
}

WantedFiles WorkerStreams::wanted_files(const WorkerPlace& worker) const {
  WantedFiles out{layout_.log_folder(worker)};
  for (const StreamBits stream : {kStdout, kStderr}) {
    const StreamPlan plan = plan_stream(options_, stream, worker.local_rank, worker.rank, /*files=*/true);
    if (plan.way == Way::own_file) out.own.push_back(out.folder / log_name(stream));
    if (plan.way == Way::through_us && plan.file) out.ours.push_back(out.folder / log_name(stream));
    if (plan.filtered) out.ours.push_back(layout_.round_folder(worker) / filtered_name(stream));
  }
  return out;
}

// Where logs are kept, prepare() has made the folder; elsewhere it is one for temporary files.
WorkerStreams::Streams WorkerStreams::place(const WorkerPlace& worker, MadeFiles& made) {
  Streams streams;
  try {
    if (layout_.keeps_logs()) {
      auto ready = files_->take(worker.rank);
      if (!ready) return streams;  // given up, as was told
      made = std::move(*ready);
      if (!made.problem.empty()) return pipes_.warn(goes_on_without(made.problem)), std::move(streams);
      streams.folder = layout_.log_folder(worker);
    } else {
      streams.folder = layout_.worker_folder(worker);
    }
    streams.error_file = layout_.error_file(worker);
  } catch (const Error& error) {
    pipes_.warn(goes_on_without(error.what()));
  }
  return streams;
}

WorkerStreams::Streams WorkerStreams::go_on(const WorkerPlace& from, const WorkerPlace& to) {
  LogStream as{to.round, to.rank};
  as.prefix = prefix_of(to);
  as.tap = tap_of(to);
  if (options_.kept) {
    KeptOutput::Worker worker = options_.kept->worker(to.local_rank);
    worker.round = to.round, worker.rank = to.rank;
    options_.kept->starts(to.local_rank, worker);
  }
  pipes_.go_on(from.round, from.rank, as);
  MadeFiles none;
  return place(to, none);
}

std::function<void(std::string_view bytes)> WorkerStreams::tap_of(const WorkerPlace& worker) const {
  auto monitor = options_.monitor ? options_.monitor->tap(worker.round, worker.local_rank) : nullptr;
  auto keep = options_.keeps_output ? options_.kept->tap(worker.local_rank) : nullptr;
  if (!monitor || !keep) return monitor ? monitor : keep;
  return [monitor = std::move(monitor), keep = std::move(keep)](std::string_view bytes) {
    monitor(bytes);
    keep(bytes);
  };
}

LinePrefix WorkerStreams::prefix_of(const WorkerPlace& worker) const {
  return {options_.prefix, {worker.rank, worker.local_rank, options_.host, options_.role}};
}

WorkerStreams::Streams WorkerStreams::open(const WorkerPlace& worker, bool alone) {
  MadeFiles made;
  Streams streams = place(worker, made);
  const std::filesystem::path round_folder = streams.folder.empty() ? "" : layout_.round_folder(worker);
  std::filesystem::path stdout_log;
  streams.out = open_stream(worker, {kStdout, round_folder, streams.folder, alone, &made}, stdout_log);
  streams.err = open_stream(worker, {kStderr, round_folder, streams.folder, alone, &made}, streams.stderr_log);
  if (options_.kept)
    options_.kept->starts(worker.local_rank, {worker.round, worker.rank, source_of(worker, kStdout, stdout_log),
                                              source_of(worker, kStderr, streams.stderr_log)});
  return streams;
}

KeptOutput::Stream WorkerStreams::source_of(const WorkerPlace& worker, StreamBits stream,
                                            const std::filesystem::path& log) const {
  const StreamPlan plan = plan_stream(options_, stream, worker.local_rank, worker.rank, !log.empty());
  return {options_.keeps_output && plan.way == Way::through_us, log};
}

Fd WorkerStreams::open_stream(const WorkerPlace& worker, Wanted wanted, std::filesystem::path& log) {
  const StreamPlan plan = plan_stream(options_, wanted.stream, worker.local_rank, worker.rank, !wanted.folder.empty());
  if (plan.way == Way::inherited) return {};
  if (plan.way == Way::discarded) return Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const LogStream stream = through_us(worker, wanted, plan);
  auto opened = wanted.made->own.extract(stream.file);
  if (plan.way == Way::through_us || !opened) {  // !opened: it was to stay, and has not; its file is opened late
    log = stream.file;
    return pipes_.open(stream);
  }
  if (Fd file = pipes_.own_file(stream, std::move(opened.mapped()))) {
    log = stream.file;
    return file;
  }
  wanted.folder.clear();
  return open_stream(worker, wanted, log);
}

LogStream WorkerStreams::through_us(const WorkerPlace& worker, const Wanted& wanted, const StreamPlan& plan) const {
  const bool out = wanted.stream == kStdout;
  LogStream stream{worker.round, worker.rank};
  stream.is_stdout = out;
  if (plan.console) stream.console_fd = out ? 1 : 2;
  stream.whole_lines = plan.prefixed || (!wanted.alone && !plan.as_it_comes);
  if (plan.prefixed || plan.filtered) stream.prefix = prefix_of(worker);
  stream.prefixed = plan.prefixed;
  stream.colour = options_.colour;
  stream.remember_tail = !out;
  stream.hold_tracebacks = !out && plan.console;
  if (plan.file || plan.way == Way::own_file) stream.file = wanted.folder / log_name(wanted.stream);
  stream.limit = {options_.size_max, options_.size_keep};
  stream.tap = tap_of(worker);
  if (!plan.filtered) return stream;
  stream.filtered_file = wanted.round_folder / filtered_name(wanted.stream);
  stream.needles = out ? options_.stdout_filters : options_.stderr_filters;
  return stream;
}

}  // namespace ddprun::agent
