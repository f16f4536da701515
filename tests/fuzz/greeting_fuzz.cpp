#include "rendezvous/peer/greeting.h"

#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::fuzz;

DDPRUN_FUZZER(greeting) {
  const std::string bytes = text_of(data, size);
  const ParsedGreeting parsed = parse_greeting(bytes);
  promise((parsed.state == GreetingState::bad) == !parsed.complaint.empty(),
          "what is no greeting is told, and only that");
  if (parsed.state != GreetingState::complete) return 0;
  promise(encode(parsed.greeting) == bytes.substr(0, parsed.size), "a greeting is written as it was read");
  for (std::size_t shorter = 0; shorter < parsed.size; ++shorter)
    promise(parse_greeting(bytes.substr(0, shorter)).state == GreetingState::need_more,
            "a part of a greeting needs more");
  return 0;
}
