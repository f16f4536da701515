#include "agent/desk/rank_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <asio/post.hpp>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

using Piece = KeptOutput::Piece;

constexpr std::size_t kPieceMax =
    std::size_t{64} * 1024;  // of a stream, in one answer: as JSON it may be six times that
constexpr std::size_t kAskedMax = 64;
constexpr std::chrono::milliseconds kLookAgain{100};
constexpr std::chrono::seconds kWaitLimit{4}, kFileLimit{2};

std::string random_id() {
  std::random_device random;
  return std::to_string(random()) + "-" + std::to_string(random());
}

std::string read_at(int fd, std::uint64_t begin, std::size_t most) {
  std::string bytes(most, '\0');
  const ssize_t size = pread(fd, bytes.data(), most, static_cast<off_t>(begin));
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return bytes;
}

// A part ends with a whole character of UTF-8, if it has one: the rest comes with the next.
std::size_t whole_characters(const std::string& bytes) {
  constexpr unsigned kFollows = 0x80, kFirstOfFour = 0xF0, kFirstOfThree = 0xE0, kFirstOfTwo = 0xC0;
  for (std::size_t back = 1; back <= std::min<std::size_t>(bytes.size(), 4); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & kFirstOfTwo) == kFollows) continue;
    const std::size_t wanted = byte >= kFirstOfFour ? 4 : byte >= kFirstOfThree ? 3 : byte >= kFirstOfTwo ? 2 : 1;
    return back < wanted && back < bytes.size() ? bytes.size() - back : bytes.size();
  }
  return bytes.size();
}

bool is_file(const KeptOutput::Stream& stream) { return !stream.kept && !stream.file.empty(); }
bool has_file(const KeptOutput::Worker& worker) { return is_file(worker.out) || is_file(worker.err); }

void add(LogAnswer& answer, const char* stream, std::uint64_t begin, Piece piece) {
  const std::size_t whole = whole_characters(piece.bytes);
  piece.end -= piece.bytes.size() - whole;
  piece.bytes.resize(whole);
  answer.more = answer.more || piece.more;
  if (!piece.bytes.empty()) answer.parts.push_back({stream, std::move(piece.bytes), piece.begin - begin});
}

}  // namespace

Piece read_log_file(const std::filesystem::path& file, std::optional<std::uint64_t> begin, std::size_t most) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat now {};
  if (!fd || fstat(fd.get(), &now) != 0 || !S_ISREG(now.st_mode)) return {};
  const auto size = static_cast<std::uint64_t>(now.st_size);
  const bool in_midst = !begin && size > KeptOutput::kBytesMax;
  Piece out{.begin = begin && *begin <= size ? *begin : in_midst ? size - KeptOutput::kBytesMax : 0};
  out.bytes = read_at(fd.get(), out.begin, most);
  out.end = out.begin + out.bytes.size();
  out.more = out.end < size;
  const std::size_t line = in_midst ? out.bytes.find('\n') : out.bytes.npos;
  if (line == out.bytes.npos) return out;
  out.bytes.erase(0, line + 1);
  out.begin += line + 1;
  return out;
}

struct RankOutput::Owner {
  std::mutex mutex;
  RankOutput* self;
};

RankOutput::RankOutput(asio::io_context& io, std::string host, std::shared_ptr<const KeptOutput> kept,
                       Complete complete)
    : io_(io),
      host_(std::move(host)),
      id_(random_id()),
      kept_(std::move(kept)),
      owner_(std::make_shared<Owner>()),
      complete_(std::move(complete)) {
  owner_->self = this;
}

RankOutput::~RankOutput() {
  const std::lock_guard lock(owner_->mutex);
  owner_->self = nullptr;
}

void RankOutput::answer(const LogRequest& request, Reply reply) {
  if (asked_.size() >= kAskedMax)
    return reply({.problem = "too many ask for the output of ranks on " + host_, .passes = true});
  const int serial = ++last_;
  asked_.emplace(serial, Asked{request, std::move(reply), Clock::now() + (request.waits ? kWaitLimit : kFileLimit),
                               std::make_unique<asio::steady_timer>(io_)});
  look(serial);
}

void RankOutput::look_later(int serial, TimePoint at) {
  asio::steady_timer& timer = *asked_.at(serial).timer;
  timer.expires_at(at);
  timer.async_wait([this, serial](const asio::error_code& error) {
    if (!error) look(serial);
  });
}

void RankOutput::look(int serial) {
  Asked& asked = asked_.at(serial);
  const auto local_rank = kept_ ? kept_->local_rank_of(asked.request.rank) : std::nullopt;
  if (!local_rank)
    return reply(serial,
                 {.problem = "rank " + std::to_string(asked.request.rank) + " is just started", .passes = true});
  const KeptOutput::Worker worker = kept_->worker(*local_rank);
  const bool known = worker.out.kept || worker.err.kept || has_file(worker);
  const std::string rank = "rank " + std::to_string(worker.rank);
  if (!known)
    return reply(serial, {.problem = "the output of " + rank + " goes where that of ddprun on " + host_ +
                                     " goes, and is not kept; --log-dir DIR keeps it"});
  if (asked.reads)  // the file system has not answered
    return reply(serial,
                 {.problem = "the log files of " + rank + " on " + host_ + " cannot be read now", .passes = true});
  if (!read_files(serial, worker, position_of(asked.request, worker))) finish(serial, {});
}

LogPosition RankOutput::position_of(const LogRequest& request, const KeptOutput::Worker& worker) const {
  if (request.from.agent != id_) return {.agent = id_, .round = worker.round};
  LogPosition out = request.from;
  if (std::exchange(out.round, worker.round) != worker.round) out.out = out.err = 0;  // other files
  return out;
}

RankOutput::Files RankOutput::read(const KeptOutput::Worker& worker, const LogPosition& from) {
  Files files;
  if (is_file(worker.out)) files.out = read_log_file(worker.out.file, from.out, kPieceMax);
  if (is_file(worker.err)) files.err = read_log_file(worker.err.file, from.err, kPieceMax);
  return files;
}

void RankOutput::worker_ended(int round, int rank) {
  std::vector<int> waiting;
  for (const auto& [serial, asked] : asked_)
    if (asked.request.rank == rank && !asked.reads) waiting.push_back(serial);
  if (waiting.empty()) return;
  if (complete_) complete_(round, rank);
  for (const int serial : waiting) {
    Asked& asked = asked_.at(serial);
    asked.request.waits = false;
    const auto local_rank = kept_->local_rank_of(rank);
    const KeptOutput::Worker worker = local_rank ? kept_->worker(*local_rank) : KeptOutput::Worker{};
    const auto files = [worker, from = position_of(asked.request, worker)] { return read(worker, from); };
    if (!has_file(worker))
      finish(serial, {});
    else if (const auto last = file_thread().ask("the workers' log files", files))
      finish(serial, *last);
  }
}

FileThread& RankOutput::file_thread() {
  if (!thread_) thread_.emplace([](const std::string&) {}, FileThread::Options{.last_write_limit = Duration::zero()});
  return *thread_;
}

// False: there are none.
bool RankOutput::read_files(int serial, const KeptOutput::Worker& worker, const LogPosition& from) {
  if (!has_file(worker)) return false;
  Asked& asked = asked_.at(serial);
  asked.reads = true;
  look_later(serial, std::max(asked.until, Clock::now() + kFileLimit));
  const auto work = [worker, from, serial, owner = owner_] {
    Files files = read(worker, from);
    const std::lock_guard lock(owner->mutex);
    if (owner->self)
      asio::post(owner->self->io_, [owner, serial, files = std::move(files)] {
        if (owner->self && owner->self->asked_.contains(serial)) owner->self->finish(serial, files);
      });
    return std::string();
  };
  if (!file_thread().call("the workers' log files", work)) look_later(serial, Clock::now());
  return true;
}

void RankOutput::finish(int serial, const Files& files) {
  Asked& asked = asked_.at(serial);
  asked.reads = false;
  const auto local_rank = kept_->local_rank_of(asked.request.rank);
  if (!local_rank) return look(serial);
  const KeptOutput::Worker worker = kept_->worker(*local_rank);
  LogAnswer answer{.host = host_, .round = worker.round, .next = position_of(asked.request, worker)};
  const bool first = asked.request.from.agent != id_;
  if (worker.out.kept || worker.err.kept) {
    Piece piece = kept_->read(*local_rank, answer.next.kept, kPieceMax);
    const std::uint64_t begin = first ? piece.begin : answer.next.kept;
    add(answer, worker.out.kept && worker.err.kept ? "" : worker.out.kept ? "stdout" : "stderr", begin, piece);
    answer.next.kept = piece.begin + (answer.parts.empty() ? 0 : answer.parts.back().bytes.size());
  }
  const auto add_file = [&](const char* stream, std::optional<std::uint64_t>& at, const std::optional<Piece>& piece) {
    if (!piece) return;
    const std::size_t before = answer.parts.size();
    add(answer, stream, piece->begin, *piece);
    at = piece->begin + (answer.parts.size() > before ? answer.parts.back().bytes.size() : 0);
  };
  add_file("stdout", answer.next.out, files.out);
  add_file("stderr", answer.next.err, files.err);
  if (answer.parts.empty() && asked.request.waits && Clock::now() < asked.until)
    return look_later(serial, Clock::now() + kLookAgain);
  reply(serial, answer);
}

void RankOutput::reply(int serial, const LogAnswer& answer) {
  auto asked = asked_.extract(serial);
  if (!asked.empty()) asked.mapped().reply(answer);
}

}  // namespace ddprun::agent
