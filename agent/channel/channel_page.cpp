#include "agent/channel/channel_page.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace ddprun::agent {
namespace {

// The same places on every machine: rendezvous/channel/worker_channel.py has them as numbers.
using PageLayout = ddprun_channel_page;
static_assert(offsetof(PageLayout, attached) == 64 && offsetof(PageLayout, lock_offset) == 68 &&
              offsetof(PageLayout, notices) == 72 && offsetof(PageLayout, inferred) == 76 &&
              offsetof(PageLayout, lock) == 128 && sizeof(PageLayout::lock) == 128);
static_assert(offsetof(PageLayout, step) == 256 && offsetof(PageLayout, phase) == 320 &&
              offsetof(PageLayout, snapshot) == 384 && offsetof(PageLayout, throughput) == 448 &&
              offsetof(PageLayout, request) == 512 && offsetof(PageLayout, notice) == 576);
static_assert(offsetof(PageLayout, beat) == 640 && offsetof(PageLayout, phase_times) == 3840 &&
              offsetof(PageLayout, first_step) == 3968 && offsetof(PageLayout, outlook) == 4032 &&
              sizeof(PageLayout) == DDPRUN_CHANNEL_BYTES);

// The page's `inferred`: by watch() in the script, by --watch=see and by --watch.
constexpr std::uint32_t kByWatch = 1, kByWatchToSee = 2, kByWatchToAct = 3;

constexpr int kReads = 4;                 // a record that changes during this many reads keeps its last value
constexpr unsigned kNoExecSeal = 0x0008;  // MFD_NOEXEC_SEAL, Linux 6.3: some hosts require it
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // no worker can truncate the page while we use it

Fd shared_memory() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Fd fd(memfd_create("ddprun-channel", kFlags | kNoExecSeal));
  if (!fd && errno == EINVAL) fd = Fd(memfd_create("ddprun-channel", kFlags));
  if (!fd || ftruncate(fd.get(), DDPRUN_CHANNEL_BYTES) != 0 || fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Fd();
  return fd;
}

std::shared_ptr<ddprun_channel_page> mapped(int fd) {
  void* const at = mmap(nullptr, DDPRUN_CHANNEL_BYTES, PROT_READ | PROT_WRITE,
                        fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<ddprun_channel_page*>(at), [](ddprun_channel_page* page) { munmap(page, DDPRUN_CHANNEL_BYTES); }};
}

ddprun_phase phase_of(std::uint64_t number) {
  return number <= DDPRUN_PHASE_FINISHING ? static_cast<ddprun_phase>(number) : DDPRUN_PHASE_UNKNOWN;
}

TimePoint since_boot(std::uint64_t ns) {  // steady_clock is CLOCK_MONOTONIC
  constexpr std::uint64_t kMost = INT64_MAX;
  return TimePoint(std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(ns, kMost))));
}

ddprun_beat kind_of(std::uint64_t number) {
  return number <= DDPRUN_BEAT_WAIT ? static_cast<ddprun_beat>(number) : DDPRUN_BEAT_NONE;
}

// Empty unless all of it is printable.
std::string collective_of(std::uint64_t name) {
  char text[sizeof name];
  std::memcpy(text, &name, sizeof name);
  const std::string out(text, strnlen(text, sizeof name));
  return std::all_of(out.begin(), out.end(), [](char c) { return c >= ' ' && c <= '~'; }) ? out : std::string();
}

// `age`: of the page at that time; nothing in it took longer.
Beat beat_in(const ddprun_channel_beat_record& record, TimePoint at, std::chrono::nanoseconds age) {
  const auto spent = [&](std::uint64_t ns) {
    return std::chrono::nanoseconds(std::min(ns, static_cast<std::uint64_t>(age.count())));
  };
  const ddprun_beat kind = kind_of(record.first & 0xff);
  return {.kind = kind,
          .waits = record.first >> 8,
          .collective = kind == DDPRUN_BEAT_WAIT ? collective_of(record.second) : std::string(),
          .at = at,
          .load = spent(record.spent_ns[0]),
          .compute = spent(record.spent_ns[1]),
          .wait = spent(record.spent_ns[2])};
}

}  // namespace

std::uint32_t* owner_word(ddprun_channel_page& page) {
  constexpr std::uint32_t kBegins = offsetof(ddprun_channel_page, lock), kBytes = sizeof ddprun_channel_page::lock;
  const std::uint32_t offset = __atomic_load_n(&page.lock_offset, __ATOMIC_RELAXED);
  if (offset < kBegins || offset >= kBegins + kBytes || offset % sizeof(std::uint32_t)) return nullptr;
  return reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(&page) + offset);
}

ChannelPage::ChannelPage(std::shared_ptr<ddprun_channel_page> page, Fd fd, TimePoint made)
    : page_(std::move(page)), fd_(std::move(fd)), made_(made) {}

int channel_number() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > kChannelFd) return kChannelFd;
  const int highest = static_cast<int>(limit.rlim_cur) - 1;
  return highest > STDERR_FILENO ? highest : -1;
}

ChannelPage ChannelPage::create(TimePoint now) {
  Fd fd = shared_memory();
  auto page = mapped(fd.get());
  page->magic = DDPRUN_CHANNEL_MAGIC;
  page->version = DDPRUN_CHANNEL_VERSION;
  page->bytes = DDPRUN_CHANNEL_BYTES;
  return {std::move(page), std::move(fd), now};
}

TimePoint ChannelPage::clamped(std::uint64_t time_ns, TimePoint now) const {
  return std::clamp(since_boot(time_ns), made_, std::max(made_, now));
}

void ChannelPage::read(const ddprun_channel_record& record, LastValue& last, TimePoint now) const {
  ddprun_channel_record seen;
  for (int i = 0; i < kReads; ++i) {
    if (!ddprun_channel_read_(&record, &seen)) continue;
    last = {clamped(seen.time_ns, now), seen.first, seen.second};
    return;
  }
}

void ChannelPage::read_beat(TimePoint now) {
  ddprun_channel_beat_record seen;
  for (int i = 0; i < kReads; ++i) {
    if (!ddprun_channel_read_beat_(&page_->beat, &seen)) continue;
    const TimePoint at = clamped(seen.time_ns, now);
    beat_ = beat_in(seen, at, at - made_);
    return;
  }
}

void ChannelPage::read_times(TimePoint now) {
  ddprun_channel_phase_times seen;
  for (int i = 0; i < kReads; ++i) {
    if (!ddprun_channel_read_times_(&page_->phase_times, &seen)) continue;
    PhaseTimes& out = times_.emplace();
    out.attached = clamped(seen.attached_ns, now);
    out.phase = phase_of(seen.phase);
    out.since = clamped(seen.time_ns, now);
    if (seen.work_ns != 0) out.work = std::max(clamped(seen.work_ns, now), out.attached);
    const auto most = static_cast<std::uint64_t>(std::chrono::nanoseconds(out.since - made_).count());
    for (std::size_t i = DDPRUN_PHASE_LOADING; i < out.spent.size(); ++i)
      out.spent[i] = std::chrono::nanoseconds(std::min(seen.spent_ns[i - DDPRUN_PHASE_LOADING], most));
    return;
  }
}

void ChannelPage::read_outlook() {
  ddprun_channel_outlook seen;
  for (int i = 0; i < kReads; ++i) {
    if (!ddprun_channel_read_outlook_(&page_->outlook, &seen)) continue;
    loss_ = std::bit_cast<double>(seen.loss);
    if (!std::isfinite(*loss_)) loss_.reset();
    total_steps_.reset();
    if (seen.total_steps > 0) total_steps_ = seen.total_steps;
    return;
  }
}

Progress ChannelPage::progress(TimePoint now) {
  read(page_->step, step_, now);
  read(page_->phase, phase_, now);
  read(page_->snapshot, snapshot_, now);
  read(*reinterpret_cast<const ddprun_channel_record*>(page_->snapshot.unused), file_, now);  // half of one
  read(page_->throughput, throughput_, now);
  read(page_->first_step, first_step_, now);
  read_beat(now);
  read_times(now);
  read_outlook();
  Progress out;
  out.beat = beat_;
  out.times = times_;
  const std::optional<TimePoint> beat_at = beat_ ? std::optional(beat_->at) : std::nullopt;
  out.at = std::max({step_.at, phase_.at, snapshot_.at, beat_at});  // none is less than any
  if (phase_.at) out.phase = phase_of(phase_.first);
  out.phase_at = phase_.at;
  out.step_at = step_.at;
  if (step_.at) out.step = step_.first, out.steps_done = step_.second;
  if (first_step_.at) out.first_step = first_step_.first, out.first_step_at = first_step_.at;
  if (snapshot_.at) out.snapshot_step = snapshot_.first, out.snapshot_at = snapshot_.at;
  out.snapshot_bytes = snapshot_.second;
  if (file_.at) out.file_step = file_.first;
  const double speed = std::bit_cast<double>(throughput_.first);
  if (throughput_.at && std::isfinite(speed) && speed >= 0) out.samples_per_second = speed;
  out.loss = loss_;
  out.total_steps = total_steps_;
  const std::uint32_t inferred = __atomic_load_n(&page_->inferred, __ATOMIC_RELAXED);
  out.inferred = inferred >= kByWatch && inferred <= kByWatchToAct;
  out.only_seen = inferred == kByWatchToSee;
  out.unasked = inferred == kByWatchToAct;
  return out;
}

std::optional<int> ChannelPage::new_notice(TimePoint now) {
  const auto before = notice_.at;
  read(page_->notice, notice_, now);
  if (notice_.at == before || notice_.first == 0 || notice_.first >= NSIG) return {};
  return static_cast<int>(notice_.first);
}

bool ChannelPage::may_park() const { return __atomic_load_n(&page_->may_park, __ATOMIC_ACQUIRE) == 1; }

bool ChannelPage::is_parked() const {
  return may_park() &&
         __atomic_load_n(&page_->parked, __ATOMIC_ACQUIRE) == __atomic_load_n(&page_->seated, __ATOMIC_ACQUIRE) + 1;
}

bool ChannelPage::seat(const std::vector<std::string>& environment, TimePoint now) {
  std::string place;
  for (const std::string& entry : environment) place += entry + '\0';
  if (place.size() > DDPRUN_PLACE_BYTES) return false;
  std::memcpy(page_->place, place.data(), place.size());
  page_->place_bytes = static_cast<std::uint32_t>(place.size());
  // What the worker reported of the last round; while it waits nobody else writes.
  std::memset(&page_->step, 0, offsetof(ddprun_channel_page, request) - offsetof(ddprun_channel_page, step));
  std::memset(&page_->notice, 0, sizeof page_->notice);
  std::memset(&page_->beat, 0, sizeof page_->beat);
  std::memset(&page_->phase_times, 0, sizeof page_->phase_times);
  std::memset(&page_->first_step, 0, sizeof page_->first_step);
  std::memset(&page_->outlook, 0, sizeof page_->outlook);
  made_ = now;
  step_ = phase_ = snapshot_ = file_ = throughput_ = notice_ = first_step_ = {};
  beat_.reset();
  times_.reset();
  loss_.reset();
  total_steps_.reset();
  ddprun_channel_write_(&page_->request, DDPRUN_REQUEST_NONE, 0);
  __atomic_add_fetch(&page_->seated, 1u, __ATOMIC_RELEASE);
  syscall(SYS_futex, &page_->seated, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return true;
}

bool ChannelPage::attached() const { return __atomic_load_n(&page_->attached, __ATOMIC_ACQUIRE) != 0; }

// A main thread's id is its process's.
// A script that does not know of the channel is stopped as any: Ctrl-C is SIGINT, and its wrapper is the rank.
pid_t ChannelPage::owner() const {
  if (const auto by = __atomic_load_n(&page_->inferred, __ATOMIC_RELAXED); by == kByWatchToSee || by == kByWatchToAct)
    return 0;
  const std::uint32_t* const word = owner_word(*page_);
  return word ? static_cast<pid_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) & FUTEX_TID_MASK) : 0;
}

void ChannelPage::request_save_at(std::uint64_t step) {
  ddprun_channel_write_(&page_->request, DDPRUN_REQUEST_SAVE, step);
}

void ChannelPage::request_snapshot_at(std::uint64_t step) {
  ddprun_channel_record now;
  const bool ends = ddprun_channel_read_(&page_->request, &now) &&
                    (now.first == DDPRUN_REQUEST_SAVE || now.first == DDPRUN_REQUEST_LEAVE);
  if (!ends) ddprun_channel_write_(&page_->request, DDPRUN_REQUEST_SNAPSHOT, step);
}

void ChannelPage::request_leave_without_saving() { ddprun_channel_write_(&page_->request, DDPRUN_REQUEST_LEAVE, 0); }

}  // namespace ddprun::agent
