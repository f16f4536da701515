// Whether a process that reports nothing works all the same: its stack moves, it reads or writes, or it computes as it
// did in training. Such a one is not ended as hung.
//
// A value: it gets one sample every few seconds.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/stacks/process_stacks.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct LifeSample {
  TimePoint at;
  std::vector<std::string> functions = {};  // of its main thread, the innermost first; empty: not known
  double bytes = 0;                         // read and written since its start, with all that it has started
  double cpu_s = 0, cpu_s_of_children = 0;  // since their start
  Duration ran = {};                        // since the round's workers have started
  std::uint64_t collectives = 0;            // entered, by its record; 0: not known
  bool loads = false;                       // it waits for data: what it has started may be what hangs
};

class SignsOfLife {
 public:
  // One that is no newer than the last one says nothing, and is not added.
  void add(LifeSample sample);
  // "its stack moves", "it reads and writes 3.1 MB/s". Empty: there is none since the sample before the last one.
  std::string in_words() const;

 private:
  std::vector<LifeSample> last_;  // at most three
};

// What /proc says of a process here, and of what it has started.
void add_from_proc(pid_t worker, LifeSample& sample);

}  // namespace ddprun::agent
