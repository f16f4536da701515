#include "launcher/scheduler/node_list.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::fuzz;

// Any text gives names, a bounded number of them, or a sentence.
DDPRUN_FUZZER(node_list) {
  const auto read = expand_node_list(text_of(data, size));
  if (const auto* wrong = std::get_if<settings::Wrong>(&read)) {
    promise(!wrong->complaint.empty(), "a complaint says something");
    return 0;
  }
  const auto& names = std::get<std::vector<std::string>>(read);
  promise(!names.empty() && names.size() <= kListedNodesMax, "a list has some names, not endless ones");
  for (const std::string& name : names) promise(!name.empty() && name.size() <= 255, "a name can be looked up");
  return 0;
}
