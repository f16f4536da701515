#include "agent/hang/record_reader.h"

#include "tests/agent/hang/record_server.h"
#include "tests/support/test.h"

namespace {

constexpr const char* kRecord =
    R"({"entries":[{"collective_seq_id":5,"process_group":["0","default_pg"],"profiling_name":"gloo:barrier"}]})";

struct Rig {
  RecordReader::Records read(std::map<int, std::string> paths) {
    std::optional<RecordReader::Records> records;
    REQUIRE(reader.read(std::move(paths), 20s, [&](RecordReader::Records read) { records = std::move(read); }));
    CHECK(reader.busy());
    REQUIRE(eventually([&] { return io.restart(), io.poll(), records.has_value(); }, 20s));
    CHECK_FALSE(reader.busy());
    return *records;
  }
  TempFolder folder;
  asio::io_context io;
  RecordReader reader{io};
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
};

}  // namespace

TEST_CASE("records are read of those that answer, and one that does not keeps no other from being read", "[record]") {
  Rig rig;
  RecordServer silent(rig.io, rig.path("0"), ""), answers(rig.io, rig.path("1"), kRecord);
  RecordServer odd(rig.io, rig.path("2"), "{"), older(rig.io, rig.path("3"), std::string("later") + kRecord);
  const auto records = rig.read(
      {{0, rig.path("0")}, {1, rig.path("1")}, {2, rig.path("2")}, {3, rig.path("3")}, {4, rig.path("nobody")}});
  REQUIRE(records.size() == 2);
  CHECK(records.at(1).groups.at(0).entered == 5);
  CHECK(records.contains(3));
  CHECK(older.asked == std::vector<std::string>{"POST /handler/fr_trace_json", "POST /handler/dump_nccl_trace_json"});
}

TEST_CASE("a socket is reached in a folder whose path is longer than a socket's may be, and by what is beside it",
          "[record]") {
  Rig rig;
  const auto deep = rig.folder.path() / std::string(120, 'x');
  std::filesystem::create_directory(deep);
  RecordServer server(rig.io, rig.path("0"), R"({"entries":[{"process_group":["7","tp"],"collective_seq_id":1}]})");
  std::filesystem::rename(rig.path("0.sock"), deep / "0.sock");
  std::ofstream(deep / "0.groups") << R"({"7": [1, 3]})";
  const std::string path = (deep / "0").string();
  CHECK(has_record(path));
  CHECK_FALSE(has_record(""));
  CHECK_FALSE(has_record((deep / "1").string()));
  CHECK(rig.read({{0, path}}).at(0).groups.at(0).ranks == std::vector{1, 3});
}

TEST_CASE("a reader may go while it reads", "[record]") {
  Rig rig;
  RecordServer silent(rig.io, rig.path("0"), "");
  {
    RecordReader other(rig.io);
    REQUIRE(other.read({{0, rig.path("0")}}, 20s, [](const auto&) { FAIL("its owner is gone"); }));
  }
  CHECK(rig.read({}).empty());
}
