#include "launcher/ssh/message.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::fuzz;

// What is understood, said again, is understood as the same.
DDPRUN_FUZZER(host_message) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto message = decode_down(bytes)) {
    const std::string again = encode(*message);
    const auto twice = decode_down(again);
    promise(twice && encode(*twice) == again, "a message down can be said again");
  }
  if (const auto message = decode_up(bytes)) {
    const std::string again = encode(*message);
    const auto twice = decode_up(again);
    promise(twice && encode(*twice) == again, "a message up can be said again");
  }
  GreetingReader whole, piecewise;
  whole.add(bytes);
  for (const char& byte : bytes) piecewise.add({&byte, 1});
  promise(whole.greeting().has_value() == piecewise.greeting().has_value(), "how the bytes are cut changes nothing");
  return 0;
}
