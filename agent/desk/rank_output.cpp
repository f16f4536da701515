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
#include <nlohmann/json.hpp>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kPieceMax = std::size_t{64} * 1024;       // of a stream, in one answer
constexpr std::size_t kLastPieceMax = std::size_t{128} * 1024;  // nobody may be there for a further one
constexpr std::size_t kReadersMax = 64;
constexpr std::chrono::seconds kWaitLimit{4}, kFileLimit{2};

std::string random_id() {
  std::random_device random;
  return std::to_string(random()) + "-" + std::to_string(random());
}

struct OpenLog {
  Fd fd;
  std::uint64_t inode = 0, size = 0;
};

// Empty: it is no regular file, or cannot be opened.
std::optional<OpenLog> open_log(const std::filesystem::path& file) {
  OpenLog out{Fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC))};
  struct stat now {};
  if (!out.fd || fstat(out.fd.get(), &now) != 0 || !S_ISREG(now.st_mode)) return {};
  out.inode = now.st_ino;
  out.size = static_cast<std::uint64_t>(now.st_size);
  return out;
}

FilePiece read_from(const OpenLog& log, std::uint64_t offset, std::size_t most) {
  FilePiece out{{log.inode, offset}};
  out.bytes.resize(most);
  const ssize_t size = pread(log.fd.get(), out.bytes.data(), most, static_cast<off_t>(offset));
  out.bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  out.more = offset + out.bytes.size() < log.size;
  return out;
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

// Messages between nodes are JSON: bytes that are no UTF-8 become U+FFFD before sizes are told.
std::string as_utf8(const std::string& bytes) {
  return parse_json(json_text(nlohmann::json(bytes))).get<std::string>();
}

// How many of the bytes are in it.
std::size_t add_part(LogAnswer& answer, const char* stream, const std::string& bytes, std::uint64_t left_out = 0) {
  const std::size_t whole = whole_characters(bytes);
  if (whole > 0) answer.parts.push_back({stream, as_utf8(bytes.substr(0, whole)), left_out});
  return whole;
}

bool is_file(const KeptOutput::Stream& stream) { return !stream.kept && !stream.file.empty(); }
bool has_file(const KeptOutput::Worker& worker) { return is_file(worker.out) || is_file(worker.err); }

}  // namespace

FilePiece read_log_file(const std::filesystem::path& file, const std::optional<FilePosition>& from, std::size_t most) {
  const auto log = open_log(file);
  if (!log) return {};
  if (from && from->file == log->inode) return read_from(*log, from->offset <= log->size ? from->offset : 0, most);
  if (from) {
    const auto before = open_log(file.string() + ".1");
    FilePiece rest = before && before->inode == from->file ? read_from(*before, from->offset, most) : FilePiece{};
    if (rest.bytes.empty()) return read_from(*log, 0, most);
    rest.more = true;
    return rest;
  }
  if (log->size <= KeptOutput::kBytesMax) return read_from(*log, 0, most);
  FilePiece last = read_from(*log, log->size - KeptOutput::kBytesMax, most);
  const std::size_t line = last.bytes.find('\n');
  if (line == last.bytes.npos) return last;
  last.bytes.erase(0, line + 1);
  last.begin.offset += line + 1;
  return last;
}

struct RankOutput::Owner {
  std::mutex mutex;
  RankOutput* self;
};

RankOutput::RankOutput(asio::io_context& io, std::string host, std::shared_ptr<const KeptOutput> kept,
                       Complete complete)
    : io_(io),
      host_(std::move(host)),
      kept_(std::move(kept)),
      owner_(std::make_shared<Owner>()),
      complete_(std::move(complete)) {
  owner_->self = this;
}

RankOutput::~RankOutput() {
  const std::lock_guard lock(owner_->mutex);
  owner_->self = nullptr;
}

void RankOutput::read(const LogRequest& request, Reply reply) {
  if (id_.empty()) id_ = random_id();
  if (readers_.size() >= kReadersMax)
    return reply({.problem = "too many read the output of ranks on " + host_, .passes = true});
  const int serial = ++last_;
  readers_.emplace(serial, Reader{request, std::move(reply), Clock::now() + (request.waits ? kWaitLimit : kFileLimit),
                                  std::make_unique<asio::steady_timer>(io_)});
  try_reading(serial);
}

// The timer may be due when somebody else has replied.
void RankOutput::try_later(int serial, TimePoint at) {
  asio::steady_timer& timer = *readers_.at(serial).timer;
  timer.expires_at(at);
  timer.async_wait([this, serial](const asio::error_code& error) {
    if (!error && readers_.contains(serial)) try_reading(serial);
  });
}

void RankOutput::try_reading(int serial) {
  const Reader& reader = readers_.at(serial);
  const std::string rank = "rank " + std::to_string(reader.request.rank);
  const LogAnswer not_kept{.problem = "the output of " + rank + " goes where that of ddprun on " + host_ +
                                      " goes, and is not kept; --log-dir DIR keeps it"};
  if (!kept_) return reply(serial, not_kept);
  const auto local_rank = kept_->local_rank_of(reader.request.rank);
  if (!local_rank) return reply(serial, {.problem = rank + " is just started", .passes = true});
  const KeptOutput::Worker worker = kept_->worker(*local_rank);
  if (!worker.out.kept && !worker.err.kept && !has_file(worker)) return reply(serial, not_kept);
  if (reader.awaits_files)
    return reply(serial,
                 {.problem = "the log files of " + rank + " on " + host_ + " cannot be read now", .passes = true});
  if (has_file(worker)) return begin_files(serial, worker);
  finish(serial, {});
}

// Of another agent's or local rank's output only the newest round is new.
LogPosition RankOutput::position_of(const LogRequest& request, int local_rank) const {
  if (request.from.agent == id_ && request.from.local_rank == local_rank) return request.from;
  const KeptOutput::Begin begin = kept_->begin(local_rank);
  return {.agent = id_, .local_rank = local_rank, .kept = request.from.agent.empty() ? begin.kept : begin.round};
}

RankOutput::Files RankOutput::read_files(const KeptOutput::Worker& worker, const LogPosition& from) {
  Files files;
  if (is_file(worker.out)) files.out = read_log_file(worker.out.file, from.out, kPieceMax);
  if (is_file(worker.err)) files.err = read_log_file(worker.err.file, from.err, kPieceMax);
  return files;
}

void RankOutput::worker_ended(int round, int rank) {
  std::vector<int> waiting;
  for (const auto& [serial, reader] : readers_)
    if (reader.request.rank == rank) waiting.push_back(serial);
  const auto local_rank = waiting.empty() ? std::nullopt : kept_->local_rank_of(rank);
  if (!local_rank) return;
  if (complete_) complete_(round, rank);
  const KeptOutput::Worker worker = kept_->worker(*local_rank);
  for (const int serial : waiting) {
    Reader& reader = readers_.at(serial);
    reader.is_last = true;
    const LogPosition from = position_of(reader.request, *local_rank);
    const auto read_last = [worker, from] { return read_files(worker, from); };
    if (!has_file(worker))
      finish(serial, {});
    else if (const auto last = file_thread().ask("the workers' log files", read_last))
      finish(serial, *last);
  }
}

FileThread& RankOutput::file_thread() {
  if (!thread_) thread_.emplace([](const std::string&) {}, FileThread::Options{.last_write_limit = Duration::zero()});
  return *thread_;
}

void RankOutput::begin_files(int serial, const KeptOutput::Worker& worker) {
  Reader& reader = readers_.at(serial);
  reader.awaits_files = true;
  try_later(serial, std::max(reader.until, Clock::now() + kFileLimit));
  const LogPosition from = position_of(reader.request, *kept_->local_rank_of(reader.request.rank));
  const auto work = [worker, from, serial, owner = owner_] {
    Files files = read_files(worker, from);
    const std::lock_guard lock(owner->mutex);
    if (owner->self)
      asio::post(owner->self->io_, [owner, serial, files = std::move(files)] {
        if (owner->self && owner->self->readers_.contains(serial)) owner->self->finish(serial, files);
      });
    return std::string();
  };
  if (!file_thread().call("the workers' log files", work)) try_later(serial, Clock::now());
}

void RankOutput::finish(int serial, const Files& files) {
  Reader& reader = readers_.at(serial);
  reader.awaits_files = false;
  const auto local_rank = kept_->local_rank_of(reader.request.rank);
  if (!local_rank) return try_reading(serial);
  const KeptOutput::Worker worker = kept_->worker(*local_rank);
  LogAnswer answer{.host = host_, .round = worker.round, .next = position_of(reader.request, *local_rank)};
  if (worker.out.kept || worker.err.kept) {
    const char* const stream = worker.out.kept && worker.err.kept ? "" : worker.out.kept ? "stdout" : "stderr";
    const auto piece = kept_->read(*local_rank, answer.next.kept, reader.is_last ? kLastPieceMax : kPieceMax);
    const bool begins = reader.request.from.agent.empty();
    answer.more = piece.more;
    answer.next.kept = piece.begin + add_part(answer, stream, piece.bytes, begins ? 0 : piece.begin - answer.next.kept);
  }
  const auto add_file = [&](const char* stream, std::optional<FilePosition>& next,
                            const std::optional<FilePiece>& piece) {
    if (!piece) return;
    answer.more = answer.more || piece->more;
    next = FilePosition{piece->begin.file, piece->begin.offset + add_part(answer, stream, piece->bytes)};
  };
  add_file("stdout", answer.next.out, files.out);
  add_file("stderr", answer.next.err, files.err);
  if (answer.parts.empty() && reader.request.waits && !reader.is_last && Clock::now() < reader.until)
    return try_later(serial, Clock::now() + kTryAgain);
  reply(serial, answer);
}

void RankOutput::reply(int serial, const LogAnswer& answer) {
  auto reader = readers_.extract(serial);
  if (!reader.empty()) reader.mapped().reply(answer);
}

}  // namespace ddprun::agent
