#include "ddprun/process_group.h"

#include <torch/torch.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"
#include "rendezvous/peer/loopback.h"
#include "trainer/ddp/group/calls_in_flight.h"
#include "trainer/ddp/group/gpu.h"
#include "trainer/ddp/group/group_rendezvous.h"
#include "trainer/ddp/group/group_state.h"
#include "trainer/ddp/group/lost_peer.h"
#include "trainer/ddp/group/own_address.h"
#include "trainer/ddp/group/shut_down.h"

namespace ddprun {
namespace {

using c10::make_intrusive;
using Store = c10::intrusive_ptr<c10d::Store>;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kTimeoutMin{100};
constexpr std::chrono::seconds kShutdownLimit{30};  // what is queued on the GPU is done by then, or its peers are gone

// Never destroyed: at exit LibTorch's own statics, which a group needs, may be gone.
struct DefaultGroup {
  std::mutex mutex;
  std::shared_ptr<ProcessGroup::State> default_group;
};
DefaultGroup& the_default_group() {
  static auto* process = new DefaultGroup;
  return *process;
}

// Gloo writes to sockets that its peers have closed: the loss of a peer is to be an exception, and no death by a signal
// that hides which rank failed first. Python ignores it from its start. A rank alone has no peers, and ends with a
// pipe.
void ignore_sigpipe() {
  struct sigaction now = {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const ProcessGroup::State& state) {
  using Gloo = c10d::ProcessGroupGloo;
  if (state.world_size > 1) ignore_sigpipe();
  auto options = Gloo::Options::create(state.timeout);
  if (state.local_world_size > 1 || (state.interface.empty() && rendezvous::is_loopback(state.address)))
    check_loopback(state.rank, state.world_size);
  if (!state.interface.empty())
    options->devices.push_back(Gloo::createDeviceForInterface(state.interface));
  else if (!state.address.empty())
    options->devices.push_back(Gloo::createDeviceForHostname(state.address));
  else
    options->devices.push_back(Gloo::createDefaultDevice());
  return make_intrusive<Gloo>(make_intrusive<c10d::PrefixStore>("gloo", state.store), state.rank, state.world_size,
                              options);
}

// LibTorch 2.11 records a group's first call in an unlocked map (FlightRecorder), which two threads that begin the
// first calls of two groups at once would corrupt: those are begun one at a time in a process. Gloo begins a call
// without waiting for peers. NCCL connects in it, so that a lock for the whole process would never be free for a peer's
// thread.
void record_first_call(c10d::ProcessGroup& group) {
  static auto* starting = new std::mutex;
  auto own = torch::zeros({1}), all = torch::zeros({group.getSize()});
  c10::intrusive_ptr<c10d::Work> work;
  {
    const std::lock_guard lock(*starting);
    work = group._allgather_base(all, own);
  }
  work->wait();
}

void connect(ProcessGroup::State& state, const std::string& name) {
  try {
    auto group = make_intrusive<c10d::ProcessGroup>(state.store, state.rank, state.world_size);
    group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, make_gloo(state));
    group->setDefaultBackend(c10d::ProcessGroup::GLOO);
    if (state.backend == Backend::nccl) {
      auto nccl =
          make_nccl(make_intrusive<c10d::PrefixStore>("nccl", state.store), state.rank, state.world_size, state.device);
      nccl->setTimeout(state.timeout);
      group->setBackend(at::kCUDA, c10d::ProcessGroup::NCCL, nccl);
      group->setDefaultBackend(c10d::ProcessGroup::NCCL);
    }
    group->setGroupName(name);
    record_first_call(*group);
    state.c10d = std::move(group);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = rank_of_world(state.rank, state.world_size);
    if (!is_loss_of_peer(error)) throw Error(what + " cannot make a process group", reason(error));
    throw PeerLost(Error(what + " cannot connect to the others", reason(error),
                         "Check that they run, and that this machine can reach them.")
                       .what());
  }
}

void set_device(ProcessGroup::State& state) {
  const BackendChoice choice = choose_backend(state.roster);
  if (choice.lacks_gpus)
    throw UsageError("cannot make a process group", choice.problem,
                     "Start at most one worker per GPU, or ask for the backend gloo.");
  if (!choice.problem.empty()) throw Error("cannot make a process group", choice.problem);
  if (!choice.nccl) return;
  load_gpu_support();
  state.backend = Backend::nccl;
  state.device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu_of(state.roster, state.rank)));
}

void set_local_rank(ProcessGroup::State& state) {
  const auto local_ranks = ranks_on_machine_of(state.roster, state.rank);
  state.local_world_size = static_cast<int>(local_ranks.size());
  state.local_rank =
      static_cast<int>(std::find(local_ranks.begin(), local_ranks.end(), state.rank) - local_ranks.begin());
}

std::shared_ptr<ProcessGroup::State> make_state(const InitOptions& options, const std::string& kind) {
  if (options.backend == Backend::mpi)
    throw UsageError("cannot make a process group", "LibTorch is built without the backend mpi",
                     "Use gloo for CPU tensors, nccl for GPU tensors, or auto.");
  if (options.timeout < kTimeoutMin)
    refuse({"a timeout of " + format_duration(options.timeout) + " is too short: the minimum is " +
            format_duration(kTimeoutMin) + "."});
  const Place place = place_of(options);
  const RankEnv& env = place.env;
  const WaitScope wait("init", env.world_size > 1);
  const auto start = std::chrono::steady_clock::now();
  const std::string name = kind + std::to_string(place.join_count);
  const Store base = open_store(place, options);
  const auto spent = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start);

  auto state = std::make_shared<ProcessGroup::State>();
  state->rank = env.rank;
  state->world_size = env.world_size;
  state->timeout = options.timeout;
  state->check_calls = options.check_calls;
  state->interface = env.network_interface;
  state->store = make_intrusive<c10d::PrefixStore>("ddp/" + env.job + std::to_string(env.round) + "/" + name, base);
  state->roster =
      join_group(place, state->store, member_of(env, options.backend), std::max(options.timeout - spent, kTimeoutMin));
  state->cleanup = make_cleanup(place, state->store);
  for (int rank = 0; rank < env.world_size; ++rank) state->global_ranks.push_back(rank);
  set_local_rank(*state);
  // With --virtual-local-rank LOCAL_RANK is 0 everywhere.
  if (env.local_given && state->local_world_size != env.local_world_size) {
    state->local_rank = env.local_rank;
    state->local_world_size = env.local_world_size;
  }
  set_device(*state);
  state->address = address_of(place, state->roster);
  connect(*state, name);
  return state;
}

void destroy_state(ProcessGroup::State& state) {
  for (const auto& child : std::exchange(state.children, {}))
    if (const auto living = child.lock()) destroy_state(*living);
  if (state.c10d && state.backend == Backend::nccl && !state.aborted) shut_down(state.c10d, kShutdownLimit);
  state.c10d.reset();
  state.store.reset();
  state.cleanup.reset();
}

// Its calls end with an error, so that its destructor need not wait for them. Once: in another thread and then here.
void abort_state(ProcessGroup::State& state) {
  for (const auto& child : state.children)
    if (const auto living = child.lock()) abort_state(*living);
  if (!state.c10d || state.aborted) return;
  abort_calls(*state.c10d);
  state.aborted = true;
}

void abort_default_group() {
  DefaultGroup& process = the_default_group();
  const std::lock_guard lock(process.mutex);
  if (process.default_group) abort_state(*process.default_group);
}

std::vector<Record> exchange_records(const ProcessGroup& group, Record mine) {
  std::vector<Record> all(static_cast<std::size_t>(group.world_size()));
  if (all.size() == 1) return {mine};
  const auto bytes = [](Record* at, std::size_t count) {
    return torch::from_blob(at, static_cast<std::int64_t>(count * sizeof(Record)), torch::kUInt8);
  };
  auto in = bytes(&mine, 1), out = bytes(all.data(), all.size());
  run_c10d_call(group, mine.call, [&](c10d::ProcessGroup& c10d) { return c10d._allgather_base(out, in); });
  return all;
}

// Groups of other ranks that are made in the same call have other names.
ProcessGroup make_child(ProcessGroup::State& from, const std::vector<int>& ranks) {
  const auto at = std::find(ranks.begin(), ranks.end(), from.rank);
  if (at == ranks.end()) return {};
  const std::string name = "group" + std::to_string(from.groups_made) + "/" + std::to_string(ranks.front());
  auto state = std::make_shared<ProcessGroup::State>();
  state->rank = static_cast<int>(at - ranks.begin());
  state->world_size = static_cast<int>(ranks.size());
  state->backend = from.backend;
  state->device = from.device;
  state->timeout = from.timeout;
  state->check_calls = from.check_calls;
  state->interface = from.interface;
  state->address = from.address;
  for (const int rank : ranks) {
    state->global_ranks.push_back(from.global_ranks[static_cast<std::size_t>(rank)]);
    state->roster.push_back(from.roster[static_cast<std::size_t>(rank)]);
  }
  set_local_rank(*state);
  state->store = make_intrusive<c10d::PrefixStore>(name, from.store);
  connect(*state, name);
  from.children.push_back(state);
  return ProcessGroup(state);
}

}  // namespace

Record record_of(const std::string& call, const std::string& problem) {
  Record record;
  record.refused = !problem.empty();
  std::string text = problem.empty() ? call : "cannot " + call + ": " + problem;
  if (text.size() >= sizeof record.call) {  // the part that is cut off still counts
    const std::string rest = " ... #" + std::to_string(std::hash<std::string>()(text));
    text = text.substr(0, sizeof record.call - 1 - rest.size()) + rest;
  }
  text.copy(record.call, sizeof record.call - 1);
  return record;
}

std::vector<Record> agree(const ProcessGroup& group, const Record& mine) {
  const auto records = exchange_records(group, mine);
  const auto same = [&](const Record& other) {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < records.size(); ++i)
      if (std::strcmp(records[i].call, other.call) == 0) ranks.push_back(static_cast<int>(i));
    return ranks;
  };
  for (const Record& record : records) {
    if (!record.refused) continue;
    const auto refusing = same(record);
    const std::string description = record.call;
    const auto colon = description.find(": ");
    const std::string who = refusing.size() == records.size() ? "" : name_ranks(refusing) + " ";
    throw UsageError(who + description.substr(0, colon), description.substr(colon + 2));
  }
  for (const Record& record : records)
    if (std::strcmp(record.call, records[0].call) != 0)
      throw Error(
          "the ranks do not agree on a collective",
          name_ranks(same(records[0])) + ": " + records[0].call + "; " + name_ranks(same(record)) + ": " + record.call,
          "All ranks must make the same calls in the same order.");
  return records;
}

void run_c10d_call(const ProcessGroup& group, const std::string& call,
                   const std::function<c10::intrusive_ptr<c10d::Work>(c10d::ProcessGroup&)>& start) {
  const ProcessGroup::State& state = group.state();
  try {
    c10::intrusive_ptr<c10d::Work> work;
    {
      const std::lock_guard lock(*state.starting);
      work = start(*state.c10d);
    }
    work->wait();
  } catch (const std::exception& error) {
    const std::string what = rank_of_world(state.rank, state.world_size) + " failed in " + call;
    if (is_loss_of_peer(error))
      throw PeerLost(Error(what, reason(error), "A peer has exited, or did not make the call in time.").what());
    throw Error(what, reason(error));
  }
}

ProcessGroup::State& ProcessGroup::state() const {
  if (!state_) throw Error("no process group", "this handle is empty", "Call init_process_group() first.");
  if (!state_->c10d) throw Error("no process group", "this one was destroyed");
  return *state_;
}

int ProcessGroup::rank() const { return state().rank; }
int ProcessGroup::world_size() const { return state().world_size; }
int ProcessGroup::local_rank() const { return state().local_rank; }
int ProcessGroup::local_world_size() const { return state().local_world_size; }
at::Device ProcessGroup::device() const { return state().device; }
Backend ProcessGroup::backend() const { return state().backend; }
Milliseconds ProcessGroup::timeout() const { return state().timeout; }
const std::vector<int>& ProcessGroup::global_ranks() const { return state().global_ranks; }
const c10::intrusive_ptr<c10d::ProcessGroup>& ProcessGroup::c10d() const { return state().c10d; }
Store ProcessGroup::store() const { return make_intrusive<c10d::PrefixStore>("user", state().store); }

ProcessGroup make_process_group(const InitOptions& options) { return ProcessGroup(make_state(options, "made")); }

void destroy(ProcessGroup& group) {
  if (group) destroy_state(group.state());
  group = {};
}

ProcessGroup init_process_group(const InitOptions& options) {
  DefaultGroup& process = the_default_group();
  const auto check_none = [&] {
    const std::lock_guard lock(process.mutex);
    if (process.default_group)
      throw UsageError("cannot make the default process group", "there is one already", "Destroy it first.");
  };
  check_none();
  auto state = make_state(options, "default");
  check_none();
  const std::lock_guard lock(process.mutex);
  process.default_group = std::move(state);
  if (process.default_group->backend == Backend::nccl) abort_calls_in_flight = abort_default_group;
  return ProcessGroup(process.default_group);
}

bool is_initialized() {
  DefaultGroup& process = the_default_group();
  const std::lock_guard lock(process.mutex);
  return process.default_group != nullptr;
}

ProcessGroup default_group() {
  DefaultGroup& process = the_default_group();
  const std::lock_guard lock(process.mutex);
  if (!process.default_group)
    throw UsageError("no default process group", "there is none yet", "Call init_process_group() first.");
  return ProcessGroup(process.default_group);
}

void destroy_process_group() {
  std::shared_ptr<ProcessGroup::State> state;
  {
    DefaultGroup& process = the_default_group();
    const std::lock_guard lock(process.mutex);
    abort_calls_in_flight = nullptr;
    state = std::move(process.default_group);
  }
  if (state) destroy_state(*state);
}

void abort_process_group() {
  abort_default_group();
  destroy_process_group();
}

ProcessGroup new_group(const std::vector<int>& ranks, const ProcessGroup& parent) {
  ProcessGroup::State& from = parent.state();
  const WaitScope wait("group", from.world_size > 1);
  std::string call = "new_group(", problem = ranks.empty() ? "it would be empty" : "";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    call += (i ? ", " : "") + std::to_string(ranks[i]);
    if (ranks[i] < 0 || ranks[i] >= from.world_size || (i > 0 && ranks[i] <= ranks[i - 1]))
      problem = "its ranks must ascend, from 0 to " + std::to_string(from.world_size - 1);
  }
  agree(parent, record_of(call + ")", problem));
  ++from.groups_made;
  ProcessGroup group = make_child(from, ranks);
  agree(parent, record_of("new_group: made", ""));  // its members need the store until all have made it
  return group;
}

ProcessGroup machine_group(const ProcessGroup& parent) {
  ProcessGroup::State& from = parent.state();
  const WaitScope wait("group", from.world_size > 1);
  agree(parent, record_of("machine_group", ""));
  ++from.groups_made;
  ProcessGroup group = make_child(from, ranks_on_machine_of(from.roster, from.rank));
  agree(parent, record_of("machine_group: made", ""));
  return group;
}

}  // namespace ddprun
