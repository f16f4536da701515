#include "agent/hang/record_reader.h"

#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>

#include "tests/support/test.h"

namespace {

constexpr const char* kRecord =
    R"({"entries":[{"collective_seq_id":5,"process_group":["0","default_pg"],"profiling_name":"gloo:barrier"}]})";

// A worker's server, in the loop of the reader.
class Server {
 public:
  Server(asio::io_context& io, const std::string& path, std::string answer)
      : acceptor_(io, asio::local::stream_protocol::endpoint(path + ".sock")), answer_(std::move(answer)) {
    accept();
  }
  std::vector<std::string> asked;

 private:
  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, asio::local::stream_protocol::socket socket) {
      if (error) return;
      peers_.push_back(std::make_unique<asio::local::stream_protocol::socket>(std::move(socket)));
      asio::async_read_until(*peers_.back(), asio::dynamic_buffer(input_), "\r\n\r\n",
                             [this, &peer = *peers_.back()](const asio::error_code&, std::size_t) {
                               asked.push_back(input_.substr(0, input_.find(" HTTP")));
                               input_.clear();
                               if (answer_.empty()) return;  // it stays silent
                               const bool knows = asked.size() > 1 || !answer_.starts_with("later");
                               const std::string text =
                                   knows ? "HTTP/1.1 200 OK\r\n\r\n" + answer_.substr(answer_.find('{'))
                                         : "HTTP/1.1 404 Not Found\r\n\r\nno such handler";
                               asio::write(peer, asio::buffer(text));
                               peer.close();
                             });
      accept();
    });
  }

  asio::local::stream_protocol::acceptor acceptor_;
  std::string answer_, input_;
  std::vector<std::unique_ptr<asio::local::stream_protocol::socket>> peers_;
};

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
  Server silent(rig.io, rig.path("0"), ""), answers(rig.io, rig.path("1"), kRecord);
  Server odd(rig.io, rig.path("2"), "{"), older(rig.io, rig.path("3"), std::string("later") + kRecord);
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
  Server server(rig.io, rig.path("0"), R"({"entries":[{"process_group":["7","tp"],"collective_seq_id":1}]})");
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
  Server silent(rig.io, rig.path("0"), "");
  {
    RecordReader other(rig.io);
    REQUIRE(other.read({{0, rig.path("0")}}, 20s, [](const auto&) { FAIL("its owner is gone"); }));
  }
  CHECK(rig.read({}).empty());
}
