// The ledger and the list of excluded machines in real files.
#include "agent/tell/job_state.h"

#include "tests/support/test.h"

namespace {

const LedgerRecord kRecord{.counts = {.crashes = 2},
                           .charges = {{FailureClass::crash, 2, 1s}},
                           .futile = {1, ExitStatus{.code = 1}, "a line"},
                           .excluded = {{"gpu-1", "10.0.0.1", "why", 1h}, {"gpu-7", "10.0.0.7", "why", 1h}}};

LedgerRecord load(const TempFolder& folder) {
  return load_state(folder / "job.json", [](const std::string& line) { FAIL(line); });
}

void save(const TempFolder& folder, const Outcome* outcome) {
  FileThread thread([](const std::string& line) { FAIL(line); });
  JobState state({folder / "job.json", folder / "excluded"}, thread);
  state.save(kRecord, outcome);
}

}  // namespace

TEST_CASE("what is saved while the job runs, or at its interruption, is what the next start continues", "[job_state]") {
  const TempFolder folder;
  CHECK(load(folder) == LedgerRecord{});
  const Outcome interrupted{Verdict::interrupted, 15, "", {}};
  save(folder, GENERATE(true, false) ? nullptr : &interrupted);
  CHECK(load(folder).counts == kRecord.counts);
  CHECK(load(folder).charges.size() == 1);
  CHECK(read_file(folder / "excluded") == "gpu-1,gpu-7\n");
}

TEST_CASE("after a failed job the next start has all restarts again, and knows the failure", "[job_state]") {
  const TempFolder folder;
  const Outcome failed{Verdict::worker_failed, 0, "", {}};
  save(folder, &failed);
  CHECK(load(folder).charges.empty());
  CHECK(load(folder).futile.count == 1);
  CHECK(load(folder).excluded.size() == 2);
}

TEST_CASE("a job that has ended for good leaves no ledger", "[job_state]") {
  const TempFolder folder;
  save(folder, nullptr);
  const Outcome over{GENERATE(Verdict::success, Verdict::worker_final, Verdict::stopped), 0, "", {}};
  save(folder, &over);
  CHECK(read_file(folder / "job.json").empty());
}

TEST_CASE("a folder that is gone is said once, and stops nothing", "[job_state]") {
  const TempFolder folder;
  std::vector<std::string> said;
  FileThread thread([&](const std::string& line) { said.push_back(line); });
  JobState state({folder / "gone/job.json", {}}, thread);
  for (int i = 0; i < 2; ++i) {
    state.save(kRecord, nullptr);
    REQUIRE(thread.drain(20s));
  }
  REQUIRE(said.size() == 1);
  CHECK(said.front().find("gone/job.json (--state-dir): No such file or directory; the next start") !=
        std::string::npos);
}
