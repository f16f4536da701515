// How the clocks of two machines differ, by messages that went there and back. Pure.
//
// Source: RFC 5905 (NTP), section 8: the round trip that was fastest tells most, and its half is the doubt.
#pragma once
#include <vector>

namespace ddprun::train {

// Milliseconds: sent and received by the clock of who asks, answered by the clock of who answers.
struct RoundTrip {
  double sent, answered, received;
};

struct ClockOffset {
  double add = 0;    // to a time of who answers, for the time of who asks
  double doubt = 0;  // it may be off by so much
};

// At least one.
ClockOffset offset_from(const std::vector<RoundTrip>& trips);

}  // namespace ddprun::train
