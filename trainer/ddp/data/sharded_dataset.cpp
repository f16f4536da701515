#include "ddprun/sharded_dataset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/random_name.h"

namespace ddprun {
namespace {

constexpr std::string_view kHead = "DDPSHRD1", kTail = "DDPSHEND";
constexpr std::size_t kPlaceBytes = 16, kTrailerBytes = 32;
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::int64_t kManifestBytesMax = std::int64_t{256} << 20;
constexpr const char* kFormat = "ddprun-shards";

struct Shard {
  std::string file;
  std::int64_t records = 0;
  std::int64_t bytes = 0;
  std::uint32_t index_crc = 0;
};

// One entry of a shard's index.
struct RecordPlace {
  std::uint64_t offset = 0;  // from the file's start
  std::uint32_t size = 0, crc = 0;
};

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <class Number>
void put(std::string& to, Number number) {  // little-endian
  for (std::size_t i = 0; i < sizeof number; ++i) to.push_back(static_cast<char>(number >> 8 * i & 0xff));
}

template <class Number>
Number get(std::string_view from, std::size_t at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i)
    number |= static_cast<Number>(static_cast<unsigned char>(from[at + i])) << 8 * i;
  return number;
}

Error unreadable(const std::string& path, const std::string& why) {
  return Error("cannot read " + path, why, "Copy it again from where it came from.");
}

Error unwritable(const std::string& path) {
  return Error("cannot write " + path, std::strerror(errno), "Free some space there, or name another folder.");
}

// Throws if the file has become too short.
std::string read_at(int fd, std::int64_t offset, std::size_t size, const std::string& path) {
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = pread(fd, bytes.data() + done, size - done, offset + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw unreadable(path, std::strerror(errno));
    if (count == 0) throw unreadable(path, "it is cut short");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

Fd open_to_read(const std::string& path) {
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw unreadable(path, std::strerror(errno));
  return file;
}

std::int64_t size_of(const Fd& file, const std::string& path) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw unreadable(path, std::strerror(errno));
  return status.st_size;
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw unwritable(path);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

Fd create(const std::string& path) {
  Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) throw unwritable(path);
  return file;
}

void sync(int fd, const std::string& path) {
  if (fsync(fd) != 0 && errno != EINVAL) throw unwritable(path);  // some file systems cannot sync a folder
}

std::string manifest_path(const std::string& folder) { return folder + "/manifest.json"; }

std::string shard_name(std::size_t number) {
  const std::string digits = std::to_string(number);
  return "shard-" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits + ".bin";
}

Shard shard_of(const nlohmann::json& line, const std::string& path) {
  Shard shard{line.at("file"), line.at("records"), line.at("bytes"), line.at("index_crc32")};
  if (shard.file.empty() || shard.file.find('/') != std::string::npos)
    throw unreadable(path, "it names a shard '" + shard.file + "', which is not in its folder");
  if (shard.records < 0 || shard.records > kShardRecordsMax || shard.bytes < 0)
    throw unreadable(path, "it gives " + shard.file + " " + std::to_string(shard.records) + " records in " +
                               std::to_string(shard.bytes) + " bytes");
  return shard;
}

std::vector<Shard> read_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT)
    throw Error("cannot read the data set " + folder, "there is no manifest.json in it",
                "Its writer may have ended early: write it again.");
  const Fd file = open_to_read(path);
  const std::int64_t bytes = size_of(file, path);
  if (bytes > kManifestBytesMax) throw unreadable(path, "it has " + std::to_string(bytes) + " bytes");
  try {
    const auto json = nlohmann::json::parse(read_at(file.get(), 0, static_cast<std::size_t>(bytes), path));
    if (json.at("format") != kFormat || json.at("version") != 1)
      throw unreadable(path, "it is not a manifest of shards in version 1");
    std::vector<Shard> shards;
    std::int64_t records = 0;
    for (const auto& line : json.at("shards")) {
      if (shards.size() == static_cast<std::size_t>(kShardsMax)) throw unreadable(path, "it names too many shards");
      records += shards.emplace_back(shard_of(line, path)).records;
    }
    if (json.at("records") != records) throw unreadable(path, "its shards do not have as many records as it says");
    return shards;
  } catch (const nlohmann::json::exception&) {
    throw unreadable(path, "it is damaged, or not a manifest");
  }
}

// An open shard, with its verified index in memory.
class OpenShard {
 public:
  OpenShard(std::string path, const Shard& shard) : path_(std::move(path)), file_(open_to_read(path_)) {
    const std::int64_t bytes = size_of(file_, path_);
    if (bytes != shard.bytes)
      throw unreadable(path_, "it has " + std::to_string(bytes) + " bytes and the manifest says " +
                                  std::to_string(shard.bytes) + ": it is damaged, or belongs to another data set");
    const auto index_bytes = static_cast<std::size_t>(shard.records) * kPlaceBytes;
    data_end_ = bytes - static_cast<std::int64_t>(index_bytes + kTrailerBytes);
    if (data_end_ < static_cast<std::int64_t>(kHead.size())) throw unreadable(path_, "it is too short for its records");
    index_ = read_at(file_.get(), data_end_, index_bytes, path_);
    const std::string trailer =
        read_at(file_.get(), bytes - static_cast<std::int64_t>(kTrailerBytes), kTrailerBytes, path_);
    if (read_at(file_.get(), 0, kHead.size(), path_) != kHead || !trailer.ends_with(kTail) ||
        get<std::uint64_t>(trailer, 0) != static_cast<std::uint64_t>(data_end_) ||
        get<std::uint64_t>(trailer, 8) != static_cast<std::uint64_t>(shard.records))
      throw unreadable(path_, "it is damaged, or not a shard");
    if (crc_of(index_) != shard.index_crc || get<std::uint32_t>(trailer, 16) != shard.index_crc)
      throw unreadable(path_, "its index is damaged, or belongs to another data set");
  }

  std::string read(std::int64_t record) const {
    const std::size_t at = static_cast<std::size_t>(record) * kPlaceBytes;
    const RecordPlace entry{get<std::uint64_t>(index_, at), get<std::uint32_t>(index_, at + 8),
                            get<std::uint32_t>(index_, at + 12)};
    const auto data_end = static_cast<std::uint64_t>(data_end_);
    if (entry.offset > data_end || entry.size > data_end - entry.offset)
      throw unreadable(path_, "its index points outside the file");
    std::string bytes = read_at(file_.get(), static_cast<std::int64_t>(entry.offset), entry.size, path_);
    if (crc_of(bytes) != entry.crc)
      throw unreadable(path_, "its record " + std::to_string(record) + " is damaged: the checksum does not match");
    return bytes;
  }

 private:
  std::string path_;
  Fd file_;
  std::int64_t data_end_ = 0;
  std::string index_;
};

}  // namespace

struct ShardWriter::State {
  std::string folder;
  ShardWriterOptions options;
  std::vector<Shard> shards;
  Fd file;  // of shards.back(), while it is being written
  std::string buffer, index;
  bool closed = false;  // finished, or a write has failed: then the disk differs from our state

  void require_open() const {
    if (closed)
      throw Error("cannot go on with the data set " + folder, "it is finished, or an earlier write has failed",
                  "Write it again, into an empty folder.");
  }
  std::string path() const { return folder + "/" + shards.back().file; }

  void append(std::string_view bytes) {
    buffer += bytes;
    shards.back().bytes += static_cast<std::int64_t>(bytes.size());
    if (buffer.size() < kBufferBytes) return;
    write_all(file.get(), buffer, path());
    buffer.clear();
  }

  void begin_shard() {
    if (shards.size() == static_cast<std::size_t>(kShardsMax))
      throw Error("cannot write the data set " + folder,
                  "it would have more than " + std::to_string(kShardsMax) + " shards", "Use larger shards.");
    shards.push_back({.file = shard_name(shards.size())});
    file = create(path());
    index.clear();
    append(kHead);
  }

  void end_shard() {
    Shard& shard = shards.back();
    shard.index_crc = crc_of(index);
    std::string trailer;
    put(trailer, static_cast<std::uint64_t>(shard.bytes));
    put(trailer, static_cast<std::uint64_t>(shard.records));
    put(trailer, shard.index_crc);
    put(trailer, std::uint32_t{0});
    trailer += kTail;
    append(index);
    append(trailer);
    write_all(file.get(), buffer, path());
    buffer.clear();
    sync(file.get(), path());
    file.reset();
  }

  nlohmann::ordered_json manifest() const {
    auto lines = nlohmann::ordered_json::array();
    std::int64_t records = 0;
    for (const auto& shard : shards) {
      lines.push_back(
          {{"file", shard.file}, {"records", shard.records}, {"bytes", shard.bytes}, {"index_crc32", shard.index_crc}});
      records += shard.records;
    }
    return {{"format", kFormat}, {"version", 1}, {"records", records}, {"shards", std::move(lines)}};
  }
};

ShardWriter::ShardWriter(std::string folder, ShardWriterOptions options)
    : state_(new State{std::move(folder), options, {}, {}, {}, {}, false}) {
  if (options.shard_bytes < 1 || options.shard_records < 1 || options.shard_records > kShardRecordsMax)
    throw Error("cannot write the data set " + state_->folder,
                "shards of " + std::to_string(options.shard_bytes) + " bytes and " +
                    std::to_string(options.shard_records) + " records are impossible");
  if (mkdir(state_->folder.c_str(), 0777) != 0 && errno != EEXIST) throw unwritable(state_->folder);
  if (access(manifest_path(state_->folder).c_str(), F_OK) == 0)
    throw Error("cannot write the data set " + state_->folder, "there is one in it already",
                "Remove it, or name another folder.");
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::add(std::string_view record) {
  State& s = *state_;
  if (record.size() > static_cast<std::size_t>(kRecordBytesMax))
    throw Error("cannot add a record of " + std::to_string(record.size()) + " bytes to the data set " + s.folder,
                "at most " + std::to_string(kRecordBytesMax) + " are possible");
  s.require_open();
  s.closed = true;  // reset once all is done
  if (!s.file) s.begin_shard();
  Shard& shard = s.shards.back();
  put(s.index, static_cast<std::uint64_t>(shard.bytes));
  put(s.index, static_cast<std::uint32_t>(record.size()));
  put(s.index, crc_of(record));
  s.append(record);
  if (++shard.records == s.options.shard_records || shard.bytes >= s.options.shard_bytes) s.end_shard();
  s.closed = false;
}

void ShardWriter::finish() {
  State& s = *state_;
  s.require_open();
  s.closed = true;
  if (s.file) s.end_shard();
  const std::string path = manifest_path(s.folder), temporary = temporary_name(path);
  try {
    const Fd file = create(temporary);
    write_all(file.get(), s.manifest().dump(1) + "\n", temporary);
    sync(file.get(), temporary);
    if (std::rename(temporary.c_str(), path.c_str()) != 0) throw unwritable(path);
  } catch (const Error&) {
    unlink(temporary.c_str());
    throw;
  }
  const Fd folder(open(s.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw unwritable(s.folder);
  sync(folder.get(), s.folder);
}

struct ShardedDataset::State {
  struct CachedShard {
    std::shared_ptr<const OpenShard> shard;
    std::uint64_t last_use = 0;
  };

  std::string folder;
  std::vector<Shard> shards;
  std::vector<std::int64_t> shard_records;
  std::vector<std::int64_t> ends;  // end of each shard, as a record's index
  std::mutex mutex;
  std::map<std::size_t, CachedShard> cache;  // guarded by the mutex, as is `uses`
  std::uint64_t uses = 0;

  std::shared_ptr<const OpenShard> open_shard(std::size_t number) const {
    return std::make_shared<const OpenShard>(folder + "/" + shards[number].file, shards[number]);
  }

  // Opens under the lock, so that two threads that need the same shard read its index once.
  std::shared_ptr<const OpenShard> cached_shard(std::size_t number) {
    const std::lock_guard lock(mutex);
    auto found = cache.find(number);
    if (found == cache.end()) {
      auto opened = open_shard(number);
      if (cache.size() == kOpenShardsMax)
        cache.erase(std::min_element(cache.begin(), cache.end(), [](const auto& a, const auto& b) {
          return a.second.last_use < b.second.last_use;
        }));
      found = cache.emplace(number, CachedShard{std::move(opened), 0}).first;
    }
    found->second.last_use = ++uses;
    return found->second.shard;
  }
};

ShardedDataset::ShardedDataset(std::string folder) : state_(std::make_unique<State>()) {
  state_->shards = read_manifest(folder);
  state_->folder = std::move(folder);
  std::int64_t records = 0;
  for (const auto& shard : state_->shards) {
    state_->shard_records.push_back(shard.records);
    state_->ends.push_back(records += shard.records);
  }
}

ShardedDataset::~ShardedDataset() = default;

std::int64_t ShardedDataset::size() const { return state_->ends.empty() ? 0 : state_->ends.back(); }

const std::vector<std::int64_t>& ShardedDataset::shard_records() const { return state_->shard_records; }

std::string ShardedDataset::read(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw Error("cannot read record " + std::to_string(index) + " of the data set " + state_->folder,
                "it has " + std::to_string(size()));
  const auto& ends = state_->ends;
  const auto shard = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), index) - ends.begin());
  return state_->cached_shard(shard)->read(index - (ends[shard] - state_->shard_records[shard]));
}

void ShardedDataset::verify() const {
  for (std::size_t number = 0; number < state_->shards.size(); ++number) {
    const auto shard = state_->open_shard(number);
    for (std::int64_t record = 0; record < state_->shards[number].records; ++record) shard->read(record);
  }
}

}  // namespace ddprun
