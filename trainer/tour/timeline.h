// What each rank did when: as a table, as a finding about who waited for whom, and as a picture. Pure.
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

using Lane = std::vector<Span>;  // of one rank, in the order in which it did them; equally many on all ranks

// A place where no rank goes on before the last one has come: the spans with this index are the waiting.
struct Meeting {
  std::string name;  // "barrier"
  std::size_t span;
};

// Moves the origin to the first thing that any rank does.
void begin_at_zero(std::vector<Lane>& lanes);

std::string table_of(const std::vector<Lane>& lanes);

struct Finding {
  std::string text;
  bool right;  // nobody went on too early, by more than `doubt`
};
Finding finding_of(const std::vector<Lane>& lanes, const Meeting& meeting, double doubt);

// An SVG: a lane per rank, a bar per span, a dashed line at each meeting.
std::string picture_of(const std::vector<Lane>& lanes, const std::vector<Meeting>& meetings);

}  // namespace ddprun::train
