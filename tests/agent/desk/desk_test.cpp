#include "agent/desk/desk.h"

#include <nlohmann/json.hpp>

#include "agent/status/act_request.h"
#include "tests/support/test.h"

namespace {

struct Rig {
  std::string& ask(const std::string& line) {
    answer = "none yet";
    desk.on_request({line, "user 1000"}, [this](const std::string& text) { answer = text; });
    return answer;
  }
  template <class Message>
  const Message& sent_last() const {
    return std::get<Message>(sent.back());
  }

  asio::io_context io;
  std::optional<NodeId> node;
  Desk::NodeState state;
  Seat seat{.round = 3};
  std::vector<FromAgent> sent;
  std::string answer;
  agent::NodeView::Hooks view{.seat = [this] { return &seat; },
                              .has_workers = [] { return false; },
                              .complete = [](const auto&) {},
                              .standings = [] { return std::vector<Standing>{}; }};
  Desk desk{io,
            {.push = {.host = "node1", .run_id = "run-7"}},
            {.node = [this] { return node; },
             .send = [this](const FromAgent& message) { sent.push_back(message); },
             .state = [this] { return state; },
             .view = view}};
};

}  // namespace

TEST_CASE("who asks is answered when the coordinator and all nodes have told what was asked", "[desk]") {
  Rig rig;
  rig.node = 7;
  rig.ask("status");
  const int serial = rig.sent_last<Asked>().serial;
  JobView view{.round = 3};
  for (int i = 0; i < 2; ++i) view.nodes.push_back({.group_rank = i});
  rig.desk.on_message(JobReply{7, serial, 2, view});
  rig.desk.on_message(JobReply{7, serial, 2, NodeReport{.group_rank = 1}});
  rig.desk.on_message(JobReply{7, serial + 1, 2, NodeReport{}});
  CHECK(rig.answer == "none yet");
  rig.desk.on_message(JobReply{7, serial, 2, NodeReport{}});
  CHECK(nlohmann::json::parse(rig.answer)["run_id"] == "run-7");

  rig.ask(act_line({.kind = ActKind::restart, .by = "alice on login1"}));
  CHECK(std::get<Act>(rig.sent_last<Asked>().question).by == "alice on login1");
  rig.ask(act_line({.kind = ActKind::restart}));
  CHECK(std::get<Act>(rig.sent_last<Asked>().question).by == "user 1000 on node1");
  const int acts = rig.sent_last<Asked>().serial;
  rig.desk.on_message(JobReply{7, acts, 2, StacksText{}});  // no answer to that
  CHECK(rig.answer == "none yet");
  rig.desk.on_message(JobReply{7, acts, 2, ActResult{true, "it begins"}});
  CHECK(parse_act_result(rig.answer).text == "it begins");

  rig.desk.on_message(AskNodes{{}, 9, 4, AskStatus{}});  // for somebody at another node
  CHECK(rig.sent_last<Answered>().asker == 9);
  CHECK(rig.sent_last<Answered>().serial == 4);
  CHECK(std::holds_alternative<NodeReport>(rig.sent_last<Answered>().answer));
  rig.desk.on_message(AskNodes{{}, 9, 5, AskStacks{}});
  CHECK(rig.sent_last<Answered>().serial == 5);
  CHECK(std::holds_alternative<StacksText>(rig.sent_last<Answered>().answer));
}

TEST_CASE("a question is open until its last reply, or until its limit, and ends once", "[desk]") {
  asio::io_context io;
  OpenQuestions questions(io);
  int ends = 0;
  const auto begin = [&](Duration limit, const std::shared_ptr<StacksReplies>& replies) {
    return questions.begin(
        limit, [replies](const JobReply& reply) { return replies->take(reply); }, [&] { ++ends; });
  };
  const auto complete = std::make_shared<StacksReplies>(), late = std::make_shared<StacksReplies>();
  const int first = begin(1h, complete), second = begin(1ms, late);
  questions.take({7, first, 2, StacksText{"node 1\n"}});
  CHECK(ends == 0);
  questions.take({7, first, 2, StacksText{"node 0\n"}});
  CHECK(ends == 1);
  CHECK(std::move(*complete).result() == "node 0\nnode 1\n");
  questions.take({7, first, 2, StacksText{"again\n"}});
  questions.take({7, second, 2, StacksText{"node 1\n"}});
  CHECK(ends == 1);
  io.run();  // the second one's limit
  CHECK(ends == 2);
  CHECK(std::move(*late).result() == "node 1\n1 of 2 nodes have not answered in time.\n");
  CHECK(StacksReplies().result() == "No node has answered in time.\n");
}

TEST_CASE("a node without a coordinator answers by itself, and bothers nobody", "[desk]") {
  Rig rig;
  CHECK(has(rig.ask("status"), "the coordinator is out of reach now"));
  CHECK(rig.ask("stacks") == "The coordinator is out of reach now.\n");
  CHECK(has(rig.ask(act_line({.kind = ActKind::restart})), "the coordinator is out of reach now"));
  rig.desk.on_message(AskNodes{{}, 9, 1, AskStatus{}});
  rig.desk.on_message(AskNodes{{}, 9, 1, AskStacks{}});
  rig.node = 7;
  CHECK(has(rig.ask("act {}"), "the act is not known"));
  CHECK(rig.ask("what").empty());
  rig.state.over = true;
  CHECK(has(rig.ask("status"), "the job has ended here"));
  CHECK(rig.sent.empty());
}
