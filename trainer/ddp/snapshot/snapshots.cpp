#include <sys/resource.h>
#include <sys/syscall.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

#include "ddprun/collectives.h"
#include "ddprun/set_lr.h"
#include "ddprun/snapshot.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/channel/beat_scope.h"
#include "rendezvous/channel/save_scope.h"
#include "rendezvous/channel/worker_channel.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/snapshot/optimizer_state.h"
#include "trainer/ddp/snapshot/snapshot_agreement.h"
#include "trainer/ddp/snapshot/snapshot_folder.h"
#include "trainer/ddp/snapshot/snapshot_format.h"
#include "trainer/ddp/snapshot/snapshot_in_memory.h"
#include "trainer/ddp/snapshot/staging.h"
#include "trainer/ddp/snapshot/torch_file.h"

namespace ddprun {
namespace {

using c10::IValue;

constexpr int kBufferBroadcastBytes = 25 << 20;  // PyTorch's, for buffers
constexpr int kWriterNiceness = 19;              // training comes first

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

RankEnv rank_env() { return read_rank_env(process_environment(), /*needs_store=*/false).env; }

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
    // With several groups, each may have its own schedule, which the program handles.
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

// What does not fit one rank fits none: all have the same model and bytes.
void load_or_refuse(const Snapshot& snapshot, bool from_memory, const std::string& path, const TrainingState& state,
                    const ProcessGroup& group) {
  std::string mismatch;
  try {
    all_or_none(group, [&] {
      try {
        load(snapshot, from_memory ? "the snapshot in memory" : "the snapshot " + path, state, group);
      } catch (const StateMismatch& error) {
        mismatch = error.why();
        throw;
      }
    });
  } catch (const AgreedError& error) {
    if (mismatch.empty()) throw;
    throw SnapshotMismatch(error.what(), mismatch, path, snapshot.extra);
  }
}

}  // namespace

struct Snapshots::Impl {
  Impl(const SnapshotOptions& o, const ProcessGroup& g)
      : options(o),
        group(g),
        folder(policy_of(o)),
        memory(SnapshotMemory::inherited(), o.path),
        agreement(folder, memory, options, group),
        known(folder.known()) {}
  ~Impl() {
    if (writing.valid()) writing.wait();
  }

  Snapshot take(const TrainingState& state, const SaveRequest& request) const;
  enum class Until { copied, begun };
  void keep(const TrainingState& state, const SaveRequest& request, Until until);
  void keep_by_collectives(const TrainingState& state, const SaveRequest& request, Until until);
  bool gather_own(const SaveRequest& request, Snapshot& snapshot) const;
  Snapshot describe(const TrainingState& state, const SaveRequest& request) const;
  void use_rank_0_values(Snapshot& snapshot, const torch::nn::Module& model) const;
  void keep_in_memory(const Snapshot& snapshot);
  void keep_own_in_memory(const SaveRequest& request);
  SnapshotInMemory::OwnPart own_part(const SaveRequest& request) const;
  SnapshotFolder::Known known_now();
  void try_in_memory(const std::function<void()>& part);
  void learn(const SnapshotFolder::Known& now);
  void store(const SnapshotStamp& stamp, const IValue& value);
  void write(const Snapshot& snapshot);
  void write_or_report(const Snapshot& snapshot);
  void report_failure();
  void wait_for_write();
  void report_saved_step();
  void share_known();

  const SnapshotOptions options;
  const ProcessGroup group;
  SnapshotFolder folder;
  SnapshotInMemory memory;
  SnapshotAgreement agreement;
  bool said_about_memory = false;
  bool refused = false;  // the last snapshot in memory, as a number was not finite
  std::mutex mutex;
  SnapshotFolder::Known known;  // of the folder, also by the thread that writes there
  Staging staging;
  std::future<void> writing;
  std::string failure;  // of the last save
  std::atomic<std::int64_t> saved_step{-1};
  std::int64_t reported_step = -1;  // by a rank that does not write
};

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
  s.generation = agreement.generation();
  s.metric = request.metric;
  s.bucket_order = request.bucket_order;
  s.extra = request.extra;
  return s;
}

// Uses rank 0's values where ranks differ, so that the machines' copies are equal.
void Snapshots::Impl::use_rank_0_values(Snapshot& snapshot, const torch::nn::Module& model) const {
  snapshot.extra = broadcast_object(snapshot.extra, 0, group);
  std::vector<std::string> names;
  std::vector<at::Tensor> buffers;
  for (const auto& item : model.named_buffers()) {
    names.push_back(item.key());
    buffers.push_back(item.value().detach().clone());
  }
  if (buffers.empty()) return;
  {
    const WaitScope wait("buffers", group.world_size() > 1);
    c10d::broadcast_coalesced(group.c10d(), buffers, kBufferBroadcastBytes, 0);
  }
  for (std::size_t i = 0; i < names.size(); ++i) snapshot.model_state.insert_or_assign(names[i], buffers[i]);
}

// What every rank of the group has a part in.
Snapshot Snapshots::Impl::take(const TrainingState& state, const SaveRequest& request) const {
  Snapshot snapshot = describe(state, request);
  snapshot.rng = gather_rng(group);
  if (!agreement.rank_0_writes_alone() || (agreement.memory_everywhere() && !agreement.shares_one_memory()))
    use_rank_0_values(snapshot, state.model);
  return snapshot;
}

// Training continues without it: there is the file.
void Snapshots::Impl::try_in_memory(const std::function<void()>& part) {
  try {
    part();
  } catch (const std::exception& error) {
    if (!std::exchange(said_about_memory, true)) options.say(sentence_of(error));
  }
}

SnapshotFolder::Known Snapshots::Impl::known_now() {
  const std::lock_guard lock(mutex);
  return known;
}

void Snapshots::Impl::keep_in_memory(const Snapshot& snapshot) {
  if (agreement.keeps_in_memory()) try_in_memory([&] { memory.write(snapshot, known_now()); });
}

SnapshotInMemory::OwnPart Snapshots::Impl::own_part(const SaveRequest& request) const {
  return {agreement.place_in_memory(),
          {agreement.generation(), request.at.step, request.at.epochs_run},
          {rng_state(group.device()), request.own}};
}

void Snapshots::Impl::keep_own_in_memory(const SaveRequest& request) {
  try_in_memory([&] {
    const auto part = own_part(request);
    memory.write_own(part.place, part.stamp, part.state);
  });
}

// A forward pass may change buffers while parameters and optimizer states are copied. (On a GPU they are copied first.)
void copy_buffers(Snapshot& snapshot, const torch::nn::Module& model) {
  for (const auto& item : model.named_buffers())
    snapshot.model_state.insert_or_assign(item.key(), item.value().detach().clone());
}

// Its own data with the values of its numbers; empty: one is not finite.
std::optional<nlohmann::json> own_now(const SaveRequest& request) {
  nlohmann::json own = request.own;
  for (const auto& [name, number] : request.own_numbers) {
    const double value = number.item<double>();
    if (!std::isfinite(value)) return {};
    own[name] = value;
  }
  return own;
}

// False: on some rank a number is not finite.
bool Snapshots::Impl::gather_own(const SaveRequest& request, Snapshot& snapshot) const {
  const auto own = own_now(request);
  bool finite = true;
  for (const nlohmann::json& one : all_gather_object({own.has_value(), own.value_or(nullptr)}, group)) {
    finite = finite && one[0].get<bool>();
    snapshot.own.push_back(one[1]);
  }
  return finite;
}

void Snapshots::Impl::keep_by_collectives(const TrainingState& state, const SaveRequest& request, Until until) {
  Snapshot snapshot = take(state, request);
  if (!gather_own(request, snapshot))
    refused = true;
  else if (until == Until::copied)
    keep_in_memory(snapshot);
  else if (agreement.keeps_in_memory())
    try_in_memory([&] { memory.start_write({}, {{std::move(snapshot), known_now()}}, group.device()); });
}

// Without a collective where all ranks share the memory.
void Snapshots::Impl::keep(const TrainingState& state, const SaveRequest& request, Until until) {
  try_in_memory([&] { refused = !memory.finish() || refused; });
  if (!agreement.shares_one_memory()) return keep_by_collectives(state, request, until);
  const bool keeps = agreement.keeps_in_memory();
  if (until == Until::copied) {
    SaveRequest now = request;
    const auto own = own_now(request);
    refused = refused || !own;
    if (!own) return;
    now.own = *own;
    keep_own_in_memory(now);
    if (keeps) try_in_memory([&] { keep_in_memory(describe(state, now)); });
    return;
  }
  try_in_memory([&] {
    std::optional<SnapshotInMemory::Model> model;
    if (keeps) {
      model.emplace(SnapshotInMemory::Model{describe(state, request), known_now()});
      if (group.device().is_cpu())
        copy_buffers(model->snapshot, state.model);
      else
        model->changing = state.model.buffers();
    }
    memory.start_write(own_part(request), std::move(model), group.device(), request.own_numbers);
  });
}

void Snapshots::Impl::learn(const SnapshotFolder::Known& now) {
  const std::lock_guard lock(mutex);
  known = now;
}

void Snapshots::Impl::store(const SnapshotStamp& stamp, const IValue& value) {
  std::uint64_t bytes = 0;
  folder.write(stamp, [&](NewFile& file) {
    write_torch_file(value, [&](const void* data, std::size_t size) {
      file.append(data, size);
      bytes += size;
    });
  });
  learn(folder.known());
  saved_step = stamp.step;
  ddprun_channel_snapshot_of(static_cast<std::uint64_t>(stamp.step), bytes);
}

// LibTorch pickles a value with one owner differently from one with several, and a view with its whole storage. To make
// the machines' copies equal and small, each is written from a normalised copy that only this thread owns.
void Snapshots::Impl::write(const Snapshot& snapshot) {
  IValue value = staging.copy(to_value(snapshot));
  const auto policy = options.asynchronous ? std::launch::async : std::launch::deferred;
  writing = std::async(policy, [this, stamp = stamp_of(snapshot), value = std::move(value)] {
    if (options.asynchronous) setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kWriterNiceness);
    store(stamp, value);
  });
  if (!options.asynchronous) wait_for_write();
}

// The other ranks continue training: a failure here must not stop them.
void Snapshots::Impl::write_or_report(const Snapshot& snapshot) {
  const SaveScope saving;
  wait_for_write();
  report_failure();
  failure.clear();
  try {
    write(snapshot);
  } catch (const std::exception& error) {
    failure = sentence_of(error);
  }
  if (!writing.valid()) report_failure();
}

void Snapshots::Impl::report_failure() {
  if (!failure.empty()) options.say(failure + " Training goes on; the next snapshot is tried as usual.");
}

void Snapshots::Impl::wait_for_write() {
  if (!writing.valid()) return;
  try {
    writing.get();
    failure.clear();
  } catch (const std::exception& error) {
    failure = sentence_of(error);
  }
}

// Another machine that uses the writer's folder may be the next writer, and have to know it without reading it.
void Snapshots::Impl::share_known() {
  if (!agreement.memory_everywhere() || agreement.shares_one_memory() || !agreement.rank_0_writes_alone()) return;
  nlohmann::json told;
  if (group.rank() == 0) {
    const std::lock_guard lock(mutex);
    told = json_of(known);
  }
  told = broadcast_object(told, 0, group);
  if (group.rank() != 0) learn(known_of(told));
}

// The launcher asks every rank; a snapshot reported before its request must not count as a new one.
void Snapshots::Impl::report_saved_step() {
  const std::int64_t own = agreement.writes() ? saved_step.load() : std::numeric_limits<std::int64_t>::max();
  const std::int64_t safe = all_gather_stacked(torch::tensor(own), group).min().item<std::int64_t>();
  share_known();
  if (agreement.writes() || safe <= reported_step) return;
  reported_step = safe;
  ddprun_channel_snapshot(static_cast<std::uint64_t>(safe));
}

std::string best_snapshot_path(const std::string& path) { return path_with_suffix(path, "best"); }

Snapshots::Snapshots(const SnapshotOptions& options, const ProcessGroup& group) {
  SnapshotOptions complete = options;
  if (!complete.say) complete.say = [](const std::string& sentence) { print_line(stderr, sentence); };
  impl_ = std::make_unique<Impl>(complete, group);
}

Snapshots::~Snapshots() = default;

std::optional<Resumed> Snapshots::resume(const TrainingState& state) {
  const auto snapshot = impl_->agreement.fetch();
  const bool from_memory = impl_->agreement.in_memory();
  impl_->agreement.forget();
  if (!snapshot) return std::nullopt;
  const std::string& path = impl_->agreement.path();
  load_or_refuse(*snapshot, from_memory, path, state, impl_->group);
  return Resumed{.at = snapshot->at,
                 .bucket_order = usable_order(snapshot->bucket_order, state.model),
                 .metric = snapshot->metric,
                 .extra = snapshot->extra,
                 .own = snapshot->own,
                 .path = path,
                 .from_memory = from_memory,
                 .world_size = static_cast<int>(snapshot->world_size)};
}

void Snapshots::save(const TrainingState& state, const SaveRequest& request) {
  impl_->agreement.forget();
  finish_save_in_memory();
  impl_->report_saved_step();
  const Snapshot snapshot = impl_->take(state, request);
  impl_->keep_in_memory(snapshot);
  if (impl_->agreement.memory_everywhere() && impl_->agreement.shares_one_memory()) impl_->keep_own_in_memory(request);
  if (impl_->agreement.writes()) impl_->write_or_report(snapshot);
}

bool Snapshots::keeps_in_memory() const { return impl_->agreement.memory_everywhere(); }

void Snapshots::save_in_memory(const TrainingState& state, const SaveRequest& request) {
  impl_->agreement.forget();
  if (impl_->agreement.memory_everywhere()) impl_->keep(state, request, Impl::Until::copied);
}

void Snapshots::begin_save_in_memory(const TrainingState& state, const SaveRequest& request) {
  impl_->agreement.forget();
  if (impl_->agreement.memory_everywhere()) impl_->keep(state, request, Impl::Until::begun);
}

bool Snapshots::finish_save_in_memory() {
  bool kept = !std::exchange(impl_->refused, false);
  impl_->try_in_memory([&] { kept = impl_->memory.finish() && kept; });
  return kept;
}

bool Snapshots::hold_back_for_memory() {
  bool kept = !std::exchange(impl_->refused, false);
  impl_->try_in_memory([&] { kept = impl_->memory.hold_back() && kept; });
  return kept;
}

std::chrono::duration<double> Snapshots::copying_time() const { return impl_->memory.copying_time(); }

void Snapshots::finish() {
  if (const std::string why = try_finish(); !why.empty()) throw AgreedError(why);
}

std::string Snapshots::try_finish() {
  {
    const SaveScope saving;
    impl_->wait_for_write();
  }
  for (const auto& said : all_gather_object(impl_->failure, impl_->group))
    if (std::string words = said; !words.empty()) return words;
  impl_->report_saved_step();
  return {};
}

std::optional<double> Snapshots::best_metric() const { return impl_->folder.best_metric(); }

}  // namespace ddprun
