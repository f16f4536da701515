// A data set as a folder of shards: files of records (any bytes), each with an index and checksums, and a manifest that
// names them. Format: docs/sharded-datasets.md.
//
//   ShardWriter writer("corpus", {.shard_bytes = 64 << 20});
//   for (const auto& text : texts) writer.add(text);
//   writer.finish();
//
//   const ShardedDataset data("corpus");
//   ShardSampler sampler(data.shard_records(), {.rank = rank, .world_size = world_size});
//   const DataLoader loader([&](std::int64_t index, SampleRng&) { return parse(data.read(index)); }, ...);
//
// A shard is opened when one of its records is first read, so a rank reads the indexes and records of its shards only.
//
// Errors are exceptions whose what() is one sentence for a person, and names the file: missing, torn, altered, disk
// full.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

inline constexpr std::int64_t kRecordBytesMax = std::int64_t{1} << 30;
inline constexpr std::int64_t kShardRecordsMax = std::int64_t{1} << 26;  // an index of 1 GiB
inline constexpr std::int64_t kShardsMax = std::int64_t{1} << 20;
inline constexpr std::size_t kOpenShardsMax = 64;  // by one ShardedDataset: descriptors, and indexes in memory

struct ShardWriterOptions {
  // A shard ends with the record that reaches one of these. Tens of MB give large reads and still many shards per rank.
  std::int64_t shard_bytes = std::int64_t{64} << 20;
  std::int64_t shard_records = kShardRecordsMax;
};

// Writes a data set into a folder, which it creates if necessary. The manifest comes last and whole: a folder without
// one is not a data set, so a writer that ended early leaves none. Not thread-safe.
class ShardWriter {
 public:
  // Throws if the folder already has a data set.
  explicit ShardWriter(std::string folder, ShardWriterOptions options = {});
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  void add(std::string_view record);
  // Everything is on disk when it returns. Nothing may be added afterwards.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads by pread: a file that changes meanwhile gives an exception, not a SIGBUS. Thread-safe.
class ShardedDataset {
 public:
  // Reads the manifest only.
  explicit ShardedDataset(std::string folder);
  ~ShardedDataset();
  ShardedDataset(const ShardedDataset&) = delete;
  ShardedDataset& operator=(const ShardedDataset&) = delete;

  std::int64_t size() const;  // records
  // The number of records in each shard; record 0 of shard s + 1 follows the last one of shard s.
  const std::vector<std::int64_t>& shard_records() const;
  // A record's bytes, checked against its checksum.
  std::string read(std::int64_t index) const;
  // Reads all records; throws at the first error.
  void verify() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddprun
#pragma GCC visibility pop
