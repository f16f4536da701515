#include "trainer/loop/result_file.h"

#include <nlohmann/json.hpp>

#include "tests/support/test.h"

TEST_CASE("a result file holds one JSON object, in the order of its making", "[result_file]") {
  const TempFolder folder;
  const auto path = folder.write("result.json", "an older one, longer than what comes");
  check_result_file(path);
  write_result_file(path, {{"steps", 20}, {"accuracy", 0.5}, {"best", std::numeric_limits<double>::quiet_NaN()}});
  CHECK(test::read_file(path) == "{\n  \"steps\": 20,\n  \"accuracy\": 0.5,\n  \"best\": null\n}\n");
}

TEST_CASE("a result file that cannot be made is known before the training", "[result_file]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(check_result_file(folder.path()),
                    Contains("cannot write " + folder.path().string() + ": it is a folder. Name another place."));
  CHECK_THROWS_WITH(check_result_file(folder / "nowhere/result.json"),
                    Contains("nowhere/result.json: there is no folder ") && Contains("nowhere. Create it"));
  CHECK_THROWS_WITH(write_result_file(folder / "nowhere/result.json", {{"steps", 1}}), Contains("cannot write "));
}
