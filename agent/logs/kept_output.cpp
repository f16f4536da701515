#include "agent/logs/kept_output.h"

#include <algorithm>

namespace ddprun::agent {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{64} * 1024;

}  // namespace

void KeptOutput::starts(int local_rank, const Worker& worker) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[local_rank];
  if (slot.worker.rank != worker.rank) slot = {.begin = slot.end, .end = slot.end};
  if (slot.worker.round != worker.round) slot.round_begin = slot.end;
  slot.worker = worker;
}

std::function<void(std::string_view bytes)> KeptOutput::tap(int local_rank) {
  return [self = shared_from_this(), local_rank](std::string_view bytes) { self->take(local_rank, bytes); };
}

void KeptOutput::take(int local_rank, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[local_rank];
  slot.end += bytes.size();
  if (slot.blocks.empty() || slot.blocks.back().size() + bytes.size() > kBlockBytes) slot.blocks.emplace_back();
  slot.blocks.back() += bytes;
  while (slot.end - slot.begin - slot.blocks.front().size() >= kBytesMax) {
    slot.begin += slot.blocks.front().size();
    slot.blocks.pop_front();
    slot.cut = true;
  }
}

std::optional<int> KeptOutput::local_rank_of(int rank) const {
  const std::lock_guard lock(mutex_);
  int newest = 0;
  for (const auto& [local_rank, slot] : slots_) newest = std::max(newest, slot.worker.round);
  for (const auto& [local_rank, slot] : slots_)
    if (slot.worker.rank == rank && slot.worker.round == newest) return local_rank;
  return {};
}

KeptOutput::Worker KeptOutput::worker(int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(local_rank);
  return found == slots_.end() ? Worker{} : found->second.worker;
}

KeptOutput::Begin KeptOutput::begin(int local_rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(local_rank);
  if (found == slots_.end()) return {};
  return {found->second.begin, std::max(found->second.begin, found->second.round_begin)};
}

KeptOutput::Piece KeptOutput::read(int local_rank, std::uint64_t begin, std::size_t most) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(local_rank);
  if (found == slots_.end()) return {};
  const Slot& slot = found->second;
  Piece out{.begin = std::clamp(begin, slot.begin, slot.end)};
  std::uint64_t at = slot.begin;
  for (const std::string& block : slot.blocks) {
    const std::uint64_t from = std::max(at, out.begin);
    at += block.size();
    if (from < at && out.bytes.size() < most)
      out.bytes.append(block, block.size() - (at - from), most - out.bytes.size());
  }
  out.end = out.begin + out.bytes.size();
  out.more = out.end < slot.end;
  if (out.begin == begin || !slot.cut) return out;
  const std::size_t line = out.bytes.find('\n');  // the bytes before may be the end of a line
  if (line == out.bytes.npos) return out;
  out.bytes.erase(0, line + 1);
  out.begin += line + 1;
  return out;
}

}  // namespace ddprun::agent
