#include "rendezvous/coordination/round/failure_rules.h"

#include "tests/support/test.h"

namespace {

bool finds_nothing(const FailureRule&) { return false; }

std::string place_of_match(const std::vector<FailureRule>& rules, FailureClass kind, const ExitStatus& status,
                           const FindsPattern& finds = finds_nothing) {
  const auto match = first_match(rules, kind, status, finds);
  return match ? match->place : "";
}

// "1: why" for each rule that can never match.
std::vector<std::string> complaints(const std::vector<FailureRule>& rules) {
  std::vector<std::string> out;
  for (const auto& [index, why] : useless_rules(rules)) out.push_back(std::to_string(index) + ": " + why);
  return out;
}

}  // namespace

TEST_CASE("an end has a class, by its status", "[rules]") {
  CHECK(class_of({}, false) == FailureClass::clean);
  CHECK(class_of({.code = 2}, false) == FailureClass::usage);
  CHECK(class_of({.code = 2}, true) == FailureClass::error);
  CHECK(class_of({.code = 1}, false) == FailureClass::error);
  CHECK(class_of({.code = 139}, false) == FailureClass::crash);  // a shell's word for SIGSEGV
  CHECK(class_of({.code = 130}, false) == FailureClass::error);  // its word for Ctrl-C
  CHECK(class_of({.signal = SIGSEGV}, true) == FailureClass::crash);
  CHECK(class_of({.start_error = ENOENT}, false) == FailureClass::start);
  CHECK(class_of({.hung = true}, true) == FailureClass::hang);
  CHECK(class_of({.stuck = true}, true) == FailureClass::unkillable);
}

TEST_CASE("every class has a name of its own", "[rules]") {
  for (const NamedFailureClass& known : kFailureClasses) {
    CHECK(name_of(known.kind) == known.name);
    CHECK(failure_class(known.name) == known.kind);
  }
  CHECK_FALSE(failure_class("crashes"));
}

TEST_CASE("the first rule whose conditions all hold decides", "[rules]") {
  const std::vector<FailureRule> rules = {{.exit_codes = {77, 78}, .place = "codes"},
                                          {.signals = {SIGSEGV}, .place = "signal"},
                                          {.classes = {FailureClass::error}, .pattern = "NCCL", .place = "pattern"},
                                          {.classes = {FailureClass::error, FailureClass::hang}, .place = "class"}};
  CHECK(place_of_match(rules, FailureClass::error, {.code = 78}) == "codes");
  CHECK(place_of_match(rules, FailureClass::crash, {.signal = SIGSEGV}) == "signal");
  CHECK(place_of_match(rules, FailureClass::crash, {.signal = SIGBUS}) == "");
  CHECK(place_of_match(rules, FailureClass::error, {.code = 1}) == "class");
  CHECK(place_of_match(rules, FailureClass::error, {.code = 1},
                       [](const auto& rule) { return rule.pattern == "NCCL"; }) == "pattern");
  CHECK(place_of_match(rules, FailureClass::hang, {.hung = true}) == "class");
}

TEST_CASE("a rule that an earlier one hides is found, with that one's line", "[rules]") {
  CHECK(complaints({{.classes = {FailureClass::error}, .place = "job.toml:3"}, {.exit_codes = {77}}}).empty());
  CHECK(complaints({{.place = "job.toml:3"}, {.exit_codes = {77}}}) ==
        std::vector<std::string>{"1: the rule at job.toml:3 takes every failure that it would match"});
  CHECK(complaints({{.exit_codes = {1, 77}, .place = "job.toml:3"},
                    {.classes = {FailureClass::error}, .exit_codes = {77}},
                    {.exit_codes = {77, 78}}}) ==
        std::vector<std::string>{"1: the rule at job.toml:3 takes every failure that it would match"});
  CHECK(complaints({{.pattern = "a", .place = "job.toml:3"}, {.pattern = "b"}, {.exit_codes = {1}, .pattern = "a"}}) ==
        std::vector<std::string>{"2: the rule at job.toml:3 takes every failure that it would match"});
}

TEST_CASE("a rule whose conditions exclude each other is found", "[rules]") {
  CHECK(complaints({{.exit_codes = {1}, .signals = {SIGSEGV}}}).size() == 1);
  CHECK(complaints({{.classes = {FailureClass::hang}, .exit_codes = {1}}}).size() == 1);
  CHECK(complaints({{.classes = {FailureClass::error}, .signals = {SIGSEGV}}}).size() == 1);
  CHECK(complaints({{.classes = {FailureClass::lost_node}, .pattern = "x"}}).size() == 1);
  CHECK(complaints({{.classes = {FailureClass::usage}, .exit_codes = {1}}}).size() == 1);
  CHECK(complaints({{.classes = {FailureClass::usage}, .exit_codes = {2}}}).empty());
}

// Whatever useless_rules() accepts can be reached: no rule is refused that would have matched something.
TEST_CASE("a refused rule matches nothing that is left for it", "[rules]") {
  const std::vector<std::pair<FailureClass, ExitStatus>> ends = {{FailureClass::usage, {.code = 2}},
                                                                 {FailureClass::error, {.code = 1}},
                                                                 {FailureClass::error, {.code = 77}},
                                                                 {FailureClass::crash, {.signal = SIGSEGV}},
                                                                 {FailureClass::out_of_memory, {.signal = SIGKILL}},
                                                                 {FailureClass::hang, {.hung = true}},
                                                                 {FailureClass::lost_node, {}}};
  const std::vector<std::set<FailureClass>> classes = {
      {}, {FailureClass::error}, {FailureClass::crash, FailureClass::error}, {FailureClass::lost_node}};
  const std::vector<std::set<int>> codes = {{}, {77}, {1, 77}}, signals = {{}, {SIGSEGV}};
  std::vector<FailureRule> all;
  for (const auto& c : classes)
    for (const auto& code : codes)
      for (const auto& signal : signals) all.push_back({.classes = c, .exit_codes = code, .signals = signal});
  for (const FailureRule& first : all)
    for (const FailureRule& second : all) {
      FailureRule one = first, two = second;
      one.place = "one";
      two.place = "two";
      bool reached = false;
      for (const auto& [kind, status] : ends) reached |= place_of_match({one, two}, kind, status) == "two";
      for (const auto& [index, why] : useless_rules({one, two}))
        if (index == 1) CHECK_FALSE(reached);
    }
}
