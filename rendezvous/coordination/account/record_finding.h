// Which rank the others wait for, by all ranks' own records of their collectives. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordination/account/standing.h"

namespace ddprun::rendezvous {

struct RecordFinding {
  int rank = 0;                   // that the others wait for
  std::vector<int> waiting = {};  // in vain, for it or in another call than it is in
  // "it has not entered all_reduce #4127 of tp [64x1024 bfloat16], in which ranks 0 and 2 wait"
  std::string text = {};
  bool certain = true;  // whatever a rank is doing whose record is not known
};

// `in_call`: whether a rank with a call that is not over waits for it; it may also do something else meanwhile.
enum class InCall { by_its_report, by_its_record };

// Empty: by the records that there are no rank is to blame.
//
// A rank waits in the first call of a group that is not over, for each rank of the group that has not entered it. The
// one to blame is waited for, and waits for nobody. If there is none: a rank that is in another operation, or has other
// sizes or types, than most have at the same number; or ranks that wait for each other in different groups.
std::optional<RecordFinding> find_in_records(const std::vector<Standing>& standings, InCall in_call);

}  // namespace ddprun::rendezvous
