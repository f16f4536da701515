// How often a test with chance in it runs: a few times in every test run, many times in `scripts/test.sh --soak`, which
// keeps a table of the results.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace ddprun::test {

inline bool soaking() { return std::getenv("DDPRUN_SOAK") != nullptr; }

// Run i of a series has the seed first_seed() + i.
inline std::uint64_t first_seed() {
  const char* seed = std::getenv("DDPRUN_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 1;
}

// Counts the runs of one series. Writes its line of the table when it goes out of scope, also after a failed REQUIRE.
class Series {
 public:
  Series(std::string what, int runs, int soak_runs) : what_(std::move(what)), runs_(soaking() ? soak_runs : runs) {}
  ~Series() {
    if (const char* table = std::getenv("DDPRUN_SOAK_TABLE"); table && soaking())
      std::ofstream(table, std::ios::app) << "| " << what_ << " | " << first_seed() << "–" << first_seed() + runs_ - 1
                                          << " | " << runs_ << " | " << good_ << " |\n";
  }
  Series(const Series&) = delete;
  Series& operator=(const Series&) = delete;

  int runs() const { return runs_; }
  void add(bool good) { good_ += good; }

 private:
  std::string what_;
  int runs_, good_ = 0;
};

}  // namespace ddprun::test
