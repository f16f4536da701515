// Every collective against a dumb twin that sees all ranks' tensors at once, on 1, 2 and 4 ranks.
#include "ddprun/collectives.h"

#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "tests/support/test.h"
#include "tests/trainer/collectives_check.h"
#include "tests/trainer/golden_text.h"
#include "tests/trainer/rank_threads.h"
#include "trainer/ddp/group/group_state.h"

using nlohmann::json;
using Tensors = std::vector<at::Tensor>;

namespace {

std::string describe(const Table& table) {
  std::ostringstream out;
  out << "# What gloo reduces (+) and what is refused (-), by element type. Made by collectives_test.cpp; "
         "DDPRUN_UPDATE=1\n"
         "# rewrites it. A refusal reads: cannot all_reduce(band) of Float [2]: gloo has no band of Float. Gathers,\n"
         "# broadcast, scatter, all_to_all and messages move every type of this list.\n";
  for (const auto type : kTypes) {
    out << std::left << std::setw(16) << toString(type);
    for (const auto& [op, name] : kOps) {
      const std::string& refused = table.at({static_cast<int>(type), static_cast<int>(op)});
      out << " " << (refused.empty() ? "+" : "-") << name;
      CHECK((refused.empty() || refused == "gloo has no " + name + " of " + toString(type) + "."));
    }
    out << "\n";
  }
  return out.str();
}

std::set<std::string> distinct(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

// Every rank says the same thing, and the group lives on.
std::string common_error(RankThreads& rank_threads, const std::function<void(ProcessGroup&)>& part) {
  const auto said = distinct(rank_threads.errors(part));
  rank_threads.each([](ProcessGroup& group) {
    const auto one = torch::ones({1});
    all_reduce(one, ReduceOp::sum, group);
    if (one.item<int>() != group.world_size()) throw std::runtime_error("the group is broken");
  });
  CHECK(said.size() == 1);
  return *said.begin();
}

void check_error(RankThreads& ranks, const std::string& sentence, const std::function<void(ProcessGroup&)>& part) {
  CHECK_THAT(common_error(ranks, part), Contains(sentence));
}

}  // namespace

TEST_CASE("every reduction of every type gives what one process would, on 1, 2 and 4 ranks", "[collectives]") {
  Table table;
  for (const int world : {1, 2, 4}) {
    Findings findings;
    RankThreads(world).each([&](ProcessGroup& group) {
      reduce_everything(group, findings, world == 4 && group.rank() == 1 ? &table : nullptr);
    });
    CHECK(findings.wrong() == "");
  }
  CHECK(describe(table) == golden_text("tests/trainer/testdata/collectives_gloo.txt", describe(table)));
}

TEST_CASE("every type and layout of tensor arrives as it was sent, on 1, 2 and 4 ranks", "[collectives]") {
  for (const int world : {1, 2, 4}) {
    Findings findings;
    RankThreads(world).each([&](ProcessGroup& group) { move_everything(group, findings); });
    CHECK(findings.wrong() == "");
  }
}

TEST_CASE("without the check of calls the numbers are the same, and refusals still come before anything is sent",
          "[collectives]") {
  Findings findings;
  RankThreads(3, {.check_calls = false}).each([&](ProcessGroup& group) {
    move_everything(group, findings);
    reduce_everything(group, findings, nullptr);
    barrier(group);
  });
  CHECK(findings.wrong() == "");
}

TEST_CASE("tensors of different types travel side by side", "[collectives]") {
  Findings findings;
  RankThreads(4).each([&](ProcessGroup& group) {
    const int world = group.world_size(), me = group.rank();
    const auto of = [](int rank) {
      const std::vector<at::ScalarType> types{at::kChar, at::kDouble, at::kShort, at::kComplexDouble};
      // The longest is of single bytes, of an odd count: what follows it must not begin there.
      return values(types[static_cast<std::size_t>(rank) % 4], {rank % 4 == 0 ? 67 : rank + 1, 3}, rank);
    };
    Tensors all, to_each, from_each;
    for (int rank = 0; rank < world; ++rank) {
      all.push_back(of(rank));
      to_each.push_back(of(me + rank));
      from_each.push_back(of(rank + me));
    }
    const auto expect = [&](const Tensors& got, const Tensors& expected, const std::string& what) {
      findings.expect(got.size() == expected.size(), what);
      for (std::size_t i = 0; i < got.size(); ++i) findings.expect(alike(got[i], expected[i]), what);
    };
    expect(all_gather(of(me), group), all, "all_gather");
    expect(gather(of(me), 1, group), me == 1 ? all : Tensors{}, "gather");
    expect({scatter(me == 1 ? all : Tensors{}, 1, group)}, {of(me)}, "scatter");
    expect(all_to_all(to_each, group), from_each, "all_to_all");
  });
  CHECK(findings.wrong() == "");
}

TEST_CASE("large tensors are reduced and moved as small ones are", "[collectives]") {
  Findings findings;
  constexpr std::int64_t kElements = 3'000'001;  // more than a socket holds, and no multiple of anything
  RankThreads(2).each([&](ProcessGroup& group) {
    const auto own = torch::full({kElements}, group.rank() + 1, torch::kInt32);
    const auto sum = own.clone(), received = torch::empty_like(own);
    all_reduce(sum, ReduceOp::sum, group);
    findings.expect(sum.eq(3).all().item<bool>(), "all_reduce");
    sendrecv(own, 1 - group.rank(), received, 1 - group.rank(), 0, group);
    findings.expect(received.eq(2 - group.rank()).all().item<bool>(), "sendrecv");
    const auto all = all_gather(own.narrow(0, 0, kElements - group.rank()), group);
    findings.expect(all[1].numel() == kElements - 1 && all[1].eq(2).all().item<bool>(), "all_gather");
  });
  CHECK(findings.wrong() == "");
}

TEST_CASE("parameters that require a gradient are reduced in place, and autograd does not see it", "[collectives]") {
  RankThreads(2).each([&](ProcessGroup& group) {
    const auto parameter = torch::ones({2, 3}).t().requires_grad_();
    all_reduce(parameter, ReduceOp::sum, group);
    broadcast(parameter, 0, group);
    if (!parameter.is_leaf() || !parameter.detach().eq(2).all().item<bool>()) throw std::runtime_error("not in place");
    if (all_gather(parameter, group)[0].requires_grad()) throw std::runtime_error("autograd saw it");
  });
}

TEST_CASE("a message from any rank says who sent it", "[collectives]") {
  Findings findings;
  RankThreads(4).each([&](ProcessGroup& group) {
    const auto text = torch::full({2}, group.rank());
    if (group.rank() != 0) return send(text, 0, 7, group);
    std::set<int> senders;
    for (int i = 1; i < 4; ++i) {
      const int from = recv(text, kAnySource, 7, group);
      findings.expect(text.eq(from).all().item<bool>(), "the message is its sender's");
      senders.insert(from);
    }
    findings.expect(senders == std::set<int>{1, 2, 3}, "one from each");
  });
  CHECK(findings.wrong() == "");
}

TEST_CASE("a barrier lets nobody through before the last has come", "[collectives]") {
  const bool check_calls = GENERATE(true, false);
  std::atomic<int> came = 0;
  Findings findings;
  RankThreads(4, {.check_calls = check_calls}).each([&](ProcessGroup& group) {
    for (int round = 1; round <= 20; ++round) {
      ++came;
      barrier(group);
      findings.expect(came >= 4 * round, "all have come");
      barrier(group);
    }
  });
  CHECK(findings.wrong() == "");
}

TEST_CASE("calls that do not fit together are one sentence on every rank, and the group lives on", "[collectives]") {
  RankThreads rank_threads(3);
  CHECK(
      common_error(rank_threads,
                   [](auto& group) { all_reduce(torch::ones({2 + group.rank() / 2}), ReduceOp::sum, group); }) ==
      "the ranks do not agree on a collective: ranks 0 and 1: all_reduce(sum) of Float [2]; rank 2: all_reduce(sum) of "
      "Float [3]. All ranks must make the same calls in the same order.");
  check_error(rank_threads, "rank 0: broadcast(root 0) of Float [2]; ranks 1 and 2: broadcast(root 0) of Int [2]",
              [](auto& group) { broadcast(torch::ones({2}, group.rank() ? torch::kInt : torch::kFloat), 0, group); });
  check_error(rank_threads, "ranks 0 and 2: broadcast(root 0) of Float [2]; rank 1: broadcast(root 1)",
              [](auto& group) { broadcast(torch::ones({2}), group.rank() % 2, group); });
  check_error(rank_threads, "ranks 0 and 2: all_gather; rank 1: barrier",
              [](auto& group) { group.rank() == 1 ? barrier(group) : (void)all_gather(torch::ones({2}), group); });
  check_error(rank_threads, "rank 2: reduce_scatter(sum) of Float [1000] [2] [2]", [](auto& group) {
    Tensors parts(3, torch::ones({2}));
    if (group.rank() == 2) parts[0] = torch::ones({1000});
    reduce_scatter(parts, ReduceOp::sum, group);
  });
  // what is too long to be sent counts, too
  check_error(rank_threads, "do not agree", [](auto& group) {
    std::map<std::string, double> values{{group.rank() ? "z" : "zz", 1.0}};
    for (int i = 0; i < 100; ++i) values["name" + std::to_string(i)] = 1.0;
    reduce_dict(values, true, group);
  });
}

TEST_CASE("what one rank cannot do, no rank begins", "[collectives]") {
  RankThreads rank_threads(3);
  const auto from_one = [&](const at::Tensor& bad) {
    return common_error(rank_threads, [&](auto& group) {
      all_reduce(group.rank() == 1 ? bad : torch::ones({2, 2}), ReduceOp::sum, group);
    });
  };
  CHECK(from_one({}) == "rank 1 cannot all_reduce(sum) of no tensor: the tensor is undefined.");
  CHECK_THAT(from_one(torch::ones({2, 2}).to_sparse()), Contains("the tensor is not a dense one"));
  CHECK_THAT(from_one(torch::ones({2, 1}).expand({2, 2})), Contains("elements of the tensor share memory"));
  CHECK_THAT(from_one(torch::ones(std::vector<std::int64_t>(17, 1))), Contains("more than 16 dimensions"));
  CHECK_THAT(from_one(torch::ones({2}, torch::kMeta)), Contains("the tensor is on meta, but this group moves"));
  CHECK(common_error(rank_threads, [](auto& group) { reduce(torch::ones({2}), 3, ReduceOp::sum, group); }) ==
        "cannot reduce(sum, root 3) of Float [2]: its root is 3, but ranks count from 0 to 2.");
  check_error(rank_threads, "rank 1 cannot scatter(root 1): it takes one tensor for each of the 3 ranks, not 2",
              [](auto& group) { scatter(Tensors(2, torch::ones({2})), 1, group); });
  check_error(rank_threads, "rank 2 cannot all_to_all: it takes one tensor for each",
              [](auto& group) { all_to_all(Tensors(group.rank() == 2 ? 4 : 3, torch::ones({2})), group); });
  check_error(rank_threads, "its tensors are not of one type", [](auto& group) {
    reduce_scatter({torch::ones({2}), torch::ones({2}), torch::ones({2}, torch::kInt)}, ReduceOp::sum, group);
  });
  const auto messages = rank_threads.errors([](auto& group) {
    const auto text = torch::ones({2});
    if (group.rank() == 0) send(text, 0, 0, group);
    if (group.rank() == 1) recv(text, 5, 0, group);
    if (group.rank() == 2) send(text, 0, -1, group);
  });
  CHECK(messages[0] == "cannot send to rank 0: that is this rank itself.");
  CHECK(messages[1] == "cannot recv from rank 5: the sender is 5, but ranks count from 0 to 2.");
  CHECK(messages[2] == "cannot send to rank 0: its tag is below 0.");
}

TEST_CASE("objects arrive as they were, whatever JSON holds", "[collectives]") {
  const bool check_calls = GENERATE(true, false);
  const auto object_of = [](int rank) {
    json object{
        {"rank", rank}, {"text", std::string(static_cast<std::size_t>(rank) * 1000, 'x')}, {"list", {1, 2.5, nullptr}}};
    if (rank == 1) object = nullptr;
    return object;
  };
  for (const int world : {1, 2, 4}) {
    std::vector<json> all;
    for (int rank = 0; rank < world; ++rank) all.push_back(object_of(rank));
    Findings findings;
    RankThreads(world, {.check_calls = check_calls}).each([&](ProcessGroup& group) {
      const int me = group.rank(), root = world - 1;
      findings.expect(all_gather_object(object_of(me), group) == all, "all_gather_object");
      findings.expect(gather_object(object_of(me), root, group) == (me == root ? all : std::vector<json>{}),
                      "gather_object");
      findings.expect(broadcast_object(object_of(me), root, group) == object_of(root), "broadcast_object");
      findings.expect(scatter_object(me == root ? all : std::vector<json>{}, root, group) == object_of(me),
                      "scatter_object");
      const auto numbers = all_gather_object(json{{"nan", NAN}, {"bytes", "\xff\xfe"}}, group);
      findings.expect(std::isnan(numbers.back()["nan"].get<double>()) && numbers.back()["bytes"] == "\xff\xfe",
                      "what JSON's text cannot say");
      if (world == 1) return;
      if (me == 0) send_object(object_of(3), 1, 2, group);
      if (me == 1) findings.expect(recv_object(world == 2 ? 0 : kAnySource, 2, group) == object_of(3), "recv_object");
    });
    CHECK(findings.wrong() == "");
  }
  RankThreads rank_threads(2);
  check_error(rank_threads, "rank 0: gather_object(root 0); rank 1: all_gather_object",
              [](auto& group) { group.rank() ? (void)all_gather_object(1, group) : (void)gather_object(1, 0, group); });
  check_error(rank_threads, "rank 0 cannot scatter_object(root 0): it takes one object for each of the 2 ranks, not 3",
              [](auto& group) {
                scatter_object({1, 2, 3}, 0, group);
              });
}

TEST_CASE("a dictionary is averaged or added up name by name, and must have the same names", "[collectives]") {
  Findings findings;
  RankThreads rank_threads(4);
  rank_threads.each([&](ProcessGroup& group) {
    const double rank = group.rank();
    using Numbers = std::map<std::string, double>;
    findings.expect(reduce_dict({{"loss", rank}, {"seen", 8.0}}, true, group) == Numbers{{"loss", 1.5}, {"seen", 8}},
                    "mean");
    findings.expect(reduce_dict(Numbers{{"loss", rank}}, false, group) == Numbers{{"loss", 6}}, "sum");
    findings.expect(reduce_dict(Numbers{}, true, group).empty(), "nothing");
    const std::map<std::string, at::Tensor> tensors{{"count", torch::tensor(group.rank() * 3)},
                                                    {"half", torch::full({2, 2}, rank, torch::kHalf).t()}};
    const auto mean = reduce_dict(tensors, true, group), sum = reduce_dict(tensors, false, group);
    findings.expect(alike(mean.at("count"), torch::tensor(4.5, torch::kDouble)), "mean of integers");
    findings.expect(alike(mean.at("half"), torch::full({2, 2}, 1.5, torch::kHalf)), "mean of halfs");
    findings.expect(alike(sum.at("count"), torch::tensor(18)), "sum of integers");
    findings.expect(tensors.at("half").eq(rank).all().item<bool>(), "what was given stays");
  });
  CHECK(findings.wrong() == "");
  check_error(rank_threads, "ranks 0, 1 and 3: reduce_dict of loss; rank 2: reduce_dict of lost", [](auto& group) {
    reduce_dict({{group.rank() == 2 ? "lost" : "loss", 1.0}}, true, group);
  });
}

TEST_CASE("some ranks make a group of their own, and so do those of a machine", "[collectives]") {
  Findings findings;
  RankThreads rank_threads(4);
  rank_threads.each([&](ProcessGroup& world) {
    findings.expect(world.local_rank() == world.rank() && world.local_world_size() == 4, "one machine");
    const auto odd = new_group({1, 3}, world), last = new_group({2, 3}, world), here = machine_group(world);
    findings.expect(static_cast<bool>(odd) == (world.rank() % 2 == 1), "members only");
    if (odd) {
      findings.expect(odd.rank() == world.rank() / 2 && odd.world_size() == 2, "its own ranks");
      findings.expect(odd.global_ranks() == std::vector<int>{1, 3}, "and the world's");
      const auto inner = new_group({1}, odd);
      findings.expect(!inner || (world.rank() == 3 && inner.global_ranks() == std::vector<int>{3}), "a group's group");
      const auto sum = torch::tensor(world.rank());
      all_reduce(sum, ReduceOp::sum, odd);
      findings.expect(sum.item<int>() == 4, "sum of the odd ones");
    }
    findings.expect(here.world_size() == 4 && here.rank() == world.rank(), "all of us are on this machine");
    barrier(here);
    barrier(world);
  });
  CHECK(findings.wrong() == "");
  check_error(rank_threads, "cannot new_group(0, 4): its ranks must ascend, from 0 to 3", [](auto& group) {
    new_group({0, 4}, group);
  });
  check_error(rank_threads, "ranks 0 and 1: new_group(0); ranks 2 and 3: new_group(1)",
              [](auto& group) { new_group({group.rank() / 2}, group); });
}

TEST_CASE("a peer that leaves is PeerLost for the others, at once", "[collectives]") {
  const bool check_calls = GENERATE(true, false);
  RankThreads rank_threads(3, {.check_calls = check_calls});
  const auto start = std::chrono::steady_clock::now();
  const auto said = rank_threads.errors([](ProcessGroup& group) {
    if (group.rank() == 2) return destroy(group);
    try {
      all_reduce(torch::ones({2}), ReduceOp::sum, group);
    } catch (const PeerLost& lost) {
      destroy(group);  // or who waits for us would not know
      if (is_loss_of_peer(lost)) throw std::runtime_error(std::string("lost: ") + lost.what());
    }
  });
  CHECK(std::chrono::steady_clock::now() - start < 20s);  // and not at the time-out of a minute
  CHECK_THAT(said[0], Contains("lost: rank 0 of 3 failed in all_reduce(sum) of Float [2]: ") &&
                          Contains("A peer has exited, or did not make the call in time."));
  CHECK(said[2] == "");
}

TEST_CASE("a peer that does not come is PeerLost when the time is over", "[collectives]") {
  RankThreads rank_threads(2, {.timeout = 300ms});
  const auto said = rank_threads.errors([](ProcessGroup& group) {
    if (group.rank() == 1) return;
    try {
      barrier(group);
    } catch (const PeerLost& lost) {
      throw std::runtime_error(std::string("lost: ") + lost.what());
    }
  });
  CHECK_THAT(said[0], Contains("lost: rank 0 of 2 failed in barrier: Timed out"));
}

TEST_CASE("a group that was destroyed, and a handle that never was one, are named", "[collectives]") {
  ProcessGroup none;
  CHECK_THROWS_WITH(barrier(none), Contains("this handle is empty. Call init_process_group() first."));
  RankThreads(1).each([](ProcessGroup& group) {
    ProcessGroup copy = group, child = new_group({0}, group);
    destroy(group);
    if (group || !copy) throw std::runtime_error("the handle is not empty, or its copy is");
    for (const auto& handle : {copy, child})
      if (refusal([&] { barrier(handle); }) != "no process group: this one was destroyed.")
        throw std::runtime_error("usable");
  });
}

TEST_CASE("without a group a process is a world of its own", "[collectives]") {
  CHECK(rank() == 0);
  CHECK(world_size() == 1);
  CHECK(local_rank() == 0);
  CHECK(local_world_size() == 1);
  CHECK(is_main_process());
  CHECK_NOTHROW(synchronize());
  CHECK_THROWS_WITH(barrier(), Contains("Call init_process_group() first."));
}

TEST_CASE("a call may wait at its beginning for a peer in another thread, as NCCL does to connect", "[collectives]") {
  std::atomic<int> begun = 0;
  RankThreads(2).each([&](ProcessGroup& group) {
    const at::Tensor own = torch::ones({1});
    run_c10d_call(group, "a call", [&](c10d::ProcessGroup& c10d) {
      ++begun;
      const auto end = std::chrono::steady_clock::now() + 30s;
      while (begun < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (begun < 2) throw std::runtime_error("the other rank's call could not begin");
      std::vector<at::Tensor> summed{own};
      return c10d.allreduce(summed);
    });
    if (own.item<float>() != 2) throw std::runtime_error("wrong result");
  });
}
