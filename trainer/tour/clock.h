// Computes the offset between the clocks of two machines from round trips of messages. Pure.
//
// Source: RFC 5905 (NTP), section 8: the fastest round trip is the most exact, and half of it is the uncertainty.
#pragma once
#include <vector>

namespace ddprun::train {

// Milliseconds: sent and received by the asking machine's clock, answered by the answering machine's.
struct RoundTrip {
  double sent, answered, received;
};

struct ClockOffset {
  double ms = 0;           // asking clock = answering clock + ms
  double uncertainty = 0;  // the uncertainty of `ms`
};

// Needs at least one.
ClockOffset offset_from(const std::vector<RoundTrip>& trips);

}  // namespace ddprun::train
