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
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/torch_file.h"

namespace ddprun {
namespace {

using nlohmann::json;

int launchers_round() { return read_rank_env(process_environment(), /*needs_store=*/false).env.round; }

bool on_several_machines(const ProcessGroup& group) { return group.local_world_size() < group.world_size(); }

// A unique mark: distinguishes a folder that machines share from one of each machine's own.
std::string mark_of(const ProcessGroup& group) {
  const json token = broadcast_object(std::random_device{}(), 0, group);
  return std::to_string(token.get<std::uint64_t>()) + " " + std::to_string(group.rank());
}

}  // namespace

SnapshotStamp stamp_of(const Snapshot& snapshot) {
  return {snapshot.generation, snapshot.at.step, snapshot.digest, snapshot.metric};
}

SnapshotAgreement::SnapshotAgreement(SnapshotFolder& folder, const SnapshotOptions& options, const ProcessGroup& group)
    : folder_(folder), options_(options), group_(group) {
  writes_ = claim_folder();
  std::optional<SnapshotFolder::Found> found;
  all_or_none(group_, [&] {
    found = find_snapshot();
    generation_ = writes_ ? folder_.last_generation() : 0;
  });
  agree(found);
  all_or_none(group_, [&] {
    if (writes_) folder_.begin(generation_);
  });
  if (!found) return;
  own_digest_ = found->stamp.digest;
  own_bytes_ = std::move(found->bytes);
}

bool SnapshotAgreement::claim_folder() {
  const bool first_of_machine = group_.local_rank() == 0;
  if (!on_several_machines(group_)) {
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
  if (folder_.retire()) options_.say("starting over: the snapshot of an earlier run is now " + options_.path + ".old");
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

std::optional<Snapshot> SnapshotAgreement::fetch() {
  if (holder_ < 0) return std::nullopt;
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
