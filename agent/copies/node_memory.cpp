#include "agent/copies/node_memory.h"

#include <sys/stat.h>

#include <system_error>
#include <utility>

#include "rendezvous/memory/memory_file.h"

namespace ddprun::agent {

NodeMemory::NodeMemory(asio::io_context& io, std::uint64_t bytes, Hooks hooks)
    : io_(io), bytes_(bytes), hooks_(std::move(hooks)) {}

void NodeMemory::make(int workers) {
  if (bytes_ == 0) return;
  try {
    use(SnapshotMemory::create(workers + 1, bytes_), workers);
  } catch (const std::system_error& error) {
    hooks_.on_failure(error.code().message());
  }
}

void NodeMemory::change_workers(int workers) {
  if (!snapshots_) return;
  try {
    use(snapshots_->with_areas(workers + 1), workers);
  } catch (const std::system_error& error) {
    copies_.reset();
    snapshots_.reset();
    hooks_.on_failure(error.code().message());
  }
}

std::uint64_t NodeMemory::bytes_in_use() const {
  constexpr std::uint64_t kBlockBytes = 512;
  std::uint64_t heads = 2 * kMemoryPage, bytes = 0;  // each file's first page, which has no snapshot
  for (const int fd : {snapshots_fd(), copies_fd()})
    if (struct stat status{}; fd >= 0 && fstat(fd, &status) == 0)
      bytes += static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes;
  return bytes > heads ? bytes - heads : 0;
}

bool NodeMemory::give_back(int workers) {
  if (!std::exchange(goes_, false)) return false;
  copies_.reset();
  snapshots_.reset();
  make(workers);
  return true;
}

void NodeMemory::use(SnapshotMemory memory, int workers) {
  snapshots_ = std::move(memory);
  copies_.emplace(io_, CopyMemory::create(workers, bytes_),
                  NodeCopies::Hooks{hooks_.dial,
                                    [this](int round) {
                                      if (unconfirmed_round_ == round) confirm_when_ready(round);
                                    },
                                    hooks_.print});
}

void NodeMemory::take_seat(const rendezvous::Seat& seat) {
  if (copies_) copies_->take_seat(seat);
}

void NodeMemory::confirm_when_ready(int round) {
  unconfirmed_round_ = round;
  if (copies_ && !copies_->ready(round)) return;
  unconfirmed_round_.reset();
  hooks_.confirm(round);
}

void NodeMemory::begin_round(const rendezvous::Seat& seat) {
  if (copies_) copies_->begin_round(seat);
}

void NodeMemory::add_caller(rendezvous::ReleasedPeer peer) {
  if (copies_) copies_->add_caller(std::move(peer));
}

std::vector<rendezvous::HeldSnapshot> NodeMemory::held() const {
  return copies_ ? copies_->held() : std::vector<rendezvous::HeldSnapshot>{};
}

}  // namespace ddprun::agent
