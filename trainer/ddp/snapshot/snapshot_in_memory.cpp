#include "trainer/ddp/snapshot/snapshot_in_memory.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
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

SnapshotInMemory::Stamp stamp_of(const SnapshotMemory::Kept& kept, const json& note) {
  return {static_cast<std::int64_t>(kept.stamp.generation), static_cast<std::int64_t>(kept.stamp.step),
          note.value("epochs", std::int64_t{0})};
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

SnapshotInMemory::Stamp stamp_in_memory(const Snapshot& snapshot) {
  return {snapshot.generation, snapshot.at.step, snapshot.at.epochs_run};
}

namespace {

// `whole`: with all ranks' parts.
std::string note_of(const std::string& run, const Snapshot& snapshot, const SnapshotFolder::Known& known) {
  return json_text(json{{"run", run},
                        {"epochs", snapshot.at.epochs_run},
                        {"whole", !snapshot.rng.empty()},
                        {"metric", json_of(snapshot.metric)},
                        {"known", json_of(known)}});
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

std::string SnapshotInMemory::identity() {
  if (!memory_) return "";
  // Two runs at once, of sub-groups for example, would overwrite each other's.
  const std::uint64_t user = std::stoull(run_.substr(0, 15), nullptr, 16) + 1;
  return memory_->claim(user) ? memory_->identity() : "";
}

json SnapshotInMemory::note_if_ours(const SnapshotMemory::Kept& kept) const {
  json note = parse_json(kept.note);
  return note.is_object() && note.value("run", "") == run_ ? note : json();
}

std::optional<SnapshotInMemory::Found> SnapshotInMemory::find(bool digests, const Stamps& complete) const {
  if (!memory_) return std::nullopt;
  std::optional<SnapshotMemory::Kept> best;
  std::pair<bool, Stamp> best_rank;
  for (auto& kept : memory_->kept(kModelArea)) {
    const json note = note_if_ours(kept);
    if (note.is_null()) continue;
    const Stamp stamp = stamp_of(kept, note);
    const std::pair rank(note.value("whole", false) || complete.contains(stamp), stamp);
    if (best && rank <= best_rank) continue;
    best = std::move(kept);
    best_rank = rank;
  }
  if (!best) return std::nullopt;
  try {
    auto content = memory_->read(kModelArea, *best);
    if (!content) return std::nullopt;
    const json note = parse_json(best->note);
    const std::string digest = digests ? sha256_of(*content) : kNoDigest;
    Snapshot snapshot = snapshot_of_content(*content, digest);
    const SnapshotStamp stamp{snapshot.generation, snapshot.at.step, digest, number_of(note.at("metric"))};
    return Found{stamp, known_of(note.at("known")), std::move(*content), std::move(snapshot)};
  } catch (const DamagedFile&) {
  } catch (const json::exception&) {
  } catch (const std::system_error&) {
  }
  return std::nullopt;
}

void SnapshotInMemory::write_pieces(int area, const SnapshotStamp& stamp, const std::vector<std::string_view>& pieces,
                                    const std::string& note, SnapshotMemory::Copy copy) {
  std::uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  if (bytes > memory_->snapshot_bytes_max()) throw too_large(bytes, memory_->snapshot_bytes_max());
  try {
    memory_->write(area, {static_cast<std::uint64_t>(stamp.generation), static_cast<std::uint64_t>(stamp.step)}, pieces,
                   note, copy);
  } catch (const std::system_error& error) {
    throw Error("cannot keep the snapshot in memory", error.code().message());
  }
}

bool SnapshotInMemory::finish() {
  if (!writing_.valid()) return true;
  const Written written = writing_.get();
  copies_.reset();
  copying_time_ = written.copying_time;
  return written.finite;
}

bool SnapshotInMemory::hold_back() {
  if (!copies_) return finish();
  copies_->hold_back();
  return true;
}

void SnapshotInMemory::write_model(const Snapshot& snapshot, const SnapshotFolder::Known& known,
                                   const MemoryImage& image, SnapshotMemory::Copy copy) {
  write_pieces(kModelArea, {snapshot.generation, snapshot.at.step}, image.pieces(), note_of(run_, snapshot, known),
               copy);
}

// What the thread that writes gets. On a GPU `dense` and `numbers` are copies that are on their way.
struct SnapshotInMemory::Begun {
  std::optional<OwnPart> own;
  std::optional<Model> model;
  std::optional<c10::IValue> dense = {};  // the model's
  Numbers numbers = {};
  std::shared_ptr<const DeviceCopies> copies = {};
};

SnapshotInMemory::Written SnapshotInMemory::complete(const Begun& begun) {
  Written written;
  if (begun.copies) written.copying_time = begun.copies->wait();
  std::optional<OwnPart> own = begun.own;
  for (const auto& [name, number] : begun.numbers) {
    const double value = number.item<double>();
    if (!std::isfinite(value)) {
      written.finite = false;
      return written;
    }
    if (own) own->state.own[name] = value;
  }
  const auto write_model_part = [&] {
    if (!begun.model) return;
    const Model& model = *begun.model;
    const MemoryImage image(begun.dense ? *begun.dense
                                        : dense_value(to_value(model.snapshot, Kept::in_memory), staging_));
    write_model(model.snapshot, model.known, image, SnapshotMemory::Copy::by_this_thread);
  };
  try {
    if (own) write_own(own->place, own->stamp, own->state);
  } catch (...) {
    write_model_part();
    throw;
  }
  write_model_part();
  return written;
}

void SnapshotInMemory::start_write(std::optional<OwnPart> own, std::optional<Model> model, at::Device device,
                                   Numbers numbers) {
  finish();
  Begun begun{std::move(own), std::move(model), {}, std::move(numbers)};
  if (!device.is_cpu()) {
    copies_ = std::make_shared<DeviceCopies>(device);
    std::set<const void*> changing;
    c10::impl::GenericList all(c10::AnyType::get());
    for (const auto& [name, number] : begun.numbers) {
      all.push_back(number);
      changing.insert(number.storage().data());
    }
    if (begun.model) {
      for (const at::Tensor& tensor : begun.model->changing) changing.insert(tensor.storage().data());
      all.push_back(to_value(begun.model->snapshot, Kept::in_memory));
    }
    const auto dense = begin_dense_value(all, staging_, *copies_, changing).toList();
    for (std::size_t i = 0; i < begun.numbers.size(); ++i)
      begun.numbers[i].second = static_cast<c10::IValue>(dense.get(i)).toTensor();
    if (begun.model) begun.dense = static_cast<c10::IValue>(dense.get(begun.numbers.size()));
    begun.copies = copies_;
  }
  const auto work = [this, kept = std::make_shared<const Begun>(std::move(begun))] { return complete(*kept); };
  try {
    writing_ = std::async(std::launch::async, work);
  } catch (const std::system_error&) {  // no thread is to be had
    std::packaged_task<Written()> now(work);
    writing_ = now.get_future();
    now();
  }
}

void SnapshotInMemory::write(const Snapshot& snapshot, const SnapshotFolder::Known& known) {
  finish();
  const MemoryImage image(dense_value(to_value(snapshot, Kept::in_memory), staging_));
  write_model(snapshot, known, image, SnapshotMemory::Copy::by_all_cores);
}

void SnapshotInMemory::write(const Snapshot& received, const std::string& content, const SnapshotFolder::Known& known) {
  finish();
  write_pieces(kModelArea, {received.generation, received.at.step}, {content}, note_of(run_, received, known),
               SnapshotMemory::Copy::by_all_cores);
}

SnapshotInMemory::Stamps SnapshotInMemory::own_stamps(int place) const {
  Stamps stamps;
  if (!memory_) return stamps;
  for (const auto& kept : memory_->kept(own_area(place)))
    if (const json note = note_if_ours(kept); !note.is_null()) stamps.insert(stamp_of(kept, note));
  return stamps;
}

std::optional<OwnState> SnapshotInMemory::find_own(int place, const Stamp& stamp) const {
  if (!memory_) return std::nullopt;
  for (const auto& kept : memory_->kept(own_area(place))) {
    const json note = note_if_ours(kept);
    if (note.is_null() || stamp_of(kept, note) != stamp) continue;
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

void SnapshotInMemory::write_own(int place, const Stamp& stamp, const OwnState& state) {
  Staging staging;  // of its own, as the model's may be in use
  const MemoryImage image(dense_value(to_value(state), staging));
  const auto [generation, step, epochs] = stamp;
  write_pieces(own_area(place), {generation, step}, image.pieces(), json_text(json{{"run", run_}, {"epochs", epochs}}),
               SnapshotMemory::Copy::by_this_thread);
}

void SnapshotInMemory::keep_only(int place, const SnapshotStamp& stamp) {
  if (!memory_) return;
  const SnapshotMemory::Stamp kept{static_cast<std::uint64_t>(stamp.generation),
                                   static_cast<std::uint64_t>(stamp.step)};
  if (place == 0) memory_->keep_only(kModelArea, kept);
  memory_->keep_only(own_area(place), kept);
}

std::int64_t SnapshotInMemory::adopted_by() const {
  return memory_ ? static_cast<std::int64_t>(memory_->adopted_by()) : 0;
}

void SnapshotInMemory::adopt(std::int64_t generation) {
  if (memory_) memory_->adopt(static_cast<std::uint64_t>(generation));
}

}  // namespace ddprun
