#include "agent/logs/worker_streams.h"

#include <fcntl.h>

#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun::agent {
namespace {

using Way = StreamPlan::Way;

std::string log_name(StreamBits stream) { return stream == kStdout ? "stdout.log" : "stderr.log"; }

}  // namespace

WorkerStreams::WorkerStreams(LogOptions options, LogLayout& layout, LogPipes& pipes)
    : options_(std::move(options)), layout_(layout), pipes_(pipes) {}

WorkerStreams::Streams WorkerStreams::place(const WorkerPlace& worker) {
  Streams streams;
  try {
    streams.folder = layout_.worker_folder(worker);
    streams.error_file = layout_.error_file(worker);
  } catch (const Error& error) {
    pipes_.warn("ddprun: " + std::string(error.what()) + " The job goes on without it.\n");
  }
  return streams;
}

WorkerStreams::Streams WorkerStreams::go_on(const WorkerPlace& from, const WorkerPlace& to) {
  LogStream as{to.round, to.rank};
  as.prefix = prefix_of(to);
  if (options_.monitor) as.tap = options_.monitor->tap(to.round, to.local_rank);
  pipes_.go_on(from.round, from.rank, as);
  return place(to);
}

LinePrefix WorkerStreams::prefix_of(const WorkerPlace& worker) const {
  return {options_.prefix, {worker.rank, worker.local_rank, options_.host, options_.role}};
}

WorkerStreams::Streams WorkerStreams::open(const WorkerPlace& worker, bool alone) {
  Streams streams = place(worker);
  const std::filesystem::path round_folder = streams.folder.empty() ? "" : layout_.round_folder(worker);
  std::filesystem::path stdout_log;
  streams.out = open_stream(worker, {kStdout, round_folder, streams.folder, alone}, stdout_log);
  streams.err = open_stream(worker, {kStderr, round_folder, streams.folder, alone}, streams.stderr_log);
  return streams;
}

Fd WorkerStreams::open_stream(const WorkerPlace& worker, Wanted wanted, std::filesystem::path& log) {
  const StreamPlan plan = plan_stream(options_, wanted.stream, worker.local_rank, worker.rank, !wanted.folder.empty());
  if (plan.way == Way::inherited) return {};
  if (plan.way == Way::discarded) return Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const LogStream stream = through_us(worker, wanted, plan);
  if (plan.way == Way::through_us) {
    log = stream.file;
    return pipes_.open(stream);
  }
  if (Fd file = pipes_.own_file(stream)) {
    log = stream.file;
    return file;
  }
  wanted.folder.clear();
  return open_stream(worker, wanted, log);
}

LogStream WorkerStreams::through_us(const WorkerPlace& worker, const Wanted& wanted, const StreamPlan& plan) const {
  const bool out = wanted.stream == kStdout;
  LogStream stream{worker.round, worker.rank};
  if (plan.console) stream.console_fd = out ? 1 : 2;
  stream.whole_lines = plan.prefixed || !wanted.alone;
  if (plan.prefixed || plan.filtered) stream.prefix = prefix_of(worker);
  stream.prefixed = plan.prefixed;
  stream.colour = options_.colour;
  stream.remember_tail = !out;
  stream.hold_tracebacks = !out && plan.console;
  if (plan.file || plan.way == Way::own_file) stream.file = wanted.folder / log_name(wanted.stream);
  stream.limit = {options_.size_max, options_.size_keep};
  if (options_.monitor) stream.tap = options_.monitor->tap(worker.round, worker.local_rank);
  if (!plan.filtered) return stream;
  stream.filtered_file = wanted.round_folder / ("filtered_" + log_name(wanted.stream));
  stream.needles = out ? options_.stdout_filters : options_.stderr_filters;
  return stream;
}

}  // namespace ddprun::agent
