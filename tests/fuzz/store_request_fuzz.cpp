#include "rendezvous/store/request_parser.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::fuzz;

namespace {

// Requests found until the bytes end or turn bad. `step`: how many bytes come at once.
std::string requests_in(std::string_view all, std::size_t step) {
  RequestParser parser;
  std::string found;
  while (!all.empty()) {
    std::string_view piece = all.substr(0, step);
    all.remove_prefix(piece.size());
    while (!piece.empty()) {
      const Parsed parsed = parser.feed(piece);
      if (parsed == Parsed::bad) return found + "bad";
      if (parsed == Parsed::need_more) break;
      const Request request = parser.take();
      found += std::to_string(static_cast<int>(request.op)) + "/" + std::to_string(request.keys.size()) + " ";
      for (const std::string& key : request.keys) found += key + ",";
    }
  }
  return found;
}

}  // namespace

DDPRUN_FUZZER(store_request) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  promise(requests_in(all, all.size()) == requests_in(all, 1), "how the bytes are cut changes nothing");
  return 0;
}
