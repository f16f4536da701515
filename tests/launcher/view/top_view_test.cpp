#include "launcher/view/top_view.h"

#include "launcher/view/keys.h"
#include "launcher/view/stacks_text.h"
#include "launcher/view/terminal_look.h"
#include "launcher/view/units.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/test.h"
#include "tests/support/top_moments.h"

using nlohmann::json;

namespace {

constexpr Size kSmall{24, 80};

json rank_of(int number, int node) {
  json out = json::parse(R"({"activity": "compute", "collective": "", "step": 100, "age_seconds": 0.25,
                             "load_seconds": 0.5, "compute_seconds": 1.0, "wait_seconds": 2.0,
                             "stopped": false, "paused": false, "held": ""})");
  out["rank"] = number;
  out["node"] = "n" + std::to_string(node);
  out["group_rank"] = node;
  out["memory_bytes"] = (100 + number) << 20;
  return out;
}

json job_of(int nodes, int ranks_each) {
  json out = json::parse(R"({"run_id": "mnist", "state": "running", "state_seconds": 125.0, "problem": "", "round": 3,
                             "step": 100, "total_steps": 900, "steps_per_second": 5.3,
                             "progress": {"text": "11 %, 3 min left"}, "loss": 0.21, "snapshot_age_seconds": 5.0, "ranks": [],
                             "nodes": [], "slow_ranks": [], "restarts": {"charged": 1, "limit": 3},
                             "waits_for": {"text": ""}})");
  for (int node = 0; node < nodes; ++node) {
    out["nodes"].push_back(
        {{"name", "n" + std::to_string(node)}, {"state", "active"}, {"reason", ""}, {"group_rank", node}});
    for (int i = 0; i < ranks_each; ++i) out["ranks"].push_back(rank_of(node * ranks_each + i, node));
  }
  return out;
}

TopView view_of(const json& live) {
  TopView view;
  view.take(live, 1);
  return view;
}

std::vector<std::string> texts_of(const TopView& view, Size size = kSmall) {
  std::vector<std::string> out;
  for (const StyledLine& line : view.frame(size).lines) out.push_back(line.text());
  return out;
}

bool has_line(const TopView& view, const std::string& text, Size size = kSmall) {
  const auto lines = texts_of(view, size);
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.find(text) != line.npos; });
}

void press(TopView& view, const std::string& keys, Size size = kSmall) {
  for (const Key key : keys_of(keys)) view.on(key, size);
}

}  // namespace

TEST_CASE("top shows a tree of nodes and ranks, also of an agent that tells neither condition nor trouble", "[top]") {
  json live = job_of(2, 2);
  live["waits_for"]["text"] = "rank 3 on n1 has computed for 3.1 s";
  live["waits_for"]["ranks"] = {2};
  live["slow_ranks"] = {{{"rank", 0}, {"phase", "compute"}, {"ratio", 1.6}}};
  live["ranks"][2]["step"] = 97;
  live["ranks"][3]["stopped"] = true;
  const auto lines = texts_of(view_of(live));
  REQUIRE(lines.size() == 24);
  CHECK(lines[0] == "mnist  running for 2 min 5 s");
  CHECK(lines[1] == "step 100 of 900  -------------------  11 %, 3 min left  5.3 steps/s  loss 0.2100");
  CHECK(lines[2] == "round 3  nodes 2 active  ranks 4  restarts 1 of 3  saved 5.0 s ago");
  CHECK(lines[3] == "waits for: rank 3 on n1 has computed for 3.1 s");
  CHECK(lines[4] == "  RANK DOES              STEP  LAG  SINCE  MEMORY LOAD COMPUTE WAIT    TROUBLE");
  CHECK(lines[5] == "- n1  active  2 ranks      97    3   0.2s 205 MiB                      1 stopped");
  CHECK(lines[6] == "  3    compute            100    0   0.2s 103 MiB LLLCCCCCCWWWWWWWWWWW stopped");
  CHECK(lines[7] == "  2    compute             97    3   0.2s 102 MiB LLLCCCCCCWWWWWWWWWWW holds up");
  CHECK(lines[8] == "- n0  active  2 ranks     100    0   0.2s 201 MiB                      1 slow");
  CHECK(lines[9] == "  0    compute            100    0   0.2s 100 MiB LLLCCCCCCWWWWWWWWWWW slow 1.6x");
  CHECK(lines[10] == "  1    compute            100    0   0.2s 101 MiB LLLCCCCCCWWWWWWWWWWW");
  CHECK(lines[23] == "j/k: move  Enter: open  s: sort (trouble)  p: stacks  d: drain  q: quit");
}

TEST_CASE("the condition is in the first line, coloured by its level and in words", "[top]") {
  const TopView still = view_of(still_moment());
  const StyledLine first = still.frame(kSmall).lines[0];
  CHECK(first.spans() ==
        std::vector<Span>{{"mnist  ", Style::strong},
                          {"stands still for 4.7 s: ranks 0, 1 and 3 wait for rank 2 (stopped)", Style::attention}});
  CHECK(has_line(still, "round 2  nodes 2 active  ranks 4  restarts 1 of 3  useful 93 %  saved 5.2 s ago"));
  CHECK(has_line(still, "0 steps/s"));
  CHECK(has_line(still, "waits for: rank 2 on n1 has computed for 4.7 s"));
  CHECK_FALSE(has_line(still, "last failure"));  // one sentence on a small terminal
  CHECK(has_line(still, "last failure: rank 1 on n0 was killed by SIGKILL, 1 min 35 s ago", {50, 200}));
  const std::pair<const char*, Style> levels[] = {{"good", Style::good},
                                                  {"busy", Style::busy},
                                                  {"attention", Style::attention},
                                                  {"bad", Style::bad},
                                                  {"over", Style::dim}};
  for (const auto& [level, style] : levels) {
    json live = running_moment();
    live["condition"]["level"] = level;
    CHECK(view_of(live).frame(kSmall).lines[0].spans().back().style == style);
  }
}

TEST_CASE("a sentence is wrapped, and cut only after three lines", "[top]") {
  const auto texts = [](const std::vector<StyledLine>& lines) {
    std::vector<std::string> out;
    for (const StyledLine& line : lines) out.push_back(line.text());
    return out;
  };
  using Lines = std::vector<std::string>;
  CHECK(texts(wrapped_sentence({"id  "}, {"one two three four"}, 12, 3)) ==
        Lines{"id  one two", "    three", "    four"});
  CHECK(texts(wrapped_sentence({"id  "}, {"one two three four five"}, 12, 3)) ==
        Lines{"id  one two", "    three", "    four fi>"});
  CHECK(texts(wrapped_sentence({"a label: "}, {"one two"}, 12, 3)) == Lines{"a label: one", "  two"});
  CHECK(texts(wrapped_sentence({}, {"abcdefghijklmnop q"}, 8, 3)) == Lines{"abcdefg>", "q"});
  CHECK(texts(wrapped_sentence({}, {""}, 8, 3)) == Lines{""});
  CHECK(texts(wrapped_sentence({}, {"\xc3\xa4\xc3\xa4\xc3\xa4 b"}, 3, 3)) == Lines{"\xc3\xa4\xc3\xa4\xc3\xa4", "b"});
}

TEST_CASE("a line is cut by characters, whatever its pieces", "[top]") {
  const StyledLine line = StyledLine("ab", Style::good).add("\xe2\x96\x88\xe2\x96\x88", Style::bad).add("e");
  CHECK(line.width() == 5);
  for (std::size_t columns = 1; columns < 5; ++columns) {
    CHECK(line.cut(columns).width() == columns);
    CHECK(line.cut(columns).text().back() == '>');
  }
  CHECK(line.cut(5).spans() == line.spans());
  CHECK(StyledLine("a").add("  ", Style::dim).add(" ").trimmed().text() == "a");
}

TEST_CASE("colours are shown where the terminal has them and nobody has asked for none", "[top]") {
  const StyledLine line = StyledLine("well", Style::good).add(" ").add("bad", Style::bad);
  const TerminalLook colours = terminal_look({{"TERM", "xterm-256color"}, {"LANG", "de_DE.UTF-8"}});
  CHECK(colours.unicode);
  CHECK(with_escapes(line, false, 80, colours) == "\x1b[32mwell\x1b[m \x1b[1;31mbad\x1b[m");
  CHECK(with_escapes(line, true, 10, colours) == "\x1b[7mwell\x1b[m\x1b[7m \x1b[m\x1b[1;31;7mbad\x1b[m\x1b[7m  \x1b[m");
  const TerminalLook without =
      terminal_look({{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"LC_ALL", "C"}, {"LANG", "C.UTF-8"}});
  CHECK_FALSE(without.unicode);
  CHECK(with_escapes(line, false, 80, without) == "well \x1b[1mbad\x1b[m");
  for (const char* terminal : {"dumb", "vt100", "xterm-mono", ""})
    CHECK_FALSE(terminal_look({{"TERM", terminal}}).colours);
  CHECK_FALSE(terminal_look({}).colours);
  CHECK(terminal_look({{"TERM", "linux"}, {"NO_COLOR", ""}}).colours);
}

TEST_CASE("a large terminal has curves of pace and loss and the last five events", "[top]") {
  const TopView still = view_of(still_moment());
  const Size large{50, 200};
  for (const char* shown : {"pace  0 steps/s  0 to 17.5, last ", "loss  0.2130  ", "events",
                            "failure    rank 1 on n0 was killed by SIGKILL", "restart    round 2",
                            "still      ranks 0, 1 and 3 wait for rank 2 (stopped)"}) {
    INFO(shown);
    CHECK(has_line(still, shown, large));
    CHECK_FALSE(has_line(still, shown, {39, 200}));
    CHECK_FALSE(has_line(still, shown, {50, 159}));
  }
  CHECK_FALSE(has_line(still, "step 100", large));  // the sixth
  TopView blocks(/*unicode=*/true);
  blocks.take(still_moment(), 1);
  CHECK(has_line(blocks, "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88", large));
  for (const Size size : {Size{40, 160}, large, Size{60, 400}})
    for (const std::string& line : texts_of(blocks, size)) CHECK(characters_in(line) <= size.columns);
}

TEST_CASE("without a history the curves are of what top has seen", "[top]") {
  TopView view;
  json live = job_of(1, 2);
  for (int i = 0; i < 2000; ++i) {
    live["steps_per_second"] = i < 1000 ? 4 : 8;
    view.take(live, i);
  }
  CHECK(has_line(view, "pace  8 steps/s  0 to 8, last 33 min ", {50, 200}));
  CHECK_FALSE(has_line(view, "events", {50, 200}));
  for (const char* unknown : {"steps_per_second", "loss"}) live[unknown] = nullptr;
  CHECK_FALSE(has_line(view_of(live), "pace", {50, 200}));
}

TEST_CASE("a curve's cells have the mean of their time, and a gap the value before", "[top]") {
  using Cells = std::vector<std::optional<double>>;
  CHECK(chart_cells({{0, 2}, {500, 4}, {3000, 8}}, 4000, 4) == Cells{3, 3, 3, 8});
  CHECK(chart_cells({{9000, 2}}, 10000, 3) == Cells{{}, {}, 2});
  CHECK(chart_cells({}, 0, 2) == Cells{{}, {}});
  CHECK(chart_rows({{}, 0, 4, 8}, 2, 0, 8, false) == std::vector<std::string>{"   #", " .##"});
  CHECK(chart_rows({5, 5}, 1, 5, 5, false) == std::vector<std::string>{"=="});
}

TEST_CASE("top shows the last line of output of a job that reports no steps and waits for nobody", "[top]") {
  json live = job_of(1, 2);
  live["step"] = nullptr;
  live["last_output"] = {{"line", "epoch 3\x1b[2J"}, {"age_seconds", 42}, {"rank", 1}, {"node", "n0"}};
  CHECK(has_line(view_of(live), "last line: 42 s ago, rank 1: epoch 3\\x1b[2J"));
  CHECK(has_line(view_of(live), "last line: 42 s ago,", {24, 22}));
  CHECK(has_line(view_of(live), "  rank 1: epoch", {24, 22}));
  CHECK(has(view_of(live).plain(), "\nlast line: 42 s ago"));
  live["waits_for"]["text"] = "rank 3";
  CHECK_FALSE(has_line(view_of(live), "last line"));
  live["waits_for"]["text"] = "";
  live["step"] = 100;
  CHECK_FALSE(has_line(view_of(live), "last line"));
}

TEST_CASE("the bar is of the last minute, and stays while nothing moves", "[top]") {
  json live = job_of(1, 2);
  TopView view = view_of(live);
  CHECK(has_line(view,
                 "  0    compute            100    0   0.2s 100 MiB LLLCCCCCCWWWWWWWWWWW"));  // of the round so far
  live["ranks"][0]["compute_seconds"] = 1.75;
  live["ranks"][0]["wait_seconds"] = 2.25;
  live["ranks"][1]["load_seconds"] = 0;
  live["ranks"][1]["compute_seconds"] = 0.1;
  live["ranks"][1]["wait_seconds"] = 0;  // of a new round
  view.take(live, 2);
  for (int second = 3; second < 200; ++second) {
    view.take(live, second);
    CHECK(has_line(view, "100 MiB CCCCCCCCCCCCCCCWWWWW"));
    CHECK(has_line(view, "101 MiB CCCCCCCCCCCCCCCCCCCC"));
  }
  live["ranks"][0]["wait_seconds"] = 3.25;
  view.take(live, 200);
  CHECK(has_line(view, "100 MiB WWWWWWWWWWWWWWWWWWWW"));
}

TEST_CASE("what took at least a hundredth has a letter of the bar", "[top]") {
  CHECK(share_bar({0.01, 0.98, 0.01}, 20).text() == "LCCCCCCCCCCCCCCCCCCW");
  CHECK(share_bar({0, 0.015, 0.985}, 20).text() == "CWWWWWWWWWWWWWWWWWWW");
  CHECK(share_bar({0.001, 0.999, 0}, 20).text() == "CCCCCCCCCCCCCCCCCCCC");
  CHECK(share_bar({0.5, 0.5, 0}, 4).spans() == std::vector<Span>{{"LL", Style::load}, {"CC", Style::compute}});
}

TEST_CASE("ranks in trouble go first, and the cursor stays with its rank", "[top]") {
  TopView view = view_of(running_moment());
  press(view, "jj");
  CHECK(view.selected_rank() == 1);
  view.take(still_moment(), 2);
  CHECK(has_line(view, "- n1  active  2 ranks     357    1   4.7s 4.1 GiB                      1 stopped"));
  CHECK(view.selected_rank() == 1);
  press(view, "gj");
  CHECK(view.selected_rank() == 2);
  TopView many = view_of(many_moment());
  const auto lines = texts_of(many);
  CHECK(lines[5] == "+ n16  active  8 ranks    356    2   0.2s  17 GiB LLLCCCCCCCCCCCCCWWWW 1 held");
  CHECK(lines[6] == "+ n9   active  8 ranks    358    0   0.2s  17 GiB LLLCCCCCCCCCCCCCWWWW 1 slow");
  CHECK(lines[7] == "+ n0   active  8 ranks    358    0   0.2s  16 GiB LLLCCCCCCCCCCCCCWWWW");
  CHECK(has_line(many, " 1 held by the kernel, 1 holds up", {24, 160}));
}

TEST_CASE("256 ranks fit into any terminal: nodes are closed at first, and the cursor stays in sight", "[top]") {
  TopView view = view_of(job_of(32, 8));
  for (const Size size : {Size{24, 80}, Size{50, 200}, Size{10, 40}, Size{5, 20}, Size{1, 1}}) {
    const TopView::Frame frame = view.frame(size);
    CHECK(frame.lines.size() == size.rows);
    for (const StyledLine& line : frame.lines) CHECK(line.width() <= size.columns);
  }
  CHECK(has_line(view, "+ n0   active  8 ranks"));
  press(view, "\n");
  CHECK(has_line(view, "- n0   active  8 ranks"));
  CHECK_FALSE(view.selected_rank());
  press(view, "j");
  CHECK(view.selected_rank() == 0);
  for (const char* key : {"G", "k", "\x1b[5~", "\x1b[6~", "g", "\x1b[B"}) {
    press(view, key);
    const TopView::Frame frame = view.frame(kSmall);
    REQUIRE(frame.selected);
    CHECK(*frame.selected >= 5);
    CHECK(*frame.selected < 23);
  }
  press(view, "G");
  CHECK(has_line(view, "+ n31  active"));
  press(view, "g\n");
  CHECK(has_line(view, "+ n0   active"));
}

TEST_CASE("one node of many ranks is open, and all its ranks can be reached", "[top]") {
  TopView view = view_of(job_of(1, 256));
  CHECK(has_line(view, "- n0  active  "));
  press(view, "G");
  CHECK(view.selected_rank() == 255);
  CHECK(has_line(view, "  255  compute"));
}

TEST_CASE("ranks are sorted by what the user asks for", "[top]") {
  json live = job_of(1, 3);
  live["ranks"][1]["step"] = 90;
  TopView view = view_of(live);
  live["ranks"][2]["compute_seconds"] = 9;
  view.take(live, 2);
  const std::vector<std::pair<std::string, int>> first{{"trouble", 0}, {"rank", 0},     {"steps behind", 1},
                                                       {"memory", 2},  {"own time", 2}, {"trouble", 0}};
  for (const auto& [order, rank] : first) {
    INFO(order);
    CHECK(has_line(view, "sort (" + order + ")"));
    press(view, "gj");
    CHECK(view.selected_rank() == rank);
    press(view, "s");
  }
}

TEST_CASE("stacks are shown in the tree's place until Escape", "[top]") {
  TopView view = view_of(job_of(1, 2));
  CHECK(view.on(Key::stacks, kSmall) == TopView::Wish::stacks);
  std::string text = "rank 1 on n0, process 7: computes\n";
  for (int i = 0; i < 60; ++i) text += "  frame " + std::to_string(i) + "\n";
  view.show_text("rank 1", text);
  CHECK(has_line(view, "rank 1"));
  CHECK(has_line(view, "frame 3"));
  CHECK_FALSE(has_line(view, "frame 59"));
  press(view, "G");
  CHECK(has_line(view, "frame 59"));
  CHECK(view.on(Key::stacks, kSmall) == TopView::Wish::nothing);
  press(view, "\x1b");
  CHECK(has_line(view, "- n0  active"));
  CHECK(view.on(Key::quit, kSmall) == TopView::Wish::quit);
}

TEST_CASE("a node is drained only after a yes, and it is the one that was selected at the question", "[top]") {
  TopView view = view_of(job_of(3, 1));
  press(view, "jjj");  // the rank of n1
  for (const char* no : {"n", "\x1b", "d"}) {
    press(view, "d");
    CHECK(has_line(view, "drain n1: its workers save, and leave it?   y: yes   others: no"));
    CHECK(view.on(keys_of(no).front(), kSmall) == TopView::Wish::nothing);
    CHECK_FALSE(has_line(view, "drain n1:"));
    CHECK(view.on(Key::yes, kSmall) == TopView::Wish::nothing);
  }
  press(view, "d");
  json without = job_of(3, 1);
  without["nodes"].erase(0);
  without["ranks"].erase(0);
  view.take(without, 2);
  CHECK(view.on(Key::yes, kSmall) == TopView::Wish::drain);
  CHECK(view.drained_node().name == "n1");
  CHECK(view.drained_node().argument == "1");
  press(view, "d");
  CHECK(view.on(Key::quit, kSmall) == TopView::Wish::quit);
}

TEST_CASE("the stacks of one rank are found among all", "[top]") {
  const std::string all =
      "rank 1 on a, process 7: waits\n  f\n\nrank 11 on a, process 8: waits\n  g\n\nno worker runs on b\n";
  CHECK(stacks_of_rank(all, 1) == "rank 1 on a, process 7: waits\n  f\n\n");
  CHECK(stacks_of_rank(all, 11) == "rank 11 on a, process 8: waits\n  g\n\nno worker runs on b\n");
  CHECK(stacks_of_rank(all, 2) == "No stacks of rank 2 have come.\n");
  CHECK(stacks_of_rank(all, {}) == all);
}

TEST_CASE("top without a job's answer, without a coordinator, and without ranks", "[top]") {
  TopView view;
  CHECK(texts_of(view)[0] == "asking the job ...");
  view.set_problem("cannot ask");
  CHECK(texts_of(view)[0] == "cannot ask");
  press(view, "jkGg\ns\x1b");
  json alone{{"run_id", "mnist"},
             {"state", "unknown"},
             {"problem", "the coordinator is out of reach now"},
             {"ranks", {rank_of(4, 2)}},
             {"waits_for", {{"text", ""}}}};
  view.take(alone, 1);
  CHECK(texts_of(view)[0] == "mnist  the coordinator is out of reach now");
  CHECK(has_line(view, "- n2  1 rank              100    0 "));
  view.take(job_of(0, 0), 2);
  CHECK(view.frame(kSmall).lines.size() == 24);
  CHECK_FALSE(view.selected_rank());
}

TEST_CASE("without a terminal all nodes are open, and no line is cut", "[top]") {
  const std::string plain = view_of(job_of(32, 8)).plain();
  CHECK(std::count(plain.begin(), plain.end(), '\n') == 4 + 32 + 256);
  CHECK(plain.find("\x1b") == plain.npos);
}

TEST_CASE("keys are read as terminals send them", "[top]") {
  CHECK(keys_of("\x1b[A\x1bOB\x1b[6~\x1b[H\x1b[4~") ==
        std::vector{Key::up, Key::down, Key::page_down, Key::home, Key::end});
  CHECK(keys_of("\x1b") == std::vector{Key::escape});
  CHECK(keys_of("\x1b[1;5Aq") == std::vector{Key::other, Key::quit});
  CHECK(keys_of("\x03").front() == Key::quit);
  CHECK(keys_of("\x1b[").size() == 2);
  CHECK(keys_of("").empty());
}

TEST_CASE("times in a column have seven characters at most", "[top]") {
  for (const double seconds : {0.0, 9.96, 59.4, 59.9, 3599.0, 86399.0, 86400.0 * 99}) {
    CAPTURE(seconds);
    CHECK(short_duration_text(seconds).size() <= 7);
  }
  CHECK(short_duration_text(125) == "2m05s");
  CHECK(short_duration_text(7260) == "2h01m");
}

TEST_CASE("nothing that a job answers acts on the terminal", "[top]") {
  const std::string attack =
      "a\x1b]0;title\x07\xc2\x9b"
      "2J\nb\r";
  json live = job_of(1, 1);
  for (const char* field : {"run_id", "state", "problem"}) live[field] = attack;
  for (const char* field : {"name", "state", "reason"}) live["nodes"][0][field] = attack;
  for (const char* field : {"activity", "collective", "node"}) live["ranks"][0][field] = attack;
  live["waits_for"]["text"] = attack;
  TopView view = view_of(live);
  const auto is_clean = [&] {
    const auto lines = texts_of(view, {24, 300});
    return std::all_of(lines.begin(), lines.end(), [](const std::string& line) { return visible(line) == line; });
  };
  CHECK(is_clean());
  CHECK(has_line(view, "waits for: a\\x1b]0;title\\x07\\xc2\\x9b2J\\x0ab\\x0d", {24, 300}));
  view.set_problem(attack);
  CHECK(is_clean());
  json newer = still_moment();
  newer["condition"]["text"] = attack;
  newer["last_failure"]["text"] = attack;
  newer["progress"]["text"] = attack;
  newer["ranks"][0]["trouble"] = attack;
  for (json& mark : newer["history"]["marks"]) mark[1] = mark[2] = attack;
  for (const StyledLine& line : view_of(newer).frame({50, 300}).lines) CHECK(visible(line.text()) == line.text());
  live["state"] = "unknown";
  view = view_of(live);
  CHECK(is_clean());
  press(view, "d");
  CHECK(is_clean());
  press(view, "n");
  view.show_text("stacks", attack + "\n\tline " + attack);
  CHECK(is_clean());
  TopView asks;
  asks.set_problem(attack);
  view = asks;
  CHECK(is_clean());
}
