#include "rendezvous/store/proxy/store_links.h"

#include <utility>

#include "rendezvous/store/proxy/store_opening.h"

namespace ddprun::rendezvous {
namespace {

LinkDialer::Options link_options(StoreDialer::Options options) {
  return {.agent = {options.host, options.port},
          .opening = encode_store_opening(options.round),
          .welcome = store_welcome(),
          .no_welcome = "it has no store for this round",
          .other_answer = "it does not answer as a store",
          .trust = std::move(options.trust),
          .within = options.within,
          .names = std::move(options.names)};
}

LinkDialer::Hooks link_hooks(const StoreDialer::Options& options, const StoreUpstream& proxy) {
  const std::string failed = "no connection to the store at " + options.host + ", port " + std::to_string(options.port);
  return {[proxy](ReleasedPeer store) { proxy.connected(std::move(store)); },
          [proxy, failed](const std::string& why) { proxy.failed(failed + ": " + why); }};
}

}  // namespace

void serve_store(PeerConnection connection, const StoreGateway& store) {
  give_away(std::move(connection), store_welcome(), [store](ReleasedPeer peer) { store.serve(std::move(peer)); });
}

StoreDialer::StoreDialer(asio::io_context& io, const Options& options, const StoreUpstream& proxy)
    : dialer_(io, link_options(options), link_hooks(options, proxy)) {}

}  // namespace ddprun::rendezvous
