// The first messages on a connection that carries a round's store to another node, before the store's server and the
// store proxy take it: "store of round 7, please", and "here it is". JSON, framed (frame.h), like agents' other first
// messages.
//
// After its opening the proxy's side is silent until the welcome; then the binary protocol begins (link_protocol.h). If
// this is not the round, or not yet, the store's side closes, and the other one tries again.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::rendezvous {

std::string encode_store_opening(int round);
// The round; empty for another message.
std::optional<int> parse_store_opening(std::string_view message);

std::string store_welcome();
bool is_store_welcome(std::string_view message);

}  // namespace ddprun::rendezvous
