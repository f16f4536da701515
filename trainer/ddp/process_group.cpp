#include "ddprun/process_group.h"

#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "rendezvous/error.h"
#include "trainer/ddp/gpu.h"
#include "trainer/ddp/group_state.h"
#include "trainer/ddp/init_method.h"
#include "trainer/ddp/own_address.h"
#include "trainer/ddp/rank_env.h"
#include "trainer/ddp/store_adapter.h"

namespace ddprun {
namespace {

using c10::make_intrusive;
using Store = c10::intrusive_ptr<c10d::Store>;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kTimeoutMin{100};
constexpr int kNotItsMatter = -1;  // FileStore's number of workers, after which it would remove the file

// Never destroyed by the program's end: by then LibTorch's own statics, which a group needs, may be gone.
struct Process {
  std::mutex mutex;
  std::shared_ptr<ProcessGroup::State> default_group;
  // How often this process has joined somewhere as some rank: each time has keys of its own.
  std::map<std::pair<std::string, int>, int> joined;
  // What it serves, by address, to its end: another rank may begin the next group before we have left the last one.
  std::map<std::string, Store> served;
};
Process& the_process() {
  static auto* process = new Process;
  return *process;
}

int times_joined(const std::string& where, int rank) {
  Process& process = the_process();
  const std::lock_guard lock(process.mutex);
  return ++process.joined[{where, rank}];
}

std::string of_world(int rank, int world_size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world_size);
}

// Without the backtrace that LibTorch adds and the line of source that gloo begins with.
std::string reason(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  text.resize(std::min(text.find('\n'), text.size()));
  const auto place = text.starts_with('[') ? text.find("] ") : std::string::npos;
  if (place != std::string::npos && place + 2 < text.size()) text.erase(0, place + 2);
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string name_of(Backend backend) {
  switch (backend) {
    case Backend::automatic:
      return "auto";
    case Backend::gloo:
      return "gloo";
    case Backend::nccl:
      return "nccl";
    case Backend::mpi:
      break;
  }
  return "mpi";
}

// Who we are and where the others are, from the options and the environment.
struct Place {
  RankEnv env;
  InitMethod method;
  std::string words;                                                     // where the ranks meet
  std::string freshness = "no group may have met in this store before";  // what else is asked for there
};

[[noreturn]] void refuse(const std::vector<std::string>& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : " ") + problem;
  if (!text.empty() && text.back() == '.') text.pop_back();  // Error ends it
  throw UsageError("cannot make a process group", text);
}

Place place_of(const InitOptions& options) {
  Place place{.env = {}, .method = parse_init_method(options.init_method), .words = options.init_method};
  if (options.store) {
    place.method = InFile{};
    place.words = "the store it was given";
    place.freshness = "each group a store, or a PrefixStore, of its own";
  }
  if (!options.store && std::holds_alternative<InFile>(place.method))
    place.freshness = "the file must not be left from an earlier run";
  if (const auto* problem = std::get_if<std::string>(&place.method)) refuse({*problem});
  Environment environment = process_environment();
  if (options.rank >= 0) environment["RANK"] = std::to_string(options.rank);
  if (options.world_size >= 0) environment["WORLD_SIZE"] = std::to_string(options.world_size);
  if (const auto* address = std::get_if<AtAddress>(&place.method)) {
    environment["MASTER_ADDR"] = environment["DDPRUN_MASTER_ADDR"] = address->host;
    environment["MASTER_PORT"] = std::to_string(address->port);
    environment.erase("TORCHELASTIC_USE_AGENT_STORE");
  }
  const bool by_env = std::holds_alternative<FromEnvironment>(place.method);
  if (!by_env && (environment["RANK"].empty() || environment["WORLD_SIZE"].empty()))
    refuse({"with " + place.words +
            " each process needs its rank and the world size, in the options or in RANK and "
            "WORLD_SIZE."});
  if (options.rank >= 0 && !by_env)  // LOCAL_RANK belongs to another rank
    for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) environment.erase(name);
  auto [env, problems] = read_rank_env(environment, !std::holds_alternative<InFile>(place.method));
  if (!problems.empty()) refuse(problems);
  place.env = env;
  if (by_env)
    place.words = env.world_size == 1 ? "a world of one" : env.master_addr + ":" + std::to_string(env.master_port);
  return place;
}

// Where no launcher serves a store, rank 0 does, with PyTorch's.
Store serve_store(const RankEnv& env, const std::string& where, Milliseconds timeout) {
  Process& process = the_process();
  const std::lock_guard lock(process.mutex);
  Store& served = process.served[where];
  if (served) {
    served->setTimeout(timeout);
    return served;
  }
  c10d::TCPStoreOptions options;
  options.port = env.master_port;
  options.isServer = true;
  options.waitWorkers = false;  // every key that matters is waited for anyway
  options.timeout = timeout;
  return served = make_intrusive<c10d::TCPStore>(env.master_addr, options);
}

// A file for each time: the last to leave one would remove it from under who has come for the next group already.
void take_file_of(Place& place, int times) {
  auto* file = std::get_if<InFile>(&place.method);
  if (!file || file->path.empty() || times == 1) return;
  file->path += "." + std::to_string(times);
  place.words = "file://" + file->path;
}

Store open_file(const std::string& path, Milliseconds timeout) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (access(folder.c_str(), W_OK) != 0)  // LibTorch would wait for it to come
    throw std::system_error(errno, std::generic_category(), folder);
  Store store = make_intrusive<c10d::FileStore>(path, kNotItsMatter);
  c10::raw::intrusive_ptr::incref(store.get());  // never destroyed: then it would write, and make a removed file anew
  store->setTimeout(timeout);
  return store;
}

// The last rank to leave removes the file. LibTorch's own count of them leaves it there when two leave at once.
std::shared_ptr<void> leaving_file(const std::string& path, int world_size, const Store& store) {
  return {nullptr, [=](void*) {
            try {
              if (store->add("left", 1) == world_size) unlink(path.c_str());
            } catch (const std::exception&) {  // the folder is gone: so is the file
            }
          }};
}

Store open_store(const Place& place, const InitOptions& options) {
  const RankEnv& env = place.env;
  if (options.store) return options.store;
  if (env.world_size == 1) return make_intrusive<c10d::HashStore>();
  const auto* file = std::get_if<InFile>(&place.method);
  const bool serves = env.rank == 0 && !env.agent_store;
  try {
    if (file) return open_file(file->path, options.timeout);
    if (serves) return serve_store(env, place.words, options.timeout);
    return make_intrusive<StoreAdapter>(
        Client::Options{.host = env.master_addr, .port = env.master_port, .timeout = options.timeout});
  } catch (const std::exception& error) {
    const std::string who = of_world(env.rank, env.world_size) + " cannot ";
    if (file)
      throw Error(who + "use " + file->path + " as a store", reason(error), "All ranks must be able to write there.");
    throw Error(who + (serves ? "open" : "reach") + " the store at " + place.words, reason(error),
                serves ? "The address must be this machine's, and the port free."
                       : "Rank 0 serves it, or the launcher: does that one run, and is this its address?");
  }
}

Member member_of(const RankEnv& env, Backend backend) {
  const auto environment = process_environment();
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  Member member{.machine = machine_name(machine_identity(), env.group_rank),
                .gpus = backend == Backend::gloo ? 0 : count_gpus(),
                .visible_gpus = visible == environment.end() ? "" : visible->second,
                .backend = name_of(backend)};
  return member;
}

// Tells the store that we are here, and waits for the others. The last to come writes the roster for all.
class Meeting {
 public:
  Meeting(const Place& place, Store store, Milliseconds timeout)
      : place_(place), store_(std::move(store)), timeout_(timeout) {}

  Roster join(const Member& self) {
    try {
      if (store_->add(joined(place_.env.rank), 1) > 1)
        throw Error(who() + " cannot join at " + place_.words, "another process has joined as this rank",
                    "Each process needs a RANK of its own, and " + place_.freshness + ".");
      set("member/" + std::to_string(place_.env.rank), to_text({self}));
      if (store_->add("joined", 1) == place_.env.world_size) set("roster", to_text(gather_members()));
      wait_for_roster();
      const Roster roster = roster_from_text(get("roster"));
      if (roster.size() != static_cast<std::size_t>(place_.env.world_size))
        throw Error(who() + " cannot join at " + place_.words,
                    "the others say that there are " + std::to_string(roster.size()) + " ranks",
                    "WORLD_SIZE must be the same on all ranks.");
      return roster;
    } catch (const c10::Error& error) {
      throw Error(who() + " cannot join at " + place_.words, reason(error),
                  "Rank 0, or the launcher, serves the store there: see why it is gone.");
    }
  }

 private:
  static std::string joined(int rank) { return "joined/" + std::to_string(rank); }
  std::string who() const { return of_world(place_.env.rank, place_.env.world_size); }
  void set(const std::string& key, const std::string& text) {
    store_->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  }
  std::string get(const std::string& key) { return store_->get_to_str(key); }

  Roster gather_members() {
    Roster roster;
    for (int rank = 0; rank < place_.env.world_size; ++rank)
      roster.push_back(roster_from_text(get("member/" + std::to_string(rank))).front());
    return roster;
  }

  void wait_for_roster() {
    try {
      store_->wait({"roster"}, timeout_);
    } catch (const c10::DistNetworkError&) {
      throw;
    } catch (const c10::Error&) {  // the time is over: each kind of store says so in its own way
      std::vector<int> missing;
      for (int rank = 0; rank < place_.env.world_size; ++rank)
        if (!store_->check({joined(rank)})) missing.push_back(rank);
      const bool all = missing.empty();
      throw Error(
          who() + " waited in vain at " + place_.words,
          all ? "all ranks have joined, but the last of them ended before it said so"
              : name_ranks(missing) + " of " + std::to_string(place_.env.world_size) +
                    (missing.size() == 1 ? " has" : " have") + " not joined within " + in_words(timeout_),
          all ? "Start them again." : "Start them, see why they ended, or give them longer (InitOptions::timeout).");
    }
  }

  const Place& place_;
  Store store_;
  Milliseconds timeout_;
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const ProcessGroup::State& state) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(state.timeout);
  if (!state.interface.empty())
    options->devices.push_back(Gloo::createDeviceForInterface(state.interface));
  else if (!state.address.empty())
    options->devices.push_back(Gloo::createDeviceForHostname(state.address));
  else
    options->devices.push_back(Gloo::createDefaultDevice());
  return make_intrusive<Gloo>(make_intrusive<c10d::PrefixStore>("gloo", state.store), state.rank, state.world_size,
                              options);
}

// One at a time in a process: LibTorch notes a group's first call in a map that no lock guards (FlightRecorder), and
// two threads that began calls of two groups at once would break it.
c10::intrusive_ptr<c10d::Work> begin(c10d::ProcessGroup& group,
                                     const std::function<c10::intrusive_ptr<c10d::Work>(c10d::ProcessGroup&)>& start) {
  static auto* beginning = new std::mutex;
  const std::lock_guard lock(*beginning);
  return start(group);
}

// The first call, made here, so that callers who do not come through begin(), as the Reducer, find the group noted.
void greet(c10d::ProcessGroup& group) {
  auto own = torch::zeros({1}), all = torch::zeros({group.getSize()});
  begin(group, [&](c10d::ProcessGroup& c10d) { return c10d._allgather_base(all, own); })->wait();
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
    greet(*group);
    state.c10d = group;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerLost(Error(of_world(state.rank, state.world_size) + " cannot connect to the others", reason(error),
                         "See whether they live, and whether this machine reaches them.")
                       .what());
  }
}

// Ranks on one machine need no other way than the one to the store; else it must be one for all.
std::string address_of(const Place& place, const Roster& roster) {
  const RankEnv& env = place.env;
  if (env.world_size == 1) return "127.0.0.1";
  const bool in_file = std::holds_alternative<InFile>(place.method);
  if (!on_one_machine(roster)) return own_address_for_other_machines(in_file ? "" : env.route_addr, env.master_port);
  return in_file ? "127.0.0.1" : own_address_towards(env.route_addr, env.master_port);
}

void take_device(ProcessGroup::State& state) {
  const BackendChoice choice = choose_backend(state.roster);
  if (!choice.problem.empty()) throw Error("cannot make a process group", choice.problem);
  if (!choice.nccl) return;
  load_gpu_support();
  state.backend = Backend::nccl;
  state.device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu_of(state.roster, state.rank)));
}

void take_local_rank(ProcessGroup::State& state) {
  const auto beside = ranks_beside(state.roster, state.rank);
  state.local_world_size = static_cast<int>(beside.size());
  state.local_rank = static_cast<int>(std::find(beside.begin(), beside.end(), state.rank) - beside.begin());
}

std::shared_ptr<ProcessGroup::State> make_state(const InitOptions& options, const std::string& kind) {
  if (options.backend == Backend::mpi)
    throw UsageError("cannot make a process group", "LibTorch is built without the backend mpi",
                     "Use gloo for CPU tensors, nccl for GPU tensors, or auto.");
  if (options.timeout < kTimeoutMin)
    refuse(
        {"a time-out of " + in_words(options.timeout) + " is too short: the least is " + in_words(kTimeoutMin) + "."});
  Place place = place_of(options);
  const RankEnv& env = place.env;
  const int times = options.store ? 1 : times_joined(place.words, env.rank);
  take_file_of(place, times);
  const auto start = std::chrono::steady_clock::now();
  const std::string name = kind + std::to_string(times);
  const Store base = open_store(place, options);
  const auto spent = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start);

  auto state = std::make_shared<ProcessGroup::State>();
  state->rank = env.rank;
  state->world_size = env.world_size;
  state->timeout = options.timeout;
  state->check_calls = options.check_calls;
  state->interface = env.network_interface;
  state->store = make_intrusive<c10d::PrefixStore>("ddp/" + std::to_string(env.round) + "/" + name, base);
  Meeting meeting(place, state->store, std::max(options.timeout - spent, kTimeoutMin));
  state->roster = meeting.join(member_of(env, options.backend));
  if (const auto* file = std::get_if<InFile>(&place.method); file && !options.store && env.world_size > 1)
    state->at_end = leaving_file(file->path, env.world_size, state->store);
  for (int rank = 0; rank < env.world_size; ++rank) state->global_ranks.push_back(rank);
  take_local_rank(*state);
  if (env.local_given) {
    state->local_rank = env.local_rank;
    state->local_world_size = env.local_world_size;
  }
  take_device(*state);
  state->address = address_of(place, state->roster);
  connect(*state, name);
  return state;
}

void destroy_state(ProcessGroup::State& state) {
  for (const auto& child : std::exchange(state.children, {}))
    if (const auto living = child.lock()) destroy_state(*living);
  state.c10d.reset();
  state.store.reset();
  state.at_end.reset();
}

std::vector<Record> exchange_records(const ProcessGroup& group, Record mine) {
  std::vector<Record> all(static_cast<std::size_t>(group.world_size()));
  if (all.size() == 1) return {mine};
  const auto bytes = [](Record* at, std::size_t count) {
    return torch::from_blob(at, static_cast<std::int64_t>(count * sizeof(Record)), torch::kUInt8);
  };
  auto in = bytes(&mine, 1), out = bytes(all.data(), all.size());
  travel(group, mine.call, [&](c10d::ProcessGroup& c10d) { return c10d._allgather_base(out, in); });
  return all;
}

// Among the groups that were made in this call, those of other ranks have other names.
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
  take_local_rank(*state);
  state->store = make_intrusive<c10d::PrefixStore>(name, from.store);
  connect(*state, name);
  from.children.push_back(state);
  return ProcessGroup(state);
}

}  // namespace

bool is_loss_of_peer(const std::exception& error) {
  if (dynamic_cast<const PeerLost*>(&error) || dynamic_cast<const c10::DistError*>(&error)) return true;
  // Gloo throws std::runtime_error with its source's place in the text.
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return std::strstr(torch ? torch->what_without_backtrace() : error.what(), "gloo/") != nullptr;
}

Record record_of(const std::string& call, const std::string& problem) {
  Record record;
  record.refused = !problem.empty();
  std::string text = problem.empty() ? call : "cannot " + call + ": " + problem;
  if (text.size() >= sizeof record.call) {  // what is cut off still counts
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
    const std::string words = record.call;
    const auto colon = words.find(": ");
    const std::string who = refusing.size() == records.size() ? "" : name_ranks(refusing) + " ";
    throw UsageError(who + words.substr(0, colon), words.substr(colon + 2));
  }
  for (const Record& record : records)
    if (std::strcmp(record.call, records[0].call) != 0)
      throw Error(
          "the ranks do not agree on a collective",
          name_ranks(same(records[0])) + ": " + records[0].call + "; " + name_ranks(same(record)) + ": " + record.call,
          "All ranks must make the same calls in the same order.");
  return records;
}

void travel(const ProcessGroup& group, const std::string& call,
            const std::function<c10::intrusive_ptr<c10d::Work>(c10d::ProcessGroup&)>& start) {
  const ProcessGroup::State& state = group.state();
  try {
    begin(*state.c10d, start)->wait();
  } catch (const std::exception& error) {
    const std::string what = of_world(state.rank, state.world_size) + " failed in " + call;
    if (is_loss_of_peer(error))
      throw PeerLost(Error(what, reason(error), "A peer has ended, or has not come in time.").what());
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
  Process& process = the_process();
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
  return ProcessGroup(process.default_group);
}

bool is_initialized() {
  Process& process = the_process();
  const std::lock_guard lock(process.mutex);
  return process.default_group != nullptr;
}

ProcessGroup default_group() {
  Process& process = the_process();
  const std::lock_guard lock(process.mutex);
  if (!process.default_group)
    throw UsageError("no default process group", "there is none yet", "Call init_process_group() first.");
  return ProcessGroup(process.default_group);
}

void destroy_process_group() {
  std::shared_ptr<ProcessGroup::State> state;
  {
    Process& process = the_process();
    const std::lock_guard lock(process.mutex);
    state = std::move(process.default_group);
  }
  if (state) destroy_state(*state);
}

ProcessGroup new_group(const std::vector<int>& ranks, const ProcessGroup& parent) {
  ProcessGroup::State& from = parent.state();
  std::string call = "new_group(", problem = ranks.empty() ? "it would be empty" : "";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    call += (i ? ", " : "") + std::to_string(ranks[i]);
    if (ranks[i] < 0 || ranks[i] >= from.world_size || (i > 0 && ranks[i] <= ranks[i - 1]))
      problem = "its ranks must ascend, from 0 to " + std::to_string(from.world_size - 1);
  }
  agree(parent, record_of(call + ")", problem));
  ++from.groups_made;
  ProcessGroup group = make_child(from, ranks);
  agree(parent, record_of("new_group: made", ""));  // until then its members need the store
  return group;
}

ProcessGroup machine_group(const ProcessGroup& parent) {
  ProcessGroup::State& from = parent.state();
  agree(parent, record_of("machine_group", ""));
  ++from.groups_made;
  ProcessGroup group = make_child(from, ranks_beside(from.roster, from.rank));
  agree(parent, record_of("machine_group: made", ""));
  return group;
}

}  // namespace ddprun
