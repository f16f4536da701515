#include "rendezvous/etcd/etcd_keys.h"

#include "rendezvous/coordination/wire/control_message.h"
#include "tests/support/test.h"

namespace {

const WallClock::time_point kThen{1'700'000'000'123ms};

EtcdRecord full_record() {
  EtcdRecord out{.term = 4};
  out.round = {
      .number = 9, .master_host = "a", .master_port = 7, .term = 3, .coordinator = 18'000'000'000'000'000'000U};
  out.round.nodes = {{.id = 18'000'000'000'000'000'000U, .workers = 2, .name = "a", .control = {"10.0.0.1", 1}},
                     {.id = 5, .workers = 3, .first_rank = 2, .name = "b", .control = {"10.0.0.2", 2}}};
  out.round.ledger.counts.crashes = 2;
  out.round.ledger.charges = {{FailureClass::crash, 1, 10s}};
  out.round.ledger.excluded = {{"b", "10.0.0.2", "why", 60s}, {"c", "10.0.0.3", "why", 600s}};
  out.round.resized = NodeRange{1, 2};
  return out;
}

std::string complaint_about(const std::string& text) {
  return error_text<BadMessage>([&] { decode_record(text, kThen); });
}

}  // namespace

TEST_CASE("the coordinator's key is read as it is written", "[etcd]") {
  EtcdHolder holder{.node = 18'000'000'000'000'000'000U, .name = "gpu-7", .places = {{"10.0.0.7", 29400}}, .term = 3};
  CHECK(decode_holder(encode(holder)) == holder);
  holder.released = true;
  holder.places.clear();
  CHECK(decode_holder(encode(holder)) == holder);
  for (const char* wrong : {"", "[]", "{}", R"({"format":2,"node":1,"name":"","places":[],"term":1})",
                            R"({"format":1,"node":-1,"name":"","places":[],"term":1})",
                            R"({"format":1,"node":1,"name":"","places":[{"host":"a"}],"term":1})"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(decode_holder(wrong), BadMessage);
  }
}

TEST_CASE("the record is read as it is written, and tells its age", "[etcd]") {
  const EtcdRecord record = full_record();
  const EtcdRecord same = decode_record(encode(record, kThen), kThen);
  CHECK(same.term == 4);
  CHECK(same.age == 0s);
  CHECK(same.round.id() == record.round.id());
  CHECK(same.round.nodes.size() == 2);
  CHECK(same.round.nodes[1].first_rank == 2);
  CHECK(same.round.coordinator == record.round.coordinator);
  CHECK(same.round.ledger == record.round.ledger);
  CHECK(same.round.resized == record.round.resized);
  CHECK_FALSE(same.over);
  const EtcdRecord later = decode_record(encode(record, kThen), kThen + 100s);
  CHECK(later.age == 100s);
  CHECK(decode_record(encode(record, kThen), kThen - 1h).age == 0s);
}

TEST_CASE("a record without nodes keeps the ledger", "[etcd]") {
  EtcdRecord record = full_record();
  record.round.nodes.clear();
  record.over = Outcome{.verdict = Verdict::worker_failed, .reason = "it failed", .cause = {}};
  for (const int number : {9, 0}) {
    record.round.number = number;
    const EtcdRecord same = decode_record(encode(record, kThen), kThen);
    CHECK(same.round.number == number);
    CHECK(same.round.nodes.empty());
    CHECK(same.round.ledger == record.round.ledger);
    CHECK(same.round.resized == record.round.resized);
    CHECK(same.over->reason == "it failed");
  }
}

TEST_CASE("a record of another layout, or garbage, is refused", "[etcd]") {
  CHECK(complaint_about("") == "it is not JSON");
  CHECK(complaint_about("[]") == "expected an object");
  CHECK(complaint_about(R"({"format":2,"written_ms":1,"term":1})") == "'format' is out of range");
  CHECK(complaint_about(R"({"format":1,"term":1})") == "'written_ms' is missing");
  CHECK(complaint_about(R"({"format":1,"written_ms":1,"term":1})").empty());
  const std::string text = encode(full_record(), kThen);
  for (std::size_t cut = 1; cut < text.size(); ++cut) CHECK_FALSE(complaint_about(text.substr(0, cut)).empty());
}
