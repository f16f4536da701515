#include "agent/hang/flight_record.h"

#include "tests/support/test.h"

namespace {

// As torch 2.15 answers, without what nobody reads.
std::string entry(int number, const std::string& group, const std::string& name, const std::string& sizes,
                  const std::string& types, bool retired, const std::string& more = "") {
  return R"({"collective_seq_id":)" + std::to_string(number) + R"(,"input_sizes":)" + sizes + R"(,"input_dtypes":)" +
         types + R"(,"is_p2p":false,"p2p_seq_id":0,"process_group":)" + group + R"(,"profiling_name":")" + name +
         R"(","retired":)" + (retired ? "true" : "false") + R"(,"state":"scheduled")" + more + "}";
}
const std::string kAll = R"(["0","default_pg"])", kTp = R"(["1","tp"])", kFloat = R"(["Float"])";

CollectiveRecord record(const std::string& entries, const std::string& groups = "", const std::string& config = "{}") {
  const auto read = flight_record(R"({"entries":[)" + entries + R"(],"pg_config":)" + config + "}", groups);
  REQUIRE(read);
  return *read;
}

}  // namespace

TEST_CASE("of PyTorch's record each group's last calls are read, those with an open one first, with their ranks",
          "[hang]") {
  const CollectiveRecord read =
      record(entry(1, kAll, "gloo:all_reduce", "[[64,1024]]", kFloat, true) + "," +
                 entry(1, kTp, "gloo:all_gather", "[[3],[2]]", R"(["BFloat16","Float"])", false),
             R"({"0": [], "1": [2, 3], "2": [0]})");
  REQUIRE(read.groups.size() == 2);
  const RecordedGroup& tp = read.groups[0];
  CHECK(tp.name == "1");
  CHECK(tp.description == "tp");
  CHECK(tp.ranks == std::vector{2, 3});
  CHECK(tp.entered == 1);
  CHECK(tp.calls == std::vector<RecordedCall>{{1, "all_gather", "3 bfloat16 and 1 more", 5, "bfloat16"}});
  CHECK(read.groups[1].calls ==
        std::vector<RecordedCall>{{1, "all_reduce", "64x1024 float32", 65536, "float32", -1, true}});
}

TEST_CASE("of many calls the last ones are kept, and those from the first that is not over", "[hang]") {
  std::string entries;
  for (int number = 1; number <= 20; ++number)
    entries += (number == 1 ? "" : ",") + entry(number, kAll, "gloo:barrier", "[]", "[]", number != 9 && number != 20);
  const CollectiveRecord read = record(entries);
  CHECK(read.groups[0].entered == 20);
  REQUIRE(read.groups[0].calls.size() == kCallsMax);
  CHECK(read.groups[0].calls.front() == RecordedCall{9, "barrier"});
  CHECK(record(entry(7, kAll, "gloo:barrier", "[]", "[]", true)).groups[0].calls.front().over);
}

TEST_CASE("a message has a rank at its other end, by NCCL's name for it", "[hang]") {
  const auto message = [](const std::string& name) {
    return R"({"collective_seq_id":4,"p2p_seq_id":2,"is_p2p":true,"input_sizes":[[]],"input_dtypes":["Float"],)"
           R"("process_group":["1","pp"],"profiling_name":")" +
           name + R"(","state":"started","retired":false})";
  };
  const std::string config = R"({"1":{"name":"1","desc":"pp","ranks":"[4, 6]"}})";
  const CollectiveRecord read = record(message("nccl:recv 0<-1") + "," + message("nccl:send 0->1"), "", config);
  CHECK(read.groups[0].ranks == std::vector{4, 6});
  CHECK(read.groups[0].entered == 0);
  CHECK(read.groups[0].calls == std::vector<RecordedCall>{{2, "recv", "scalar float32", 1, "float32", 6},
                                                          {2, "send", "scalar float32", 1, "float32", 6}});
  CHECK(record(message("nccl:recv 0<-9"), "", config).groups[0].calls.empty());
}

TEST_CASE("a batch of messages that NCCL has ended is not waited for, nor its whole compared with a collective",
          "[hang]") {
  const std::string all = R"(,"process_group":["0","default_pg"],"input_sizes":[],"input_dtypes":[],"retired":false)";
  const CollectiveRecord read = record(
      R"({"collective_seq_id":5,"is_p2p":false,"profiling_name":"nccl:all_reduce","state":"completed")" + all + "}," +
      R"({"collective_seq_id":5,"p2p_seq_id":1,"is_p2p":true,"profiling_name":"nccl:send 0->1","state":"scheduled")" +
      all + "}," +
      R"({"collective_seq_id":5,"p2p_seq_id":1,"is_p2p":false,"profiling_name":"nccl:coalesced","state":"completed")" +
      all + "}");
  REQUIRE(read.groups[0].calls.size() == 2);
  CHECK(read.groups[0].calls[0].operation == "all_reduce");
  CHECK(read.groups[0].calls[1].over);
}

TEST_CASE("a group that was made again under its name begins anew", "[hang]") {
  std::string entries;
  for (const int number : {1, 2, 3, 1, 2})
    entries += (entries.empty() ? "" : ",") + entry(number, kAll, "gloo:barrier", "[]", "[]", true);
  const CollectiveRecord read = record(entries);
  CHECK(read.groups[0].entered == 2);
  CHECK(read.groups[0].calls.size() == 2);
}

TEST_CASE("with NCCL a call is over once it is completed", "[hang]") {
  const auto state = [](const std::string& name) {
    std::string one = entry(1, kAll, "nccl:all_reduce", "[[2]]", kFloat, false);
    return record(one.replace(one.find("scheduled"), 9, name)).groups[0].calls[0].over;
  };
  CHECK(state("completed"));
  CHECK_FALSE(state("started"));
}

TEST_CASE("what is no record of PyTorch's, or an empty one, is none", "[hang]") {
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"entries":[]})", R"({"entries":{"a":1}})"})
    CHECK_FALSE(flight_record(text, ""));
  const CollectiveRecord read =
      record(R"(7,"x",{},{"process_group":7,"input_sizes":[7],"collective_seq_id":-1})", R"({"": "x"})", "[]");
  CHECK(read.groups.size() == 1);
  const CollectiveRecord odd = record(entry(1, R"(["0\u001b[31m","a\nb"])", "x:a\\u0007b", "[]", "[]", true));
  CHECK(odd.groups[0].description == "a\\x0ab");
  CHECK(odd.groups[0].calls[0].operation == "a\\x07b");
}

TEST_CASE("what a record says stays within what may be sent", "[hang]") {
  const std::string long_name(5000, 'x'), many_sizes = "[[" + std::string(18, '9') + ",1" + [] {
    std::string more;
    for (int i = 0; i < 500; ++i) more += ",2";
    return more;
  }() + "],[1]]";
  const CollectiveRecord read = record(entry(1, "[\"" + long_name + "\",\"" + long_name + "\"]", "gloo:" + long_name,
                                             many_sizes, "[\"" + long_name + "\"]", false),
                                       "{\"" + long_name.substr(0, kCallTextMax / 4) + R"(": [1, 99999999999, 2]})");
  REQUIRE(read.groups.size() == 1);
  const RecordedGroup& group = read.groups[0];
  CHECK(group.ranks == std::vector{1, 2});
  for (const std::string& text :
       {group.name, group.description, group.calls[0].operation, group.calls[0].tensors, group.calls[0].type})
    CHECK(text.size() <= kCallTextMax);
  std::string groups;
  for (int i = 0; i < 100; ++i)
    groups += (i == 0 ? "" : ",") + entry(1, "[\"" + std::to_string(i) + "\",\"\"]", "a", "[]", "[]", i != 99);
  const CollectiveRecord many = record(groups);
  CHECK(many.groups.size() == kGroupsMax);
  CHECK(many.groups[0].name == "99");  // who waits in a group comes first
}
