#include "trainer/ddp/snapshot/snapshot_in_memory.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/memory_image.h"
#include "trainer/ddp/snapshot/torch_file.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr int kModelArea = 0;
int own_area(int place) { return 1 + place; }
constexpr const char* kName = "the snapshot in memory";
constexpr const char* kNoDigest = "-";  // one machine has nothing to compare
constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

json json_of(const std::optional<double>& number) { return number ? json(*number) : json(); }

std::optional<double> number_of(const json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::pair<std::int64_t, std::int64_t> stamp_of(const SnapshotMemory::Kept& kept) {
  return {static_cast<std::int64_t>(kept.stamp.generation), static_cast<std::int64_t>(kept.stamp.step)};
}

Error too_large(std::uint64_t bytes, std::uint64_t bytes_max) {
  const auto size = [](std::uint64_t number) {
    return number < kMiB ? std::to_string((number + kKiB - 1) / kKiB) + "K"
                         : std::to_string((number + kMiB - 1) / kMiB) + "M";
  };
  return Error(
      "cannot keep the snapshot in memory",
      "it has " + size(bytes) + ", and --memory-snapshots=" + size(2 * bytes_max) + " holds two of " + size(bytes_max),
      "Pass --memory-snapshots=" + size(2 * bytes) + " or more, or leave it out.");
}

}  // namespace

json json_of(const SnapshotFolder::Known& known) {
  json result{{"best", json_of(known.best_metric)}, {"files", known.identities}};
  if (const auto& newest = known.newest)
    result["newest"] = {newest->generation, newest->step, newest->digest, json_of(newest->metric)};
  return result;
}

SnapshotFolder::Known known_of(const json& value) {
  SnapshotFolder::Known known{.best_metric = number_of(value.at("best")), .identities = value.at("files")};
  if (value.contains("newest")) {
    const json& newest = value["newest"];
    known.newest = SnapshotStamp{newest.at(0), newest.at(1), newest.at(2), number_of(newest.at(3))};
  }
  return known;
}

namespace {

std::string note_of(const std::string& run, const std::optional<double>& metric, const SnapshotFolder::Known& known) {
  return json{{"run", run}, {"metric", json_of(metric)}, {"known", json_of(known)}}.dump();
}

}  // namespace

Snapshot snapshot_of_content(const std::string& content, const std::string& digest) {
  try {
    return snapshot_of(value_of_image(content), digest, kName);
  } catch (const Malformed& error) {
    throw DamagedFile(std::string("cannot read ") + kName, error.what());
  }
}

SnapshotInMemory::SnapshotInMemory(std::optional<SnapshotMemory> memory, const std::string& path)
    : memory_(std::move(memory)) {
  if (memory_) run_ = sha256_of(std::filesystem::absolute(path).lexically_normal().string());
}

bool SnapshotInMemory::is_ours(const SnapshotMemory::Kept& kept) const {
  const json note = json::parse(kept.note, nullptr, /*allow_exceptions=*/false);
  return note.is_object() && note.value("run", "") == run_;
}

std::optional<SnapshotInMemory::Found> SnapshotInMemory::find(bool digests, const Stamps& preferred) const {
  if (!memory_) return std::nullopt;
  std::optional<SnapshotMemory::Kept> best;
  const auto rank_of = [&](const SnapshotMemory::Kept& kept) {
    return std::pair(preferred.contains(stamp_of(kept)), kept.stamp);
  };
  for (auto& kept : memory_->kept(kModelArea))
    if (is_ours(kept) && (!best || rank_of(kept) > rank_of(*best))) best = std::move(kept);
  if (!best) return std::nullopt;
  try {
    auto content = memory_->read(kModelArea, *best);
    if (!content) return std::nullopt;
    const json note = json::parse(best->note);
    const std::string digest = digests ? sha256_of(*content) : kNoDigest;
    Snapshot snapshot = snapshot_of_content(*content, digest);
    const auto [generation, step] = stamp_of(*best);
    return Found{{generation, step, digest, number_of(note.at("metric"))},
                 known_of(note.at("known")),
                 std::move(*content),
                 std::move(snapshot)};
  } catch (const DamagedFile&) {
  } catch (const json::exception&) {
  } catch (const std::system_error&) {
  }
  return std::nullopt;
}

void SnapshotInMemory::write_pieces(int area, const SnapshotStamp& stamp, const std::vector<std::string_view>& pieces,
                                    const std::string& note) {
  std::uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  if (bytes > memory_->snapshot_bytes_max()) throw too_large(bytes, memory_->snapshot_bytes_max());
  try {
    memory_->write(area, {static_cast<std::uint64_t>(stamp.generation), static_cast<std::uint64_t>(stamp.step)}, pieces,
                   note);
  } catch (const std::system_error& error) {
    throw Error("cannot keep the snapshot in memory", error.code().message());
  }
}

void SnapshotInMemory::write(const Snapshot& snapshot, const SnapshotFolder::Known& known) {
  const MemoryImage image(to_value(snapshot, Kept::in_memory), staging_);
  write_pieces(kModelArea, {snapshot.generation, snapshot.at.step}, image.pieces(),
               note_of(run_, snapshot.metric, known));
}

void SnapshotInMemory::write(const SnapshotStamp& stamp, const std::string& content,
                             const SnapshotFolder::Known& known) {
  write_pieces(kModelArea, stamp, {content}, note_of(run_, stamp.metric, known));
}

SnapshotInMemory::Stamps SnapshotInMemory::own_stamps(int place) const {
  Stamps stamps;
  if (!memory_) return stamps;
  for (const auto& kept : memory_->kept(own_area(place)))
    if (is_ours(kept)) stamps.insert(stamp_of(kept));
  return stamps;
}

std::optional<OwnState> SnapshotInMemory::find_own(int place, const SnapshotStamp& stamp) const {
  if (!memory_) return std::nullopt;
  for (const auto& kept : memory_->kept(own_area(place))) {
    if (!is_ours(kept) || stamp_of(kept) != std::pair(stamp.generation, stamp.step)) continue;
    const auto content = memory_->read(own_area(place), kept);
    if (!content) continue;
    try {
      return own_state_of(value_of_image(*content), kName);
    } catch (const Malformed&) {
    } catch (const DamagedFile&) {
    }
  }
  return std::nullopt;
}

void SnapshotInMemory::write_own(int place, const SnapshotStamp& stamp, const OwnState& state) {
  const MemoryImage image(to_value(state), staging_);
  write_pieces(own_area(place), stamp, image.pieces(), json{{"run", run_}}.dump());
}

std::int64_t SnapshotInMemory::adopted_by() const {
  return memory_ ? static_cast<std::int64_t>(memory_->adopted_by()) : 0;
}

void SnapshotInMemory::adopt(std::int64_t generation) {
  if (memory_) memory_->adopt(static_cast<std::uint64_t>(generation));
}

}  // namespace ddprun
