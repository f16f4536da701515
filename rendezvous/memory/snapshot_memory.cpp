#include "rendezvous/memory/snapshot_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
#include <system_error>
#include <thread>

#include "rendezvous/memory/memory_file.h"

namespace ddprun {
namespace {

constexpr std::uint64_t kPage = kMemoryPage, kSnapshotsMagic = 0x70616e73706464, kSnapshotsVersion = 1;  // "ddpsnap"
constexpr std::uint64_t kAreasMax = 65'536, kBytesMax = std::uint64_t{1} << 44;
constexpr std::uint64_t kMappedBytesMin = 1 << 20;  // below it a system call is faster
constexpr std::uint64_t kThreadsMax = 4, kThreadBytesMin = 4 << 20;
constexpr std::uint64_t kAdoptedAt = 4 * sizeof(std::uint64_t), kUserAt = 7 * sizeof(std::uint64_t);

struct Head {
  std::uint64_t magic, version, areas, bytes, adopted, identity[2], user;
};

struct SlotHead {
  std::uint64_t complete, generation, step, sequence, size, note_size;
};
static_assert(sizeof(SlotHead) + kSnapshotNoteMax <= kPage);

[[noreturn]] void fail() { throw std::system_error(errno, std::generic_category()); }

template <class T>
std::optional<T> read_struct(int fd, std::uint64_t at) {
  T result{};
  return read_at(fd, &result, sizeof result, at) == sizeof result ? std::optional(result) : std::nullopt;
}

void write_pieces(int fd, std::vector<iovec> pieces, std::uint64_t at) {
  std::size_t first = 0;
  while (first < pieces.size()) {
    const auto count = static_cast<int>(std::min<std::size_t>(pieces.size() - first, IOV_MAX));
    const ssize_t written = pwritev(fd, pieces.data() + first, count, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    at += static_cast<std::uint64_t>(written);
    auto left = static_cast<std::size_t>(written);
    while (first < pieces.size() && left >= pieces[first].iov_len) left -= pieces[first++].iov_len;
    if (left == 0) continue;
    pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + left;
    pieces[first].iov_len -= left;
  }
}

// The bytes from `begin` to `end` of the pieces together.
std::vector<iovec> part_of(const std::vector<iovec>& pieces, std::uint64_t begin, std::uint64_t end) {
  std::vector<iovec> result;
  std::uint64_t at = 0;
  for (const iovec& piece : pieces) {
    const std::uint64_t first = std::max(begin, at), last = std::min(end, at + piece.iov_len);
    if (first < last) result.push_back({static_cast<char*>(piece.iov_base) + (first - at), last - first});
    at += piece.iov_len;
  }
  return result;
}

// Where the other ranks wait for this one their cores help.
void copy_in_parallel(const std::vector<iovec>& pieces, std::uint64_t size, char* to, std::uint64_t threads_max) {
  const std::uint64_t parts = std::clamp<std::uint64_t>(size / kThreadBytesMin, 1, threads_max);
  const auto copy = [&](std::uint64_t part) {
    const std::uint64_t begin = size * part / parts, end = size * (part + 1) / parts;
    char* at = to + begin;
    for (const iovec& piece : part_of(pieces, begin, end)) {
      std::memcpy(at, piece.iov_base, piece.iov_len);
      at += piece.iov_len;
    }
  };
  std::vector<std::future<void>> others;
  for (std::uint64_t part = 1; part < parts; ++part) others.push_back(std::async(std::launch::async, copy, part));
  copy(0);
  for (auto& other : others) other.get();
}

iovec piece_of(const void* data, std::size_t size) { return {const_cast<void*>(data), size}; }

template <class T>
void write_struct(int fd, const T& value, std::uint64_t at) {
  write_pieces(fd, {piece_of(&value, sizeof value)}, at);
}

std::uint64_t slot_span(std::uint64_t bytes) { return kPage + (bytes / 2 + kPage - 1) / kPage * kPage; }

std::uint64_t size_of(std::uint64_t areas, std::uint64_t bytes) { return kPage + 2 * areas * slot_span(bytes); }

}  // namespace

SnapshotMemory SnapshotMemory::create(int areas, std::uint64_t bytes) {
  const auto count = static_cast<std::uint64_t>(areas);
  Fd fd = make_memory_file("ddprun-snapshots", size_of(count, bytes));
  std::random_device random;
  const auto number = [&] { return std::uint64_t{random()} << 32 | random(); };
  write_struct(fd.get(), Head{kSnapshotsMagic, kSnapshotsVersion, count, bytes, 0, {number(), number()}, 0}, 0);
  seal_memory_file(fd.get());
  return SnapshotMemory(std::move(fd), areas, bytes);
}

SnapshotMemory SnapshotMemory::with_areas(int areas) const {
  const auto count = static_cast<std::uint64_t>(areas);
  auto head = read_struct<Head>(fd_.get(), 0);
  if (!head) throw std::system_error(EIO, std::generic_category());
  head->areas = count;
  Fd fd = make_memory_file("ddprun-snapshots", size_of(count, bytes_));
  write_struct(fd.get(), *head, 0);
  copy_memory_file(fd_.get(), fd.get(), kPage, kPage + 2 * slot_span(bytes_));
  seal_memory_file(fd.get());
  return SnapshotMemory(std::move(fd), areas, bytes_);
}

std::optional<SnapshotMemory> SnapshotMemory::opened(Fd fd) {
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const auto head = read_struct<Head>(fd.get(), 0);
  if (!head || head->magic != kSnapshotsMagic || head->version != kSnapshotsVersion) return std::nullopt;
  if (head->areas > kAreasMax || head->bytes > kBytesMax) return std::nullopt;
  if (static_cast<std::uint64_t>(status.st_size) != size_of(head->areas, head->bytes)) return std::nullopt;
  return SnapshotMemory(std::move(fd), static_cast<int>(head->areas), head->bytes);
}

std::optional<SnapshotMemory> SnapshotMemory::inherited() {
  const char* const text = std::getenv(kSnapshotMemoryVariable);
  if (!text) return std::nullopt;
  const std::string_view digits = std::string_view(text).substr(0, std::string_view(text).find(':'));
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) return std::nullopt;
  return opened(Fd(fcntl(number, F_DUPFD_CLOEXEC, 0)));
}

std::string SnapshotMemory::identity() const {
  const auto head = read_struct<Head>(fd_.get(), 0);
  return head ? std::to_string(head->identity[0]) + "-" + std::to_string(head->identity[1]) : "";
}

void SnapshotMemory::keep_only(int area, const Stamp& stamp) {
  for (const int slot : {0, 1})
    if (const auto kept = kept_in(area, slot); kept && kept->stamp != stamp)
      write_struct(fd_.get(), std::uint64_t{0}, place(area, slot));
}

bool SnapshotMemory::claim(std::uint64_t user) {
  struct flock lock {};
  lock.l_type = F_WRLCK;  // against other processes
  fcntl(fd_.get(), F_SETLKW, &lock);
  const auto now = read_struct<std::uint64_t>(fd_.get(), kUserAt).value_or(0);
  if (now == 0) write_struct(fd_.get(), user, kUserAt);
  lock.l_type = F_UNLCK;
  fcntl(fd_.get(), F_SETLK, &lock);
  return now == 0 || now == user;
}

std::uint64_t SnapshotMemory::place(int area, int slot) const {
  return kPage + static_cast<std::uint64_t>(2 * area + slot) * slot_span(bytes_);
}

std::optional<SnapshotMemory::Kept> SnapshotMemory::kept_in(int area, int slot) const {
  const auto head = read_struct<SlotHead>(fd_.get(), place(area, slot));
  if (!head || head->complete != 1 || head->size > snapshot_bytes_max() || head->note_size > kSnapshotNoteMax)
    return std::nullopt;
  Kept kept{{head->generation, head->step}, head->sequence, head->size, std::string(head->note_size, '\0')};
  read_at(fd_.get(), kept.note.data(), kept.note.size(), place(area, slot) + sizeof(SlotHead));
  return kept;
}

std::vector<SnapshotMemory::Kept> SnapshotMemory::kept(int area) const {
  std::vector<Kept> result;
  if (area < 0 || area >= areas_) return result;
  for (const int slot : {0, 1})
    if (auto one = kept_in(area, slot)) result.push_back(std::move(*one));
  std::sort(result.begin(), result.end(), [](const Kept& a, const Kept& b) { return a.sequence > b.sequence; });
  return result;
}

std::optional<std::string> SnapshotMemory::read(int area, const Kept& kept) const {
  const auto holds_it = [&](int slot) {
    const auto now = kept_in(area, slot);
    return now && now->stamp == kept.stamp && now->sequence == kept.sequence && now->bytes == kept.bytes;
  };
  for (const int slot : {0, 1}) {
    if (!holds_it(slot)) continue;
    std::string content(kept.bytes, '\0');
    const std::size_t got = read_at(fd_.get(), content.data(), content.size(), place(area, slot) + kPage);
    return got == content.size() && holds_it(slot) ? std::optional(std::move(content)) : std::nullopt;
  }
  return std::nullopt;
}

void SnapshotMemory::write(int area, const Stamp& stamp, const std::vector<std::string_view>& pieces,
                           std::string_view note, Copy copy) {
  if (area < 0 || area >= areas_) throw std::system_error(EINVAL, std::generic_category());
  std::uint64_t size = 0;
  std::vector<iovec> content;
  for (const std::string_view piece : pieces) {
    size += piece.size();
    if (!piece.empty()) content.push_back(piece_of(piece.data(), piece.size()));
  }
  if (size > snapshot_bytes_max()) throw std::system_error(ENOSPC, std::generic_category());
  const std::array<std::optional<Kept>, 2> now{kept_in(area, 0), kept_in(area, 1)};
  const auto sequence = [&](int slot) {
    const auto& kept = now[static_cast<std::size_t>(slot)];
    return kept ? kept->sequence : 0;
  };
  const int slot = sequence(0) <= sequence(1) ? 0 : 1;
  note = note.substr(0, kSnapshotNoteMax);
  SlotHead head{0, stamp.generation, stamp.step, std::max(sequence(0), sequence(1)) + 1, size, note.size()};
  write_struct(fd_.get(), head.complete, place(area, slot));
  if (size < kMappedBytesMin || !copy_to_mapped(content, size, place(area, slot) + kPage, copy))
    write_pieces(fd_.get(), std::move(content), place(area, slot) + kPage);
  std::vector<iovec> rest{piece_of(&head.generation, sizeof head - sizeof head.complete)};
  if (!note.empty()) rest.push_back(piece_of(note.data(), note.size()));
  write_pieces(fd_.get(), std::move(rest), place(area, slot) + sizeof head.complete);
  head.complete = 1;
  write_struct(fd_.get(), head.complete, place(area, slot));
}

// In half the time of a system call, and less on several cores.
bool SnapshotMemory::copy_to_mapped(const std::vector<iovec>& pieces, std::uint64_t size, std::uint64_t at, Copy copy) {
  Mapped& mapped = mapped_[at];
  if (mapped.bytes < size) {
    mapped = {};
    void* const begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), static_cast<off_t>(at));
    if (begin == MAP_FAILED) return false;
    madvise(begin, size, MADV_DONTFORK);
    madvise(begin, size, MADV_DONTDUMP);
    mapped = {std::shared_ptr<char>(static_cast<char*>(begin), [size](char* data) { munmap(data, size); }), size};
  } else if (mprotect(mapped.begin.get(), mapped.bytes, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  bool copied = true;
  try {
    const std::uint64_t cores = std::clamp<std::uint64_t>(std::thread::hardware_concurrency(), 1, kThreadsMax);
    copy_in_parallel(pieces, size, mapped.begin.get(), copy == Copy::by_all_cores ? cores : 1);
  } catch (const std::system_error&) {  // no thread is to be had
    copied = false;
  }
  mprotect(mapped.begin.get(), mapped.bytes, PROT_READ);
  return copied;
}

std::uint64_t SnapshotMemory::adopted_by() const {
  return read_struct<std::uint64_t>(fd_.get(), kAdoptedAt).value_or(0);
}

void SnapshotMemory::adopt(std::uint64_t generation) { write_struct(fd_.get(), generation, kAdoptedAt); }

}  // namespace ddprun
