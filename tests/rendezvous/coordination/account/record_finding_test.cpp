#include "rendezvous/coordination/account/record_finding.h"

#include "tests/support/test.h"

namespace {

RecordedCall call(std::uint64_t number, const std::string& operation = "all_reduce", std::uint64_t elements = 64,
                  const std::string& type = "float32") {
  return {.number = number,
          .operation = operation,
          .tensors = std::to_string(elements) + " " + type,
          .elements = elements,
          .type = type};
}
RecordedCall over(RecordedCall call) {
  call.over = true;
  return call;
}
RecordedGroup group(std::vector<RecordedCall> calls, const std::string& description = "default_pg",
                    std::vector<int> ranks = {}) {
  const std::uint64_t entered = calls.empty() ? 0 : calls.back().number;
  return {.name = "of " + description,
          .description = description,
          .ranks = std::move(ranks),
          .entered = entered,
          .calls = std::move(calls)};
}

Standing in(int rank, Activity activity, std::vector<RecordedGroup> groups, Duration age = 2100ms) {
  return {.rank = rank,
          .activity = activity,
          .step = 41,
          .age = age,
          .overdue = true,
          .record = CollectiveRecord{std::move(groups)}};
}
Standing waits(int rank, std::vector<RecordedGroup> groups, Duration age = 2100ms) {
  return in(rank, Activity::wait, std::move(groups), age);
}
Standing waits_in(int rank, const std::string& collective) {
  Standing one = waits(rank, {group({over(call(7))})});
  one.collective = collective;
  return one;
}
Standing computes(int rank, std::vector<RecordedGroup> groups) {
  return in(rank, Activity::compute, std::move(groups));
}

std::string found(const std::vector<Standing>& standings, InCall in_call = InCall::by_its_report) {
  const auto hang = find_in_records(standings, in_call);
  return hang ? std::to_string(hang->rank) + " " + hang->text : "nobody";
}

}  // namespace

TEST_CASE("the rank that has not entered a collective is to blame, with what the others wait in", "[hang]") {
  const RecordedGroup open = group({over(call(10)), call(11)}), before = group({over(call(10))});
  CHECK(found({waits(0, {open}), computes(1, {before}), waits(2, {open})}) ==
        "1 it has not entered all_reduce #11 [64 float32], in which ranks 0 and 2 wait");
  CHECK(found({waits(0, {open}), waits(1, {open})}) == "nobody");
  CHECK(found({waits(0, {open}), computes(1, {})}) ==
        "1 it has not entered all_reduce #11 [64 float32], in which rank 0 waits");
  Standing unknown = computes(1, {});
  unknown.record.reset();
  CHECK(found({waits(0, {open}), unknown}) == "nobody");
}

TEST_CASE("a group is its own ranks' alone, and is named by its description or by them", "[hang]") {
  const RecordedGroup tp = group({call(3)}, "tp", {2, 3}), left_out = group({over(call(2))}, "tp");
  CHECK(found({computes(0, {}), computes(1, {}), waits(2, {tp}), computes(3, {left_out})}) ==
        "3 it has not entered all_reduce #3 of tp [64 float32], in which rank 2 waits");
  const RecordedGroup unnamed = group({call(3)}, "undefined", {0, 3});
  CHECK(found({waits(0, {unnamed}), computes(1, {}), computes(2, {}), computes(3, {})}) ==
        "3 it has not entered all_reduce #3 of the group of ranks 0 and 3 [64 float32], in which rank 0 waits");
}

TEST_CASE("of a group whose ranks are not known, only those that have used it are asked for", "[hang]") {
  const RecordedGroup open = group({over(call(3)), call(4)}, "odd"), before = group({over(call(3))}, "odd");
  CHECK(found({waits(0, {open}), computes(1, {}), computes(2, {before})}).substr(0, 1) == "2");
  CHECK(found({waits(0, {open}), computes(1, {})}) == "nobody");
}

TEST_CASE("who waits for the one that others wait for is not to blame", "[hang]") {
  // 0 waits in dp for 1, which waits in tp for 3.
  const RecordedGroup dp = group({call(5)}, "dp", {0, 1}), tp = group({call(9)}, "tp", {1, 3});
  CHECK(found({waits(0, {dp}), waits(1, {tp}), computes(3, {})}) ==
        "3 it has not entered all_reduce #9 of tp [64 float32], in which rank 1 waits");
}

TEST_CASE("a rank that computes while a call of it is in flight does not wait in that", "[hang]") {
  const RecordedGroup own = group({call(4)}, "b", {1, 2});
  const RecordedGroup of_others = group({call(11)});
  CHECK(found({waits(0, {of_others}), computes(1, {own}), waits(2, {of_others})}).substr(0, 2) == "1 ");
  CHECK(found({computes(0, {of_others}), computes(1, {})}) == "nobody");
  // With NCCL a rank that waits for its GPU looks like one that computes.
  CHECK(found({computes(0, {of_others}), computes(1, {})}, InCall::by_its_record).substr(0, 2) == "1 ");
  Standing stopped = waits(0, {of_others});
  stopped.stopped = true;
  CHECK(found({stopped, computes(1, {})}) == "nobody");
}

TEST_CASE("a rank in another collective, or with other sizes or types, than most at the same number is to blame",
          "[hang]") {
  const auto three = [](const RecordedCall& odd) {
    return found({waits(0, {group({call(12)})}), waits(1, {group({odd})}), waits(2, {group({call(12)})})});
  };
  CHECK(three(call(12, "all_gather")) ==
        "1 it is in all_gather #12 [64 float32], where ranks 0 and 2 are in all_reduce #12 [64 float32]");
  CHECK(three(call(12, "all_reduce", 32)) ==
        "1 it is in all_reduce #12 [32 float32], where ranks 0 and 2 are in all_reduce #12 [64 float32]");
  CHECK(three(call(12, "all_reduce", 64, "bfloat16")).substr(0, 2) == "1 ");
  RecordedCall other_shape = call(12);
  other_shape.tensors = "8x8 float32";  // as many elements
  CHECK(three(other_shape) == "nobody");
  // It has gone on, as the root of a broadcast may.
  CHECK(found({waits(0, {group({call(12)})}), waits(1, {group({over(call(12, "broadcast")), call(13)})}),
               waits(2, {group({call(12)})})}) ==
        "1 it is in broadcast #12 [64 float32], where ranks 0 and 2 are in all_reduce #12 [64 float32]");
  // Of two it is the one that came last.
  CHECK(found({waits(0, {group({call(12)})}, 2500ms), waits(1, {group({call(12, "barrier")})}, 2100ms)}).substr(0, 2) ==
        "1 ");
  CHECK(found({waits(0, {group({call(12)})}, 2100ms), waits(1, {group({call(12, "barrier")})}, 2500ms)}).substr(0, 2) ==
        "0 ");
}

TEST_CASE("tensors that may differ by rank are not compared", "[hang]") {
  for (const char* operation : {"scatter", "gather", "all_to_all", "all_gather", "reduce_scatter"})
    CHECK(found({waits(0, {group({call(2, operation, 64)})}), waits(1, {group({call(2, operation, 0)})})}) == "nobody");
}

TEST_CASE("with sizes that differ in a call that is over for the others, that is the cause, not what they wait in now",
          "[hang]") {
  const RecordedGroup others_a = group({over(call(3, "all_reduce", 4))}, "a"), others_b = group({call(3)}, "b");
  CHECK(found({waits(0, {others_a, others_b}), waits(1, {group({call(3, "all_reduce", 5)}, "a")}),
               waits(2, {others_a, others_b})}) ==
        "1 it is in all_reduce #3 of a [5 float32], where ranks 0 and 2 are in all_reduce #3 of a [4 float32]");
}

TEST_CASE("of ranks that wait for each other in different groups the one with the fewest others is to blame",
          "[hang]") {
  const RecordedGroup a = group({call(3, "all_reduce", 4)}, "a", {0, 1, 2});
  const RecordedGroup b = group({call(3, "all_reduce", 3)}, "b", {0, 1, 2});
  CHECK(found({waits(0, {a}), waits(1, {b}), waits(2, {a})}) ==
        "1 it is in all_reduce #3 of b [3 float32] and has not entered all_reduce #3 of a [4 float32], in which ranks "
        "0 and 2 wait");
}

TEST_CASE("who waits for a message waits for its other end", "[hang]") {
  CHECK(found({waits_in(0, "recv 1"), computes(1, {})}) == "1 it has not sent to rank 0, which waits for that");
  CHECK(found({waits_in(0, "recv 1"), waits_in(1, "send 0")}) == "nobody");
  CHECK(found({waits_in(0, "recv"), computes(1, {})}) == "nobody");
  const RecordedGroup grads = group({over(call(7)), call(8)});
  CHECK(found({waits_in(0, "recv 1"), waits(1, {grads}), waits(2, {grads})}) ==
        "1 it is in all_reduce #8 [64 float32] and has not sent to rank 0, which waits for that");
  // Who passes messages on waits for those that it has not got.
  for (const Duration age : {2000ms, 2200ms}) {
    Standing last = waits(1, {grads}, age);
    CHECK(found({waits_in(0, "recv 2"), last, waits_in(2, "recv 1")}) ==
          "1 it is in all_reduce #8 [64 float32] and has not sent to rank 2, which waits for that");
  }
  RecordedCall message = call(5, "recv");  // as NCCL records it
  message.to = 1;
  CHECK(found({waits(0, {group({message})}), computes(1, {group({over(call(3))})})}) ==
        "1 it has not sent to rank 0, which waits for that");
}

TEST_CASE("of ranks that wait for one another's messages each may have left its own out", "[hang]") {
  CHECK(found({waits_in(0, "recv 2"), waits_in(1, "recv 0"), waits_in(2, "recv 1")}) ==
        "0 it is in recv from rank 2 and has not sent to rank 1, which waits for that; ranks 0, 1 and 2 wait for one "
        "another's messages, and each may have left its own out");
  CHECK(found({waits_in(0, "recv 1"), waits_in(1, "recv 2"), waits_in(2, "recv 1")}) ==
        "1 it is in recv from rank 2 and has not sent to rank 2, which waits for that; ranks 1 and 2 wait for one "
        "another's messages, and each may have left its own out");
  CHECK(found({waits_in(0, "send 1"), waits_in(1, "send 0")}).substr(0, 2) == "0 ");
}

TEST_CASE("as long as a rank's record is not known it may be the cause, or the larger part may be where it is",
          "[hang]") {
  Standing unknown = waits(1, {});
  unknown.record.reset();
  std::vector<Standing> all{waits(0, {group({call(7, "all_reduce", 5)})}), unknown, waits(2, {group({call(7)})})};
  const auto named = [&all] {
    const auto hang = find_hang(all);
    return hang ? hang->rank : -1;
  };
  CHECK_FALSE(find_in_records(all, InCall::by_its_report)->certain);
  CHECK(named() == -1);
  all[1] = waits(1, {group({call(7)})});
  CHECK(named() == 0);
  all.push_back(waits(3, {group({call(7)})}));
  all.push_back(waits(4, {group({call(7)})}));
  all[1] = unknown;
  CHECK(named() == 0);  // the larger part stays the larger one
  all.resize(3);
  for (Standing& one : all) one.age = 11s;  // there will be none
  CHECK(named() != -1);
  // 0 waits in dp for 1, which waits in tp for 3; that cannot answer.
  all = {waits(0, {group({call(5)}, "dp", {0, 1})}), waits(1, {group({call(9)}, "tp", {1, 3})}), computes(3, {})};
  all[2].stopped = true;
  all[2].record.reset();
  CHECK(named() == 3);
  all[1] = waits(1, {group({call(9)}, "tp", {1, 2})});  // not one of those it waits for
  all[2].activity = Activity::wait;
  all[2].stopped = false;
  CHECK(named() == 1);
}

TEST_CASE("by records a hang is named as by reports: late, overdue, and not where a debugger has it", "[hang]") {
  std::vector<Standing> all{waits(0, {group({call(11)})}), computes(1, {group({over(call(10))})})};
  const auto named = [&all] {
    const auto hang = find_hang(all);
    return hang ? std::to_string(hang->rank) + " " + hang->text : "nobody";
  };
  CHECK(named() ==
        "1 has computed for 2.1 s, after step 41; it has not entered all_reduce #11 [64 float32], in which rank 0 "
        "waits");
  all[1].traced = true;
  CHECK(named() == "nobody");
  all[1].traced = all[1].overdue = false;
  CHECK(named() == "nobody");
  all[1].overdue = true;
  all[0].age = 100ms;
  all[0].overdue = false;
  CHECK(named() == "nobody");
  all[0] = computes(0, {group({call(11)})});  // by NCCL: it cannot be told from one that computes
  CHECK(named() == "nobody");
  all[0].age = all[1].age = 61s;
  CHECK(named().substr(0, 2) == "1 ");
}

TEST_CASE("the one that thousands of ranks wait for is found, and half of them where they miss", "[hang]") {
  std::vector<Standing> all;
  std::vector<int> tp;
  for (int rank = 0; rank < 8192; ++rank) {
    if (rank % 8 == 0) tp.clear();
    if (rank % 8 == 0)
      for (int i = 0; i < 8; ++i) tp.push_back(rank + i);
    RecordedGroup own = group({over(call(3))}, "tp");
    own.name += std::to_string(rank / 8);
    all.push_back(rank == 700 ? computes(rank, {group({over(call(10))}), own}) : waits(rank, {group({call(11)}), own}));
  }
  CHECK(found(all).substr(0, 27) == "700 it has not entered all_");
  for (int rank = 0; rank < 8192; rank += 2) all[rank] = computes(rank, {group({over(call(10))})});
  CHECK(found(all).substr(0, 25) == "0 it has not entered all_");
}
