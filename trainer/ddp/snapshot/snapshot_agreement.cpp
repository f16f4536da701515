#include "trainer/ddp/snapshot/snapshot_agreement.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <utility>

#include "ddprun/collectives.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/ddp/collectives/broadcast_bytes.h"
#include "trainer/ddp/group/group_state.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/group/roster.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/torch_file.h"

namespace ddprun {
namespace {

using nlohmann::json;

int launchers_round() { return read_rank_env(process_environment(), /*needs_store=*/false).env.round; }

// A unique mark: distinguishes a folder that machines share from one of each machine's own.
std::string mark_of(const ProcessGroup& group) {
  const json token = broadcast_object(std::random_device{}(), 0, group);
  return std::to_string(token.get<std::uint64_t>()) + " " + std::to_string(group.rank());
}

}  // namespace

SnapshotStamp stamp_of(const Snapshot& snapshot) {
  return {snapshot.generation, snapshot.at.step, snapshot.digest, snapshot.metric};
}

SnapshotAgreement::SnapshotAgreement(SnapshotFolder& folder, SnapshotInMemory& memory, const SnapshotOptions& options,
                                     const ProcessGroup& group)
    : folder_(folder), memory_(memory), options_(options), group_(group) {
  writes_ = claim_folder();
  find_memories();
  if (memory_everywhere_) {
    find_in_memory();
    agree_in_memory();
  }
  look_into_folders();
  all_or_none(group_, [&] {
    if (writes_) folder_.begin(generation_);
    if (in_memory_ && keeps_in_memory() && has_agreed_in_memory()) memory_.adopt(generation_);
  });
}

// Agents on one machine have a memory each.
void SnapshotAgreement::find_memories() {
  const auto all = all_gather_object(memory_.identity(), group_);
  const auto own = static_cast<std::size_t>(group_.rank());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    memory_everywhere_ = memory_everywhere_ && !all[rank].get<std::string>().empty();
    one_memory_ = one_memory_ && all[rank] == all[0];
    if (rank < own && all[rank] == all[own]) ++place_in_memory_;
  }
}

// In one memory each rank keeps its own part: a snapshot is complete if all have theirs.
void SnapshotAgreement::find_complete() {
  if (!one_memory_) return;
  complete_ = memory_.own_stamps(place_in_memory_);
  for (const json& theirs : all_gather_object(json(complete_), group_)) {
    const auto stamps = theirs.get<SnapshotInMemory::Stamps>();
    std::erase_if(complete_, [&](const auto& stamp) { return !stamps.contains(stamp); });
  }
}

void SnapshotAgreement::find_in_memory() {
  find_complete();
  all_or_none(group_, [&] {
    if (!options_.fresh || launchers_round() > 1) kept_ = memory_.find(/*digests=*/!one_memory_, complete_);
    generation_ = writes_ ? folder_.last_generation() : 0;
  });
}

// Generators of some ranks, beside others' as they happen to be, would be those of no run.
void SnapshotAgreement::add_own_state(Snapshot& snapshot) const {
  if (!snapshot.rng.empty()) return;
  const SnapshotInMemory::Stamp stamp = stamp_in_memory(snapshot);
  if (one_memory_ && !complete_.contains(stamp)) {
    snapshot.world_size = 0;
    return;
  }
  const auto state = memory_.find_own(place_in_memory_, stamp);
  if (!state) return;
  const auto rank = static_cast<std::size_t>(group_.rank());
  snapshot.own.resize(std::max(snapshot.own.size(), rank + 1));
  snapshot.own[rank] = state->own;
  if (snapshot.world_size != group_.world_size()) return;
  snapshot.rng.resize(static_cast<std::size_t>(group_.world_size()));
  snapshot.rng[rank] = state->rng;
}

// Decides whether the folders have to be read: not if memory has a snapshot of the newest generation that has begun.
void SnapshotAgreement::agree_in_memory() {
  json own{{"last_generation", generation_}};
  if (kept_) {
    own["kept"] = {kept_->stamp.generation, kept_->stamp.step, kept_->stamp.digest};
    own["generation"] = std::max(kept_->stamp.generation, memory_.adopted_by());
  }
  std::int64_t begun = 0, kept = 0;
  const auto gathered = all_gather_object(own, group_);
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    const json& theirs = gathered[rank];
    begun = std::max(begun, theirs["last_generation"].get<std::int64_t>());
    if (!theirs.contains("kept")) continue;
    kept = std::max(kept, theirs["generation"].get<std::int64_t>());
    const SnapshotStamp stamp{theirs["kept"][0], theirs["kept"][1], theirs["kept"][2]};
    if (keeper_ >= 0 && !stamp.is_newer_than(newest_kept_)) continue;
    keeper_ = static_cast<int>(rank);
    newest_kept_ = stamp;
  }
  in_memory_ = keeper_ >= 0 && kept >= begun;
  newest_begun_ = std::max(begun, kept);
}

// Even without reading them, a writer has to know its folder. If that has changed since the snapshot in memory was
// written it is read after all: memory may have been too small for later ones.
void SnapshotAgreement::look_into_folders() {
  std::optional<SnapshotFolder::Found> found;
  all_or_none(group_, [&] {
    if (!in_memory_ || (writes_ && !(kept_ && folder_.take(kept_->known)))) found = find_snapshot();
    generation_ = writes_ ? folder_.last_generation() : 0;
  });
  agree(found);
  generation_ = std::max(generation_, newest_begun_ + 1);
  in_memory_ = keeper_ >= 0 && (holder_ < 0 || !agreed_.is_newer_than(newest_kept_));
  if (in_memory_) {
    holder_ = keeper_;
    agreed_ = newest_kept_;
    path_ = options_.path;
  }
  if (!found || in_memory_) return;
  own_digest_ = found->stamp.digest;
  own_bytes_ = std::move(found->bytes);
}

void SnapshotAgreement::forget() {
  own_bytes_ = {};
  kept_.reset();
}

bool SnapshotAgreement::has_agreed_in_memory() const {
  return kept_ && kept_->stamp.generation == agreed_.generation && kept_->stamp.step == agreed_.step &&
         kept_->stamp.digest == agreed_.digest;
}

bool SnapshotAgreement::claim_folder() {
  // With a virtual local rank all have 0.
  const auto& state = group_.state();
  const bool first_of_machine = ranks_on_machine_of(state.roster, state.rank).front() == state.rank;
  if (group_.local_world_size() == group_.world_size()) {
    all_or_none(group_, [&] {
      if (first_of_machine) folder_.check_writable();
    });
    return first_of_machine;
  }
  const std::string mark = mark_of(group_);
  all_or_none(group_, [&] {
    if (!first_of_machine) return;
    folder_.check_writable();
    if (group_.rank() != 0) folder_.claim(mark);
  });
  all_or_none(group_, [&] {
    if (group_.rank() == 0) folder_.claim(mark);  // its own folder is always its own
  });
  bool is_ours = false;
  all_or_none(group_, [&] { is_ours = first_of_machine && folder_.claimed_by() == mark; });
  return is_ours;  // if machines share it, only the last one's stays
}

std::optional<SnapshotFolder::Found> SnapshotAgreement::find_snapshot() {
  if (!writes_) return std::nullopt;
  auto found = folder_.find(
      [](const std::string& bytes, const std::string& name) { return stamp_of(decode(bytes, name)); }, options_.say);
  if (!options_.fresh || launchers_round() > 1) return found;
  if (folder_.retire()) options_.say("starting over; the earlier snapshot is now " + options_.path + ".old");
  return std::nullopt;
}

// Each rank tells what its folder has; from the same data all reach the same decision.
void SnapshotAgreement::agree(const std::optional<SnapshotFolder::Found>& found) {
  json own{{"writes", writes_}, {"last_generation", generation_}};
  if (const auto best = folder_.best_metric()) own["best"] = *best;
  if (found) {
    own["found"] = {found->stamp.generation, found->stamp.step, found->stamp.digest};
    own["path"] = found->path;
  }
  const auto gathered = all_gather_object(own, group_);
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    const json& theirs = gathered[rank];
    one_writer_ = one_writer_ && (rank == 0 || !theirs["writes"].get<bool>());
    generation_ = std::max(generation_, theirs["last_generation"].get<std::int64_t>() + 1);
    if (theirs.contains("best")) folder_.set_known_best(theirs["best"].get<double>());
    if (!theirs.contains("found")) continue;
    const SnapshotStamp stamp{theirs["found"][0], theirs["found"][1], theirs["found"][2]};
    if (holder_ >= 0 && !stamp.is_newer_than(agreed_)) continue;
    holder_ = static_cast<int>(rank);
    agreed_ = stamp;
    path_ = theirs["path"];
  }
}

// Reads the agreed file on this rank, if it is visible here.
std::optional<Snapshot> SnapshotAgreement::read_own_copy() const {
  try {
    const std::string path = folder_of(options_.path) + "/" + path_.substr(path_.rfind('/') + 1);
    const bool is_known = writes_ && own_digest_ == agreed_.digest;
    const auto read = is_known ? std::nullopt : disk().read(path);
    if (!is_known && !read) return std::nullopt;
    Snapshot snapshot = decode(is_known ? own_bytes_ : *read, path);
    const bool has_agreed = snapshot.digest == agreed_.digest && !agreed_.digest.empty();  // Python's files have none
    return has_agreed ? std::optional(std::move(snapshot)) : std::nullopt;
  } catch (const DamagedFile&) {
    return std::nullopt;
  } catch (const std::system_error&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    throw NoMemory("the snapshot " + path_);
  }
}

// A node that cannot keep it does without: the others have it.
void SnapshotAgreement::put_into_memory(const Snapshot& received, const std::string& content) {
  try {
    memory_.write(received, content, folder_.known());
    memory_.adopt(generation_);
  } catch (const Error& error) {
    options_.say(error.what());
  }
}

std::optional<Snapshot> SnapshotAgreement::fetch_from_memory() {
  bool all_have_it = true;
  for (const json& gathered : all_gather_object(has_agreed_in_memory(), group_))
    all_have_it = all_have_it && gathered.get<bool>();
  if (all_have_it) {
    add_own_state(kept_->snapshot);
    memory_.keep_only(place_in_memory_, agreed_);
    return std::move(kept_->snapshot);
  }
  const std::string content =
      broadcast_bytes(group_.c10d(), group_.rank() == holder_ ? std::move(kept_->content) : "", holder_);
  std::optional<Snapshot> received;
  all_or_none(group_, [&] {
    received = snapshot_of_content(content, agreed_.digest);
    add_own_state(*received);
    if (keeps_in_memory() && !has_agreed_in_memory()) put_into_memory(*received, content);
  });
  return received;
}

std::optional<Snapshot> SnapshotAgreement::fetch() {
  if (holder_ < 0) return std::nullopt;
  if (in_memory_) return fetch_from_memory();
  std::optional<Snapshot> here;
  all_or_none(group_, [&] { here = read_own_copy(); });
  bool all_have_it = true;
  for (const json& gathered : all_gather_object(here.has_value(), group_))
    all_have_it = all_have_it && gathered.get<bool>();
  if (all_have_it) return here;
  const std::string bytes =
      broadcast_bytes(group_.c10d(), group_.rank() == holder_ ? std::move(own_bytes_) : "", holder_);
  all_or_none(group_, [&] {
    if (writes_ && group_.rank() != holder_ && !here)
      folder_.write(agreed_, [&](NewFile& file) { file.append(bytes.data(), bytes.size()); });
    here.reset();
    here = decode(bytes, "the snapshot " + path_);
  });
  return here;
}

}  // namespace ddprun
