// How often a randomised test runs: a few times in every test run, many times in `scripts/test.sh --soak`, which keeps
// a table of the results. DDPRUN_SOAK_ROWS=<text> runs only those of its rows that contain the text.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace ddprun::test {

inline bool soaking() { return std::getenv("DDPRUN_SOAK") != nullptr; }

// Run i of a series has the seed first_seed() + i.
inline std::uint64_t first_seed() {
  const char* seed = std::getenv("DDPRUN_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 1;
}

// How often a random check within one process repeats: often in a soak, seldom where a sanitizer makes each ten times
// as long.
inline int often(int times) {
  constexpr int kShare = kSanitized ? 10 : 1;
  return soaking() ? 10 * times : times / kShare;
}

// Repeats a randomised test, each time with another seed. A run is good if it neither threw nor failed a REQUIRE; after
// a bad one the series continues, so that a soak counts all. At the end it adds its line to the table.
class Series {
 public:
  Series(std::string what, int runs, int soak_runs)
      : what_(std::move(what)),
        runs_(!is_chosen(what_) ? 0
              : soaking()       ? soak_runs
                                : runs) {}

  // `remark` is added to the line, as what was measured.
  void run(const std::function<void(std::uint64_t seed)>& once, const std::function<std::string()>& remark = {}) {
    for (int i = 0; i < runs_; ++i) {
      const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
      INFO("seed " << seed);
      try {
        once(seed);
        ++good_;
      } catch (const std::exception& error) {
        FAIL_CHECK(error.what());
      } catch (...) {  // a failed REQUIRE, already counted by Catch
      }
    }
    if (runs_ == 0) return;
    if (remark) what_ += remark();
    write_line();
  }

 private:
  static bool is_chosen(const std::string& what) {
    const char* rows = std::getenv("DDPRUN_SOAK_ROWS");
    return !rows || what.find(rows) != what.npos;
  }

  void write_line() const {
    const char* table = std::getenv("DDPRUN_SOAK_TABLE");
    if (!table || !soaking()) return;
    std::ofstream(table, std::ios::app) << "| " << what_ << " | " << first_seed() << "–" << first_seed() + runs_ - 1
                                        << " | " << runs_ << " | " << good_ << " |\n";
  }

  std::string what_;
  int runs_, good_ = 0;
};

}  // namespace ddprun::test
