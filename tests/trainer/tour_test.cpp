// The tours by real processes, as people see them: testdata/tours (DDPRUN_UPDATE=1 rewrites it; read the diff).
#include "tests/support/test.h"
#include "tests/trainer/golden_text.h"
#include "tests/trainer/ranks.h"

namespace {

const std::string kWorker = programs_folder() + "/tour_worker";

std::string tour(int ranks, const std::string& name) { return Ranks(ranks, {kWorker, name}).wait_all_good().out; }

std::string golden(const std::string& name, int ranks, const std::string& actual) {
  return golden_text("tests/trainer/testdata/tours/" + name + "_" + std::to_string(ranks) + ".txt", actual);
}

std::string replaced(const std::string& text, const char* pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

// Times, losses and who was last differ from run to run, and with them the columns' widths.
std::string without_measurements(std::string text) {
  text = replaced(text, "[0-9]+\\.[0-9]+(e[-+][0-9]+)?", "#");
  text = replaced(text, "rank [0-9]+ at #", "rank # at #");
  return replaced(text, "  +", "  ");
}

void check_tour(const std::string& name, const std::function<std::string(std::string)>& comparable) {
  for (const int ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    const std::string said = comparable(tour(ranks, name));
    CHECK(said == golden(name, ranks, said));
    CHECK_THAT(said, !Contains("WRONG"));
  }
}

}  // namespace

TEST_CASE("the tours whose numbers are fixed say the same in each run, at 1, 2 and 4 ranks", "[tour]") {
  check_tour(GENERATE("collectives", "sampler", "reduce"), [](const std::string& text) { return text; });
}

TEST_CASE("the tours that measure say the same but for their measurements, at 1, 2 and 4 ranks", "[tour]") {
  check_tour(GENERATE("sync", "dp-vs-ddp"), without_measurements);
}

TEST_CASE("under ddprun a tour is told once", "[tour]") {
  const Ended ended = run({programs_folder() + "/ddprun", "--nproc_per_node=2", kWorker, "sampler"}, 60s);
  CHECK(ended == exited(0));
  CHECK(ended.out == golden("sampler", 2, ended.out));
}

TEST_CASE("a wrong result is shown, and ends every rank with code 1", "[tour]") {
  Ranks ranks(3, {kWorker, "wrong"});
  for (int rank = 0; rank < 3; ++rank) CHECK(ranks[rank].wait_exit(60s) == exited(1));
  CHECK_THAT(ranks[0].out(), Contains("  WRONG on rank 1: it should be [2].\n"));
  CHECK(ranks[1].out() == "");
}

TEST_CASE("clocks of other machines are compared before their times are put beside each other", "[tour]") {
  const std::string said =
      Ranks(2, {kWorker, "sync"}, {{"GROUP_RANK", "{rank}"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}})
          .wait_all_good()
          .out;
  CHECK_THAT(said, Contains("1 rank is on another machine: its clock was compared with rank 0's by 16 messages"));
  CHECK_THAT(said, Contains("No rank continued before all had arrived.") && !Contains("WRONG"));
}

TEST_CASE("a tour's picture is in the file that was named", "[tour]") {
  const TempFolder folder;
  const std::string svg = folder / "picture.svg";
  CHECK_THAT(Ranks(4, {kWorker, "sampler", svg}).wait_all_good().out, Contains("The picture is in " + svg + ".\n"));
  CHECK(read_file(svg) == read_file(source_folder() + "/docs/sampler.svg"));
  Ranks(2, {kWorker, "sync", svg}).wait_all_good();
  CHECK_THAT(read_file(svg), StartsWith("<svg ") && Contains(">gradients, step 2</text>"));
  CHECK(run({"rsvg-convert", svg, "-o", folder / "picture.png"}, 30s) == exited(0));
}

TEST_CASE("a picture that cannot be written is one sentence, and ends every rank with code 1", "[tour]") {
  const TempFolder folder;
  Ranks ranks(2, {kWorker, "sampler", folder / "nowhere/picture.svg"});
  for (int rank = 0; rank < 2; ++rank) CHECK(ranks[rank].wait_exit(60s) == exited(1));
  CHECK_THAT(ranks[0].out(), Contains("WRONG: cannot write the picture ") && Contains("there is no folder"));
}

TEST_CASE("a tour that there is not, and a picture that no tour draws, are one sentence", "[tour]") {
  const Ended unknown = run({kWorker, "samples"}, 30s);
  CHECK(unknown == exited(2));
  CHECK_THAT(unknown.err,
             StartsWith("cannot run the tour samples: there is no such tour. The tours are:\n  collectives  "));
  const Ended refused = run({kWorker, "reduce", "picture.svg"}, 30s);
  CHECK(refused == exited(2));
  CHECK(refused.err == "cannot draw the tour reduce: it has no picture. Leave the picture out.\n");
}
