#include "rendezvous/memory/copy_memory.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "rendezvous/memory/memory_file.h"

namespace ddprun {
namespace {

constexpr std::uint64_t kCopiesMagic = 0x79706f63706464, kCopiesVersion = 1;  // "ddpcopy"
constexpr std::uint64_t kParts = 2;                                           // own, and of the node before

struct CopiesHead {
  std::uint64_t magic, version, places, bytes, round, first_rank, world_size, has_neighbour, wanted;
};
constexpr std::uint64_t kRoundAt = 4 * sizeof(std::uint64_t), kNeighbourAt = 7 * sizeof(std::uint64_t),
                        kWantedAt = 8 * sizeof(std::uint64_t);

struct CopySlotHead {
  std::uint64_t complete, round, step, rank, world_size, bytes, sequence, copied;
};
constexpr std::uint64_t kCopiedAt = 7 * sizeof(std::uint64_t);

std::uint64_t number_at(int fd, std::uint64_t at) {
  std::uint64_t number = 0;
  read_at(fd, &number, sizeof number, at);
  return number;
}

void write_number(int fd, std::uint64_t number, std::uint64_t at) { write_at(fd, &number, sizeof number, at); }

std::uint64_t copy_span(std::uint64_t bytes) {
  return kMemoryPage + (bytes + kMemoryPage - 1) / kMemoryPage * kMemoryPage;
}

CopyMemory::Stamp stamp_of(const CopyLabel& label) { return {label.round, label.step}; }

}  // namespace

CopyMemory CopyMemory::create(int places, std::uint64_t bytes) {
  const std::uint64_t slots = kParts * kSlotsOfPlace * static_cast<std::uint64_t>(places), each = bytes / slots;
  Fd fd = make_memory_file("ddprun-copies", kMemoryPage + slots * copy_span(each));
  const CopiesHead head{kCopiesMagic, kCopiesVersion, static_cast<std::uint64_t>(places), each, 0, 0, 1, 0, 0};
  write_at(fd.get(), &head, sizeof head, 0);
  seal_memory_file(fd.get());
  return CopyMemory(std::move(fd), places, each);
}

bool CopyMemory::wanted() const { return number_at(fd_.get(), kWantedAt) != 0; }

void CopyMemory::begin_round(const Round& round, const std::optional<Stamp>& stamp) {
  for (const Kept& kept : wanted() ? this->kept() : std::vector<Kept>{}) {
    const CopyLabel& label = kept.label;
    const bool is_it = stamp && stamp_of(label) == *stamp && label.world_size == round.world_size;
    const std::uint64_t rank = round.first_rank + static_cast<std::uint64_t>(kept.slot / kSlotsOfPlace);
    if (!is_it || (is_own(kept.slot) && label.rank != rank)) write_number(fd_.get(), 0, place_of(kept.slot));
    write_number(fd_.get(), 0, place_of(kept.slot) + kCopiedAt);
  }
  const std::array<std::uint64_t, 4> now{round.number, round.first_rank, round.world_size, round.has_neighbour};
  write_at(fd_.get(), now.data(), sizeof now, kRoundAt);
}

void CopyMemory::set_neighbour(bool has_one) { write_number(fd_.get(), has_one, kNeighbourAt); }

std::uint64_t CopyMemory::place_of(int slot) const {
  return kMemoryPage + static_cast<std::uint64_t>(slot) * copy_span(bytes_);
}

std::optional<CopyMemory::Kept> CopyMemory::kept_in(int slot) const {
  CopySlotHead head{};
  if (read_at(fd_.get(), &head, sizeof head, place_of(slot)) != sizeof head || head.complete != 1 ||
      head.bytes > bytes_)
    return {};
  return Kept{{head.round, head.step, head.rank, head.world_size},
              head.bytes,
              head.sequence,
              head.copied == head.sequence,
              slot};
}

std::vector<CopyMemory::Kept> CopyMemory::kept() const {
  std::vector<Kept> out;
  for (int slot = 0; slot < slots(); ++slot)
    if (const auto one = kept_in(slot)) out.push_back(*one);
  return out;
}

std::optional<CopyMemory::Kept> CopyMemory::find(const CopyLabel& label) const {
  for (const Kept& one : kept())
    if (one.label == label) return one;
  return {};
}

bool CopyMemory::has_own(int place, const CopyLabel& label) const {
  for (int i = 0; i < kSlotsOfPlace; ++i)
    if (const auto one = kept_in(kSlotsOfPlace * place + i); one && one->label == label) return true;
  return false;
}

std::optional<int> CopyMemory::begin_write(Part part, int place, const CopyLabel& label, std::uint64_t bytes,
                                           const std::optional<Stamp>& spare) {
  if (place < 0 || place >= places_ || bytes > bytes_) return {};
  const int first = kSlotsOfPlace * (part == Part::own ? place : places_ + place);
  const auto worth = [&](int slot) {
    const auto one = kept_in(slot);
    const bool is_spared = one && spare && stamp_of(one->label) == *spare;
    const int kind = !one ? 1 : one->label == label ? 0 : 2;
    return std::tuple(kind, is_spared, one ? one->label : CopyLabel{});
  };
  int chosen = first;
  std::uint64_t sequence = 0;
  for (int slot = first; slot < first + kSlotsOfPlace; ++slot) {
    if (worth(slot) < worth(chosen)) chosen = slot;
    sequence = std::max(sequence, number_at(fd_.get(), place_of(slot) + offsetof(CopySlotHead, sequence)));
  }
  const CopySlotHead head{0, label.round, label.step, label.rank, label.world_size, bytes, sequence + 1, 0};
  write_at(fd_.get(), &head, sizeof head, place_of(chosen));
  write_number(fd_.get(), 1, kWantedAt);
  return chosen;
}

void CopyMemory::write(int slot, std::uint64_t at, std::string_view bytes) {
  write_at(fd_.get(), bytes.data(), bytes.size(), place_of(slot) + kMemoryPage + at);
}

void CopyMemory::complete(int slot) { write_number(fd_.get(), 1, place_of(slot)); }

bool CopyMemory::read(const Kept& kept, std::uint64_t at, char* to, std::size_t count) const {
  if (read_at(fd_.get(), to, count, place_of(kept.slot) + kMemoryPage + at) != count) return false;
  const auto now = kept_in(kept.slot);
  return now && now->label == kept.label && now->sequence == kept.sequence;
}

// The sequence says which one: its worker may be replacing it.
void CopyMemory::mark_copied(const Kept& kept) {
  write_number(fd_.get(), kept.sequence, place_of(kept.slot) + kCopiedAt);
}

}  // namespace ddprun
