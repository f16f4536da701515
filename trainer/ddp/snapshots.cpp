#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <random>
#include <utility>

#include "ddprun/collectives.h"
#include "ddprun/set_lr.h"
#include "ddprun/snapshot.h"
#include "rendezvous/error.h"
#include "rendezvous/worker_channel.h"
#include "trainer/ddp/broadcast_bytes.h"
#include "trainer/ddp/optimizer_state.h"
#include "trainer/ddp/rank_env.h"
#include "trainer/ddp/snapshot_folder.h"
#include "trainer/ddp/snapshot_format.h"
#include "trainer/ddp/staging.h"
#include "trainer/ddp/torch_file.h"

namespace ddprun {
namespace {

using c10::IValue;
using Found = SnapshotFolder::Found;
using nlohmann::json;

constexpr int kBroadcastBytes = 25 << 20;  // PyTorch's, for buffers
constexpr int kWritersNiceness = 19;       // training comes first

SnapshotPolicy policy_of(const SnapshotOptions& options) {
  if (options.path.empty()) throw Error("cannot keep snapshots", "their path is empty");
  if (options.keep_last < 1) throw Error("cannot keep snapshots", "keep_last is below 1");
  using Best = SnapshotOptions::Best;
  return {.path = options.path,
          .keep_last = options.keep_last,
          .best = options.best == Best::none      ? BestMetric::none
                  : options.best == Best::highest ? BestMetric::highest
                                                  : BestMetric::lowest};
}

SnapshotStamp stamp_of(const Snapshot& snapshot) {
  return {snapshot.generation, snapshot.at.step, snapshot.digest, snapshot.metric};
}

std::string sentence_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

// Every rank does its part, or all ranks throw what the first of them could not do.
void all_or_none(const ProcessGroup& group, const std::function<void()>& part) {
  std::string problem;
  try {
    part();
  } catch (const PeerLost&) {
    throw;
  } catch (const std::exception& error) {
    problem = sentence_of(error);
  }
  for (const json& said : all_gather_object(problem, group))
    if (said != "") throw std::runtime_error(said.get<std::string>());
}

RankEnv rank_env() { return read_rank_env(process_environment(), /*store_in_it=*/false).env; }

bool on_several_machines(const ProcessGroup& group) { return group.local_world_size() < group.world_size(); }

// What nobody else writes: tells a folder that several machines share from one of each machine's own.
std::string mark_of(const ProcessGroup& group) {
  const json token = broadcast_object(std::random_device{}(), 0, group);
  return std::to_string(token.get<std::uint64_t>()) + " " + std::to_string(group.rank());
}

std::vector<RngState> gather_rng(const ProcessGroup& group) {
  const RngState own = rng_state(group.device());
  const at::Tensor cpu = all_gather_stacked(own.cpu, group);
  const at::Tensor cuda = own.cuda.defined() ? all_gather_stacked(own.cuda, group) : at::Tensor();
  std::vector<RngState> result;
  for (std::int64_t rank = 0; rank < group.world_size(); ++rank)
    result.push_back({cpu[rank], cuda.defined() ? cuda[rank] : at::Tensor()});
  return result;
}

// An order that does not fit the model would break the reducer.
BucketOrder usable_order(const BucketOrder& order, const torch::nn::Module& model) {
  std::vector<std::size_t> seen;
  for (const auto& bucket : order) seen.insert(seen.end(), bucket.begin(), bucket.end());
  std::sort(seen.begin(), seen.end());
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i] != i) return {};
  const auto parameters = model.parameters();
  const auto trained =
      std::count_if(parameters.begin(), parameters.end(), [](const auto& p) { return p.requires_grad(); });
  return static_cast<std::ptrdiff_t>(seen.size()) == trained ? order : BucketOrder{};
}

void load(const Snapshot& snapshot, const std::string& name, const TrainingState& state, const ProcessGroup& group) {
  load_model_state(state.model, snapshot.model_state, name);
  if (state.optimizer && snapshot.optimizer_state)
    load_optimizer_state(*state.optimizer, *snapshot.optimizer_state, name);
  if (state.schedule && snapshot.schedule) {
    state.schedule->resume(snapshot.schedule->steps);
    // Groups with rates of their own have a schedule each, and are the program's matter.
    if (state.optimizer && state.optimizer->param_groups().size() == 1) set_lr(*state.optimizer, state.schedule->lr());
  }
  if (state.scaler && snapshot.scaler) state.scaler->load(snapshot.scaler->state);
  if (const auto* saved = std::get_if<SamplerState>(&snapshot.sampler); saved && state.sampler)
    state.sampler->resume(*saved);
  if (const auto* saved = std::get_if<ShardSamplerState>(&snapshot.sampler); saved && state.shard_sampler)
    state.shard_sampler->resume(*saved);
  if (static_cast<int>(snapshot.rng.size()) == group.world_size())
    set_rng_state(snapshot.rng[static_cast<std::size_t>(group.rank())], group.device());
}

}  // namespace

struct Snapshots::Impl {
  Impl(const SnapshotOptions& o, const ProcessGroup& g) : options(o), group(g), folder(policy_of(o)) { open(); }
  ~Impl() {
    if (writing.valid()) writing.wait();
  }

  void open();
  bool claim_folder();
  std::optional<Found> look();
  void agree(const std::optional<Found>& found);
  bool has_agreed(const Snapshot& snapshot) const { return snapshot.digest == agreed.digest && agreed.digest != ""; }
  std::optional<Snapshot> read_here() const;
  std::string agreed_bytes();
  Snapshot fetch();
  Snapshot describe(const TrainingState& state, const SaveRequest& request) const;
  void share_rank_0s(Snapshot& snapshot, const torch::nn::Module& model) const;
  void store(const SnapshotStamp& stamp, const IValue& value);
  void write(const Snapshot& snapshot);
  void write_or_say(const Snapshot& snapshot);
  void await_writing();
  void tell_what_is_safe();

  const SnapshotOptions options;
  const ProcessGroup group;
  SnapshotFolder folder;
  bool writes = false;  // this rank, for its folder
  bool alone = true;    // rank 0 is the only one that writes
  std::int64_t generation = 0;
  int holder = -1;       // the rank that has what is resumed from; -1: there is none
  SnapshotStamp agreed;  // the holder's
  std::string agreed_path;
  std::string own_bytes;  // of this rank's folder's newest, until resume()
  std::string own_digest;
  Staging staging;
  std::future<void> writing;
  std::string failure;  // of the last save; empty: none so far
  std::atomic<std::int64_t> safe_step{-1};
  std::int64_t told_step = -1;  // by a rank that does not write
};

bool Snapshots::Impl::claim_folder() {
  const bool first_of_machine = group.local_rank() == 0;
  if (!on_several_machines(group)) {
    all_or_none(group, [&] {
      if (first_of_machine) folder.check_writable();
    });
    return first_of_machine;
  }
  const std::string mark = mark_of(group);
  all_or_none(group, [&] {
    if (!first_of_machine) return;
    folder.check_writable();
    if (group.rank() != 0) folder.claim(mark);
  });
  all_or_none(group, [&] {
    if (group.rank() == 0) folder.claim(mark);  // its own folder is always its own
  });
  bool is_ours = false;
  all_or_none(group, [&] { is_ours = first_of_machine && folder.claimed_by() == mark; });
  return is_ours;  // of those that share it, the last one's
}

std::optional<Found> Snapshots::Impl::look() {
  if (!writes) return std::nullopt;
  auto found = folder.find(
      [](const std::string& bytes, const std::string& name) { return stamp_of(decode(bytes, name)); }, options.say);
  if (!options.fresh || rank_env().round > 1) return found;
  if (folder.retire()) options.say("starting over: the snapshot of an earlier run is now " + options.path + ".old");
  return std::nullopt;
}

// Each rank tells what its folder has; from the same words all draw the same conclusion.
void Snapshots::Impl::agree(const std::optional<Found>& found) {
  json own{{"writes", writes}, {"last_generation", generation}};
  if (const auto best = folder.best_metric()) own["best"] = *best;
  if (found) {
    own["found"] = {found->stamp.generation, found->stamp.step, found->stamp.digest};
    own["path"] = found->path;
  }
  const auto said = all_gather_object(own, group);
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    const json& theirs = said[rank];
    alone = alone && (rank == 0 || !theirs["writes"].get<bool>());
    generation = std::max(generation, theirs["last_generation"].get<std::int64_t>() + 1);
    if (theirs.contains("best")) folder.know_best(theirs["best"].get<double>());
    if (!theirs.contains("found")) continue;
    const SnapshotStamp stamp{theirs["found"][0], theirs["found"][1], theirs["found"][2]};
    if (holder >= 0 && !stamp.is_newer_than(agreed)) continue;
    holder = static_cast<int>(rank);
    agreed = stamp;
    agreed_path = theirs["path"];
  }
}

void Snapshots::Impl::open() {
  writes = claim_folder();
  std::optional<Found> found;
  all_or_none(group, [&] {
    found = look();
    generation = writes ? folder.last_generation() : 0;
  });
  agree(found);
  all_or_none(group, [&] {
    if (writes) folder.begin(generation);
  });
  if (!found) return;
  own_digest = found->stamp.digest;
  own_bytes = std::move(found->bytes);
}

// This rank's own look at the agreed file, where it can see it.
std::optional<Snapshot> Snapshots::Impl::read_here() const {
  try {
    const std::string path = folder_of(options.path) + "/" + agreed_path.substr(agreed_path.rfind('/') + 1);
    const bool is_known = writes && own_digest == agreed.digest;
    const auto read = is_known ? std::nullopt : disk().read(path);
    if (!is_known && !read) return std::nullopt;
    Snapshot snapshot = decode(is_known ? own_bytes : *read, path);
    return has_agreed(snapshot) ? std::optional(std::move(snapshot)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

Snapshot Snapshots::Impl::fetch() {
  auto here = read_here();
  bool all_have_it = true;
  for (const json& said : all_gather_object(here.has_value(), group)) all_have_it = all_have_it && said.get<bool>();
  if (all_have_it) return std::move(*here);
  const std::string bytes = broadcast_bytes(group.c10d(), group.rank() == holder ? std::move(own_bytes) : "", holder);
  all_or_none(group, [&] {
    if (writes && group.rank() != holder && !here)
      folder.write(agreed, [&](NewFile& file) { file.append(bytes.data(), bytes.size()); });
  });
  return decode(bytes, "the snapshot " + agreed_path);
}

Snapshot Snapshots::Impl::describe(const TrainingState& state, const SaveRequest& request) const {
  Snapshot s;
  s.model_state = model_state(state.model);
  if (state.optimizer) s.optimizer_state = optimizer_state(*state.optimizer);
  if (state.schedule) s.schedule = ScheduleState{state.schedule->steps(), state.schedule->lr()};
  if (state.scaler) s.scaler = SavedScaler{state.scaler->options(), state.scaler->state()};
  if (state.sampler) s.sampler = state.sampler->state();
  if (state.shard_sampler) s.sampler = state.shard_sampler->state();
  s.at = request.at;
  s.world_size = group.world_size();
  s.round = rank_env().round;
  s.generation = generation;
  s.metric = request.metric;
  s.bucket_order = request.bucket_order;
  s.extra = request.extra;
  return s;
}

// What is not the same on all ranks would differ between the machines' copies.
void Snapshots::Impl::share_rank_0s(Snapshot& snapshot, const torch::nn::Module& model) const {
  snapshot.extra = broadcast_object(snapshot.extra, 0, group);
  std::vector<std::string> names;
  std::vector<at::Tensor> buffers;
  for (const auto& item : model.named_buffers()) {
    names.push_back(item.key());
    buffers.push_back(item.value().detach().clone());
  }
  if (buffers.empty()) return;
  c10d::broadcast_coalesced(group.c10d(), buffers, kBroadcastBytes, 0);
  for (std::size_t i = 0; i < names.size(); ++i) snapshot.model_state.insert_or_assign(names[i], buffers[i]);
}

void Snapshots::Impl::store(const SnapshotStamp& stamp, const IValue& value) {
  folder.write(stamp, [&](NewFile& file) {
    write_torch_file(value, [&](const void* data, std::size_t size) { file.append(data, size); });
  });
  safe_step = stamp.step;
  ddprun_channel_snapshot(static_cast<std::uint64_t>(stamp.step));
}

// LibTorch pickles what has one owner in other bytes than what has several, and of a view the whole that it is a part
// of. So that the machines' copies are equal, and no larger than they must be, each is made from a value of one shape,
// which the thread alone owns.
void Snapshots::Impl::write(const Snapshot& snapshot) {
  IValue value = staging.copy(to_value(snapshot));
  const auto policy = options.asynchronous ? std::launch::async : std::launch::deferred;
  writing = std::async(policy, [this, stamp = stamp_of(snapshot), value = std::move(value)] {
    if (options.asynchronous) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kWritersNiceness);
    store(stamp, value);
  });
  if (!options.asynchronous) await_writing();
}

// The other ranks train on: what fails here is not to stop them.
void Snapshots::Impl::write_or_say(const Snapshot& snapshot) {
  const auto say_failure = [&] {
    if (!failure.empty()) options.say(failure + " Training goes on; the next snapshot is tried again.");
  };
  await_writing();
  say_failure();
  try {
    write(snapshot);
  } catch (const std::exception& error) {
    failure = sentence_of(error);
  }
  if (!writing.valid()) say_failure();
}

void Snapshots::Impl::await_writing() {
  if (!writing.valid()) return;
  try {
    writing.get();
    failure.clear();
  } catch (const std::exception& error) {
    failure = sentence_of(error);
  }
}

// The launcher asks every rank; a snapshot that was told before it asked is not to look like a new one.
void Snapshots::Impl::tell_what_is_safe() {
  const std::int64_t own = writes ? safe_step.load() : std::numeric_limits<std::int64_t>::max();
  const std::int64_t safe = all_gather_stacked(torch::tensor(own), group).min().item<std::int64_t>();
  if (writes || safe <= told_step) return;
  told_step = safe;
  ddprun_channel_snapshot(static_cast<std::uint64_t>(safe));
}

Snapshots::Snapshots(const SnapshotOptions& options, const ProcessGroup& group) {
  SnapshotOptions complete = options;
  if (!complete.say) complete.say = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); };
  impl_ = std::make_unique<Impl>(complete, group);
}

Snapshots::~Snapshots() = default;

std::optional<Resumed> Snapshots::resume(const TrainingState& state) {
  if (impl_->holder < 0) return std::nullopt;
  const Snapshot snapshot = impl_->fetch();
  impl_->own_bytes = {};
  all_or_none(impl_->group, [&] { load(snapshot, "the snapshot " + impl_->agreed_path, state, impl_->group); });
  return Resumed{.at = snapshot.at,
                 .bucket_order = usable_order(snapshot.bucket_order, state.model),
                 .metric = snapshot.metric,
                 .extra = snapshot.extra,
                 .path = impl_->agreed_path,
                 .world_size = static_cast<int>(snapshot.world_size)};
}

void Snapshots::save(const TrainingState& state, const SaveRequest& request) {
  impl_->own_bytes = {};
  impl_->tell_what_is_safe();
  Snapshot snapshot = impl_->describe(state, request);
  snapshot.rng = gather_rng(impl_->group);
  if (!impl_->alone) impl_->share_rank_0s(snapshot, state.model);
  if (impl_->writes) impl_->write_or_say(snapshot);
}

void Snapshots::finish() {
  all_or_none(impl_->group, [&] {
    impl_->await_writing();
    if (!impl_->failure.empty()) throw std::runtime_error(impl_->failure);
  });
  impl_->tell_what_is_safe();
}

}  // namespace ddprun
