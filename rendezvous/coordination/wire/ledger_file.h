// The restart ledger as the text of a file, which keeps it from one start of the job to the next. Pure.
#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

using WallClock = std::chrono::system_clock;  // a start may be on another machine

std::string ledger_text(const LedgerRecord& record, WallClock::time_point now);

struct InvalidLedger {
  std::string why;
};
// Its charges are as much older as time has passed since it was written.
std::variant<LedgerRecord, InvalidLedger> read_ledger(std::string_view text, WallClock::time_point now);

}  // namespace ddprun::rendezvous
