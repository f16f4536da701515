#include "trainer/ddp/group/group_rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <system_error>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/peer/loopback.h"
#include "trainer/ddp/group/gpu.h"
#include "trainer/ddp/group/lost_peer.h"
#include "trainer/ddp/group/own_address.h"
#include "trainer/ddp/group/store_adapter.h"
#include "trainer/ddp/group/task_ranks.h"

namespace ddprun {
namespace {

using c10::make_intrusive;
using Store = c10::intrusive_ptr<c10d::Store>;
using Milliseconds = std::chrono::milliseconds;

constexpr int kNoWorkerCount = -1;  // FileStore's worker count; with it the file is not removed

// Never destroyed: at exit LibTorch's own statics, which a store needs, may be gone.
struct RendezvousGlobals {
  std::mutex mutex;
  // How often this process has joined, by place and rank.
  std::map<std::pair<std::string, int>, int> joined;
  // The stores it serves, by address, until it ends: another rank may begin the next group before we have left the last
  // one.
  std::map<std::string, Store> served;
};
RendezvousGlobals& rendezvous_globals() {
  static auto* process = new RendezvousGlobals;
  return *process;
}

int times_joined(const std::string& where, int rank) {
  RendezvousGlobals& process = rendezvous_globals();
  const std::lock_guard lock(process.mutex);
  return ++process.joined[{where, rank}];
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

// Each time uses a new file: the last rank to leave one removes it, while others may already be in the next group.
void use_numbered_file(Place& place) {
  auto* file = std::get_if<InFile>(&place.method);
  if (!file || file->path.empty() || place.join_count == 1) return;
  file->path += "." + std::to_string(place.join_count);
  place.name = "file://" + file->path;
}

// If no launcher serves a store, rank 0 serves PyTorch's.
Store serve_store(const RankEnv& env, const std::string& where, Milliseconds timeout) {
  RendezvousGlobals& process = rendezvous_globals();
  const std::lock_guard lock(process.mutex);
  Store& served = process.served[where];
  if (served) {
    served->setTimeout(timeout);
    return served;
  }
  c10d::TCPStoreOptions options;
  options.port = env.master_port;
  options.isServer = true;
  options.waitWorkers = false;  // all needed keys are waited for anyway
  options.timeout = timeout;
  return served = make_intrusive<c10d::TCPStore>(env.master_addr, options);
}

Store open_file(const std::string& path, Milliseconds timeout) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (access(folder.c_str(), W_OK) != 0)  // LibTorch would wait until it exists
    throw std::system_error(errno, std::generic_category(), folder);
  Store store = make_intrusive<c10d::FileStore>(path, kNoWorkerCount);
  c10::raw::intrusive_ptr::incref(store.get());  // never destroyed: that would recreate a removed file
  store->setTimeout(timeout);
  return store;
}

// The last rank to arrive writes the roster for all.
class GroupRendezvous {
 public:
  GroupRendezvous(const Place& place, Store store, Milliseconds timeout)
      : place_(place), store_(std::move(store)), timeout_(timeout) {}

  Roster join(const Member& self) {
    try {
      if (store_->add(joined(place_.env.rank), 1) > 1)
        throw Error(who() + " cannot join at " + place_.name, "another process has joined as this rank",
                    "Each process needs a RANK of its own, and " + place_.freshness_rule + ".");
      set("member/" + std::to_string(place_.env.rank), to_text({self}));
      if (store_->add("joined", 1) == place_.env.world_size) set("roster", to_text(gather_members()));
      wait_for_roster();
      const Roster roster = roster_from_text(get("roster"));
      if (roster.size() != static_cast<std::size_t>(place_.env.world_size))
        throw Error(who() + " cannot join at " + place_.name,
                    "the others expect " + std::to_string(roster.size()) + " ranks",
                    "WORLD_SIZE must be the same on all ranks.");
      return roster;
    } catch (const c10::Error& error) {
      const Error lost(who() + " cannot join at " + place_.name, reason(error),
                       "Rank 0, or the launcher, serves the store there: see why it is gone.");
      if (place_.env.under_agent && is_loss_of_peer(error)) throw PeerLost(lost.what());
      throw lost;
    }
  }

 private:
  static std::string joined(int rank) { return "joined/" + std::to_string(rank); }
  std::string who() const { return rank_of_world(place_.env.rank, place_.env.world_size); }
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
    } catch (const c10::Error&) {  // time-out: each kind of store reports it differently
      std::vector<int> missing;
      for (int rank = 0; rank < place_.env.world_size; ++rank)
        if (!store_->check({joined(rank)})) missing.push_back(rank);
      const bool all = missing.empty();
      throw Error(
          who() + " gave up waiting at " + place_.name,
          all ? "all ranks have joined, but the last of them ended before it reported so"
              : name_ranks(missing) + " of " + std::to_string(place_.env.world_size) +
                    (missing.size() == 1 ? " has" : " have") + " not joined within " + format_duration(timeout_),
          all ? "Start them again." : "Start them, see why they ended, or give them longer (InitOptions::timeout).");
    }
  }

  const Place& place_;
  Store store_;
  Milliseconds timeout_;
};

}  // namespace

std::string rank_of_world(int rank, int world_size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world_size);
}

void refuse(const std::vector<std::string>& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : " ") + problem;
  if (!text.empty() && text.back() == '.') text.pop_back();  // Error ends it
  throw UsageError("cannot make a process group", text);
}

Place place_of(const InitOptions& options) {
  Place place{.env = {}, .method = parse_init_method(options.init_method), .name = options.init_method};
  if (options.store) {
    place.method = InFile{};
    place.name = "the store it was given";
    place.freshness_rule = "each group a store, or a PrefixStore, of its own";
  }
  if (!options.store && std::holds_alternative<InFile>(place.method))
    place.freshness_rule = "the file must not be left from an earlier run";
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
  const bool given = !environment["RANK"].empty() && !environment["WORLD_SIZE"].empty();
  if (!by_env && !given && task_ranks(environment).from.empty())
    refuse({"with " + place.name +
            " each process needs its rank and the world size, in the options or in RANK and "
            "WORLD_SIZE."});
  if (options.rank >= 0 && !by_env)  // LOCAL_RANK belongs to another rank
    for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) environment.erase(name);
  auto [env, problems] = read_rank_env(environment, !std::holds_alternative<InFile>(place.method));
  if (!problems.empty()) refuse(problems);
  place.env = env;
  if (by_env)
    place.name = env.world_size == 1 ? "a world of one" : env.master_addr + ":" + std::to_string(env.master_port);
  if (!options.store) place.join_count = times_joined(place.name + " round " + std::to_string(env.round), env.rank);
  use_numbered_file(place);
  return place;
}

void check_loopback(int rank, int world_size) {
  if (rendezvous::loopback_is_up()) return;
  throw Error(rank_of_world(rank, world_size) + " cannot make a process group", rendezvous::kLoopbackIsDown,
              rendezvous::kBringLoopbackUp);
}

Store open_store(const Place& place, const InitOptions& options) {
  const RankEnv& env = place.env;
  if (options.store) return options.store;
  if (!std::holds_alternative<InFile>(place.method)) check_loopback(env.rank, env.world_size);
  if (env.world_size == 1) return make_intrusive<c10d::HashStore>();
  const auto* file = std::get_if<InFile>(&place.method);
  const bool serves = env.rank == 0 && !env.agent_store;
  try {
    if (file) return open_file(file->path, options.timeout);
    if (serves) return serve_store(env, place.name, options.timeout);
    return make_intrusive<StoreAdapter>(
        rendezvous::Client::Options{.host = env.master_addr, .port = env.master_port, .timeout = options.timeout});
  } catch (const std::exception& error) {
    const std::string who = rank_of_world(env.rank, env.world_size) + " cannot ";
    if (file)
      throw Error(who + "use " + file->path + " as a store", reason(error), "All ranks must be able to write there.");
    throw Error(who + (serves ? "open" : "reach") + " the store at " + place.name, reason(error),
                serves ? "The address must be this machine's, and the port free."
                       : "Rank 0 or the launcher serves it: check that it runs, and that this is its address.");
  }
}

// The last rank to leave removes the file. LibTorch's own counting fails to remove it when two leave at once.
std::shared_ptr<void> make_cleanup(const Place& place, const Store& store) {
  const auto* file = std::get_if<InFile>(&place.method);
  if (!file || file->path.empty() || place.env.world_size == 1) return nullptr;
  return {nullptr, [path = file->path, world_size = place.env.world_size, store](void*) {
            try {
              if (store->add("left", 1) == world_size) unlink(path.c_str());
            } catch (const std::exception&) {  // the folder is gone, and the file with it
            }
          }};
}

namespace {

Gpus gpus_for(Backend backend, bool says) {
  if (backend == Backend::gloo) return {};
  Gpus gpus = find_gpus();
  const bool wanted = backend == Backend::nccl;
  if (!gpus.problem.empty())
    throw Error("cannot use the GPUs", gpus.problem, gpus.remedy + " Without GPUs, ask for the backend gloo.");
  if (wanted && !gpus.too_old.empty())
    throw Error("cannot use the GPUs", gpus.too_old, "Update the driver, or ask for the backend gloo.");
  if (says && !gpus.too_old.empty()) print_line(stderr, "the GPUs are not used: " + gpus.too_old + ".");
  return gpus;
}

}  // namespace

Member member_of(const RankEnv& env, Backend backend) {
  const Gpus gpus = gpus_for(backend, env.local_rank == 0);
  const auto environment = process_environment();
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  std::string names;
  for (const std::string& uuid : gpus.uuids) names += (names.empty() ? "" : ",") + uuid;
  if (names.empty() && visible != environment.end()) names = visible->second;
  return {.machine = machine_name(machine_identity(), env.group_rank),
          .gpus = gpus.count,
          .visible_gpus = names,
          .backend = name_of(backend)};
}

Roster join_group(const Place& place, const Store& store, const Member& self, Milliseconds timeout) {
  return GroupRendezvous(place, store, timeout).join(self);
}

// Ranks on one machine use their address towards the store or the loopback; else it must be reachable by all.
std::string address_of(const Place& place, const Roster& roster) {
  const RankEnv& env = place.env;
  if (env.world_size == 1) return "127.0.0.1";
  const bool in_file = std::holds_alternative<InFile>(place.method);
  if (!on_one_machine(roster)) return own_address_for_other_machines(in_file ? "" : env.route_addr, env.master_port);
  const std::string own = in_file ? "" : own_address_towards(env.route_addr, env.master_port);
  return own.empty() ? "127.0.0.1" : own;
}

}  // namespace ddprun
