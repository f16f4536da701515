#include "rendezvous/coordination/wire/ledger_file.h"

#include "tests/support/test.h"

namespace {

const WallClock::time_point noon{std::chrono::hours(490'000)};
const JobAccount account = [] {
  JobAccount out{.kept = {.last = 90, .steps = 40, .time = 12'345us}, .rounds = 2};
  out.spent[TimeKind::productive] = 123'456'789us;
  out.spent[TimeKind::hang] = 1us;
  return out;
}();
const LedgerRecord record{.counts = {.crashes = 2},
                          .charges = {{FailureClass::crash, 1, 5min}, {FailureClass::error, 3, 1min}},
                          .last_failure = ExitStatus{.code = 1},
                          .last_line = "KeyError",
                          .repeats = 1,
                          .futile = {2, ExitStatus{.code = 1}, "KeyError"},
                          .excluded = {{"gpu-1", "", "why", 20min}, {"gpu-2", "", "why", 40min}},
                          .learned = {.world_size = 8, .steps = 1000, .step = 120ms, .start = 9s, .save = 3s},
                          .account = account};

std::string why_invalid(const std::string& text) {
  const auto read = read_ledger(text, noon);
  return std::holds_alternative<InvalidLedger>(read) ? std::get<InvalidLedger>(read).why : "";
}

}  // namespace

TEST_CASE("a ledger comes back from its file, older by the time between", "[ledger]") {
  LedgerRecord older = record;
  older.charges[0].age = 35min;
  older.charges[1].age = 31min;
  older.excluded = {{"gpu-2", "", "why", 10min}};
  CHECK(std::get<LedgerRecord>(read_ledger(ledger_text(record, noon), noon + 30min)) == older);
  CHECK(std::get<LedgerRecord>(read_ledger(ledger_text(record, noon), noon)) == record);
  CHECK(std::get<LedgerRecord>(read_ledger(ledger_text(record, noon), noon - 1h)) == record);  // a clock set back
}

TEST_CASE("a ledger from before there were accounts is read, and begins one", "[ledger]") {
  LedgerRecord before = record;
  before.account = {};
  const std::string text = ledger_text(before, noon);
  CHECK(text.find("account") == std::string::npos);
  CHECK(std::get<LedgerRecord>(read_ledger(text, noon)) == before);
}

TEST_CASE("what is no ledger is refused with the reason", "[ledger]") {
  const std::string text = ledger_text(record, noon);
  CHECK(why_invalid("") == "it is not JSON");
  CHECK(why_invalid(text.substr(0, text.size() / 2)) == "it is not JSON");
  CHECK(why_invalid("{}") == "'format' is missing");
  CHECK(why_invalid(R"({"format":9})") == "'format' is out of range");
}
