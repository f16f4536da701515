#include "trainer/start/torch_place.h"

#include "rendezvous/base/error.h"
#include "tests/support/test.h"

namespace {

using Map = std::map<std::string, std::string>;

const std::string kInVenv = "/v/lib/python3*/site-packages/torch",
                  kInSystem = "/usr/local/lib/python3*/dist-packages/torch";

// `torches`: version by the pattern that finds it.
std::string search(const Map& environment, const Map& torches) {
  try {
    return find_torch("2.15.0", {environment, [](const std::string& pattern) { return std::vector{pattern}; },
                                 [&](const std::string& folder) {
                                   const auto found = torches.find(folder);
                                   return found == torches.end() ? "" : found->second;
                                 }});
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("an installed train takes the first LibTorch of its version", "[torch_place]") {
  const Map everywhere{{"/d", "2.15.0"}, {kInVenv, "2.15.0"}, {"/opt/libtorch", "2.15.0"}, {kInSystem, "2.15.0"}};
  CHECK(search({{"DDPRUN_TORCH_DIR", "/d"}, {"VIRTUAL_ENV", "/v"}}, everywhere) == "/d");
  CHECK(search({{"DDPRUN_TORCH_DIR", ""}, {"VIRTUAL_ENV", "/v"}}, everywhere) == kInVenv);
  CHECK(search({{"CONDA_PREFIX", "/v"}}, everywhere) == kInVenv);
  CHECK(search({}, everywhere) == "/opt/libtorch");
  CHECK(search({}, {{kInSystem, "2.15.0"}}) == kInSystem);
  CHECK(search({{"VIRTUAL_ENV", "/v"}}, {{kInVenv, "2.11.0"}, {"/opt/libtorch", "2.15.0"}}) == "/opt/libtorch");
}

TEST_CASE("an installed train without a LibTorch of its version says where it looked", "[torch_place]") {
  const std::string remedy =
      ". Install it, as by pip install torch==2.15.0, and name its folder, .../site-packages/torch, in "
      "DDPRUN_TORCH_DIR.";
  CHECK(search({}, {}) == "cannot find LibTorch 2.15.0: none is in /opt/libtorch, none is in " + kInSystem + remedy);
  CHECK(search({{"DDPRUN_TORCH_DIR", "/d"}}, {{"/opt/libtorch", "2.15.0"}}) ==
        "cannot find LibTorch 2.15.0: none is in /d" + remedy);
  CHECK(search({{"DDPRUN_TORCH_DIR", "/d"}}, {{"/d", "2.11.0"}}) ==
        "cannot find LibTorch 2.15.0: /d has 2.11.0" + remedy);
}

TEST_CASE("LibTorch's libraries come before those that the user has named", "[torch_place]") {
  CHECK(library_path("/t", "") == "/t/lib");
  CHECK(library_path("/t", "/a:/b") == "/t/lib:/a:/b");
}
