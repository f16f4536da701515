#include "ddprun/sharded_dataset.h"

#include "tests/support/test.h"

namespace {

std::vector<std::string> example_records(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<std::string> result(count);
  for (auto& record : result) {
    record.resize(random() % 300);
    for (auto& byte : record) byte = static_cast<char>(random());
  }
  return result;
}

void write_data(const std::string& folder, const std::vector<std::string>& records, ShardWriterOptions options) {
  ShardWriter writer(folder, options);
  for (const auto& record : records) writer.add(record);
  writer.finish();
}

std::vector<std::string> read_data(const std::string& folder) {
  const ShardedDataset data(folder);
  std::vector<std::string> result;
  for (std::int64_t i = 0; i < data.size(); ++i) result.push_back(data.read(i));
  return result;
}

// What is wrong with the data set; empty where all can be read.
std::string error_text(const std::string& folder) {
  return test::error_text([&] { ShardedDataset(folder).verify(); });
}

}  // namespace

TEST_CASE("records come back as they were written, whatever the shards", "[shards]") {
  const auto records = example_records(60);
  const TempFolder folder;
  int number = 0;
  for (const ShardWriterOptions options :
       {ShardWriterOptions{}, ShardWriterOptions{.shard_bytes = 1000}, ShardWriterOptions{.shard_records = 1},
        ShardWriterOptions{.shard_records = 7}}) {
    const std::string place = folder / std::to_string(number++);
    write_data(place, records, options);
    CHECK(read_data(place) == records);
    CHECK(error_text(place).empty());
  }
  CHECK(ShardedDataset(folder / "0").shard_records() == std::vector<std::int64_t>{60});
  CHECK(ShardedDataset(folder / "2").shard_records() == std::vector<std::int64_t>(60, 1));
  CHECK(ShardedDataset(folder / "3").shard_records().back() == 60 % 7);
  write_data(folder / "none", {}, {});
  CHECK(ShardedDataset(folder / "none").size() == 0);
  write_data(folder / "empty", {"", "", ""}, {});
  CHECK(read_data(folder / "empty") == std::vector<std::string>(3));
}

// A page of the documentation holds this file, byte by byte.
TEST_CASE("a shard is laid out as its page says", "[shards]") {
  const TempFolder folder;
  write_data(folder / "data", {"abc", "123456789"}, {});
  const std::string shard = test::read_file(folder / "data" / "shard-000000.bin");
  using namespace std::string_literals;
  CHECK(shard ==
        "DDPSHRD1abc123456789"s
        "\x08\0\0\0\0\0\0\0\x03\0\0\0\xc2\x41\x24\x35"s
        "\x0b\0\0\0\0\0\0\0\x09\0\0\0\x26\x39\xf4\xcb"s
        "\x14\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"s
        "\xc0\x3b\x8e\xa0"s
        "\0\0\0\0DDPSHEND"s);
  CHECK_THAT(test::read_file(folder / "data" / "manifest.json"),
             Contains("\"format\": \"ddprun-shards\"") && Contains("\"records\": 2") && Contains("\"bytes\": 84") &&
                 Contains("\"index_crc32\": 2693675968"));
}

TEST_CASE("a rank opens only the shards whose records it reads", "[shards]") {
  const TempFolder folder;
  write_data(folder / "data", example_records(30), {.shard_records = 10});
  fs::remove(folder / "data" / "shard-000002.bin");
  const ShardedDataset data(folder / "data");
  CHECK_NOTHROW(data.read(19));
  CHECK_THROWS_WITH(data.read(20), Contains("shard-000002.bin: No such file or directory. Copy it again"));
  CHECK_THROWS_WITH(data.read(30), Contains("cannot read record 30 of the data set") && Contains("it has 30."));
  CHECK_THROWS_WITH(data.read(-1), Contains("cannot read record -1"));
}

TEST_CASE("more shards than may be open are read in any order, by many threads", "[shards]") {
  const TempFolder folder;
  const auto records = example_records(kOpenShardsMax + 20);
  write_data(folder / "data", records, {.shard_records = 1});
  const ShardedDataset data(folder / "data");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 1000; ++i) {
        const auto index = random() % records.size();
        if (data.read(static_cast<std::int64_t>(index)) != records[index]) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  std::size_t open = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(entry, gone).string().starts_with(folder.path().string())) ++open;
  }
  CHECK(open == kOpenShardsMax);
}

TEST_CASE("a flipped bit anywhere in a shard is noticed, and its file named", "[shards]") {
  const TempFolder folder;
  write_data(folder / "data", example_records(5), {});
  const std::string path = folder / "data" / "shard-000000.bin";
  const std::string bytes = test::read_file(path);
  for (std::size_t at = 0; at < bytes.size(); at += at < 8 || at > bytes.size() - 120 ? 1 : 5) {
    if (at >= bytes.size() - 12 && at < bytes.size() - 8) continue;  // four zeros without a meaning
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 1 << at % 8);
    folder.write("data/shard-000000.bin", altered);
    INFO("byte " << at << " of " << bytes.size());
    REQUIRE_THAT(error_text(folder / "data"), Contains("cannot read " + path + ": "));
  }
}

TEST_CASE("a shard cut short anywhere is refused, also while it is in use", "[shards]") {
  const TempFolder folder;
  const auto records = example_records(5);
  write_data(folder / "data", records, {});
  const std::string path = folder / "data" / "shard-000000.bin";
  const auto size = fs::file_size(path);
  const ShardedDataset in_use(folder / "data");
  REQUIRE(in_use.read(4) == records[4]);
  for (std::uintmax_t left = size; left-- > 0;) {
    fs::resize_file(path, left);
    REQUIRE_THAT(error_text(folder / "data"), Contains("bytes and the manifest says " + std::to_string(size)));
  }
  CHECK_THROWS_WITH(in_use.read(4), Contains(path + ": it is cut short."));
}

TEST_CASE("shards of another data set are noticed", "[shards]") {
  const TempFolder folder;
  write_data(folder / "ours", {"one", "two"}, {});
  write_data(folder / "theirs", {"six", "ten"}, {});
  fs::copy_file(folder / "theirs" / "shard-000000.bin", folder / "ours" / "shard-000000.bin",
                fs::copy_options::overwrite_existing);
  CHECK_THAT(error_text(folder / "ours"), Contains("its index is damaged, or belongs to another data set"));
}

TEST_CASE("a manifest that is none is refused in one sentence", "[shards]") {
  const TempFolder folder;
  write_data(folder / "data", {"one", "two"}, {.shard_records = 1});
  const std::string good = test::read_file(folder / "data" / "manifest.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    folder.write("data/manifest.json", bad);
    return error_text(folder / "data");
  };
  CHECK_THAT(with("\"version\": 1", "\"version\": 2"),
             Contains("manifest.json: it is not a manifest of shards in version 1."));
  CHECK_THAT(with("shard-000001.bin", "../secret"),
             Contains("it names a shard '../secret', which is not in its folder"));
  CHECK_THAT(with("\"records\": 2", "\"records\": 3"), Contains("its shards do not have as many records as it says"));
  CHECK_THAT(with("\"records\": 1", "\"records\": -1"), Contains("gives shard-000000.bin -1 records"));
  CHECK_THAT(with("\"records\": 1", "\"records\": \"x\""), Contains("it is damaged, or not a manifest"));
  for (std::size_t size = 0; size + 1 < good.size(); size += 7) {
    folder.write("data/manifest.json", good.substr(0, size));
    REQUIRE_THAT(error_text(folder / "data"), Contains("manifest.json: it is damaged, or not a manifest."));
  }
}

TEST_CASE("a writer that ends early leaves no data set", "[shards]") {
  const TempFolder folder;
  {
    ShardWriter writer(folder / "data", {.shard_records = 1});
    writer.add("one");
    writer.add("two");
  }
  CHECK_THAT(error_text(folder / "data"), Contains("there is no manifest.json in it. Its writer may have ended early"));
  write_data(folder / "data", {"one"}, {});
  CHECK(read_data(folder / "data") == std::vector<std::string>{"one"});
  CHECK_THROWS_WITH(ShardWriter(folder / "data"), Contains("there is one in it already. Remove it"));
  CHECK_THROWS_WITH(ShardWriter(folder / "no" / "where"), Contains("no/where: No such file or directory."));
  CHECK_THROWS_WITH(ShardWriter(folder / "other", {.shard_bytes = 0}), Contains("shards of 0 bytes"));
}

TEST_CASE("a full disk is said in one sentence", "[shards]") {
  const TempFolder folder;
  fs::create_directory(folder / "data");
  fs::create_symlink("/dev/full", folder / "data" / "shard-000000.bin");
  ShardWriter writer(folder / "data");
  writer.add("one");
  CHECK_THROWS_WITH(writer.finish(), Contains("shard-000000.bin: No space left on device. Free some space there"));
  CHECK_FALSE(fs::exists(folder / "data" / "manifest.json"));
}
