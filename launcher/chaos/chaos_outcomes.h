// Whether a job has recovered from a fault, by what it says of itself (agent/status/status_json.h), and the table of
// all faults. Values.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordination/inquiry/fault.h"

namespace ddprun::launcher {

// A round runs, and all its ranks have completed a step in it.
bool trains(const nlohmann::json& live);

class Recovery {
 public:
  // `before`: what the job, which trains, says before the fault.
  Recovery(const nlohmann::json& before, const rendezvous::Fault& fault);

  // `live`: `seconds` after the fault. True once all ranks have done a step of a later round, or start of the job, or,
  // where the fault may end no round, after its time is over. Also once a node has declined to suffer it.
  bool on(const nlohmann::json& live, double seconds);
  std::int64_t steps_lost() const { return lost_; }  // done again, as far as the looks at the job show
  bool declined() const { return declined_; }
  int charged() const { return charged_; }  // restarts that count against --max-restarts

 private:
  const rendezvous::Fault fault_;
  int round_ = 0, charged_before_ = 0, charged_ = 0;
  bool declined_ = false;
  double run_seconds_ = 0;
  std::int64_t step_ = 0, lost_ = 0;
  std::optional<std::int64_t> step_at_end_ = {};  // when the fault's time was over
};

struct ChaosOutcome {
  rendezvous::FaultKind kind;
  std::optional<double> seconds = {};  // to the recovery; empty: it has not
  std::int64_t steps_lost = 0;
  int charged = 0;
};

bool all_recovered(const std::vector<ChaosOutcome>& outcomes);
// A row for each class.
std::string chaos_table(const std::vector<ChaosOutcome>& outcomes);
// `declined`: how many faults were not done.
nlohmann::json chaos_json(std::uint64_t seed, const std::vector<ChaosOutcome>& outcomes, int declined = 0);

}  // namespace ddprun::launcher
