// What each rank did when: as a table, as a check of which ranks waited, and as a picture. Pure.
//
// All times are milliseconds since one origin, by one clock.
#pragma once
#include <string>
#include <vector>

namespace ddprun::train {

enum class Activity {
  work,
  barrier,
  forward,
  backward,
  gradients
};  // the last: waiting for the other ranks' gradients

struct Span {
  Activity what;
  double begin, end;
};

using Lane = std::vector<Span>;  // of one rank, in order; the same number on all ranks

// A synchronisation point: no rank continues before the last one arrives. The spans with this index are the waiting.
struct SyncPoint {
  std::string name;  // "barrier"
  std::size_t span;
};

// Moves the origin to the beginning of the first span.
void shift_to_zero(std::vector<Lane>& lanes);

std::string table_of(const std::vector<Lane>& lanes);

struct WaitCheck {
  std::string text;
  bool right;  // no rank continued too early by more than `uncertainty`
};
WaitCheck check_wait(const std::vector<Lane>& lanes, const SyncPoint& sync_point, double uncertainty);

// An SVG: a lane per rank, a bar per span, a dashed line at each sync point.
std::string picture_of(const std::vector<Lane>& lanes, const std::vector<SyncPoint>& sync_points);

}  // namespace ddprun::train
