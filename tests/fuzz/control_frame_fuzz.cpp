#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/peer/frame.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::fuzz;

namespace {

// Messages until the bytes end or turn bad. `step`: how many bytes come at once.
std::vector<std::string> messages_in(std::string_view all, std::size_t step) {
  FrameReader reader;
  std::vector<std::string> found;
  for (; !all.empty(); all.remove_prefix(std::min(step, all.size()))) {
    reader.add(all.substr(0, step));
    while (auto message = reader.next()) found.push_back(std::move(*message));
  }
  return found;
}

// What is understood, said again, is understood as the same.
template <class Decode>
void reads_its_own(const std::string& bytes, Decode decode) {
  try {
    const std::string again = encode(decode(bytes));
    promise(encode(decode(again)) == again, "what is understood can be said again");
  } catch (const BadMessage&) {
  }
}

}  // namespace

DDPRUN_FUZZER(control_frame) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto messages = messages_in(all, all.size());
  promise(messages == messages_in(all, 1), "how the bytes are cut changes nothing");
  for (const std::string& message : messages) {
    reads_its_own(message, [](const std::string& bytes) { return decode_from_agent(bytes, 7); });
    reads_its_own(message, [](const std::string& bytes) { return decode_to_agent(bytes); });
  }
  return 0;
}
