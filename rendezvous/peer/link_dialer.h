// Opens a connection of some kind to another agent, for another loop: sends an opening, waits for the welcome, and then
// gives the authenticated connection away. The other side: give_away().
//
// It retries until its time limit, as the other agent may know of a round a moment later than we do.
//
// For the thread of its io_context. Hooks are never called inside a function of ours, nor after our destruction; they
// may not destroy us.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "rendezvous/peer/dialer.h"

namespace ddprun::rendezvous {

class LinkDialer {
 public:
  struct Options {
    ControlAddress agent = {};  // its control port
    std::string opening, welcome;
    std::string no_welcome, other_answer;  // why there is no link: "it has no store for this round"
    PeerTrust trust = {};
    Duration within = std::chrono::seconds(10);
    std::shared_ptr<Resolver> names = {};  // empty: its own
  };
  struct Hooks {
    std::function<void(ReleasedPeer)> on_linked;
    std::function<void(const std::string& why)> on_failed;  // either one, once
  };
  LinkDialer(asio::io_context& io, Options options, Hooks hooks);
  // Destruction cancels it; a connection already given away stays.
  LinkDialer(const LinkDialer&) = delete;
  LinkDialer& operator=(const LinkDialer&) = delete;

 private:
  static constexpr std::size_t kWelcomeBytesMax = 256;
  void open(PeerConnection connection);
  void await_welcome();
  void receive(std::size_t count);
  void hand_over();
  void retry(const std::string& why);

  const Options options_;
  const Hooks hooks_;
  const TimePoint deadline_;
  Duration pause_;  // before the next try
  std::optional<PeerConnection> connection_;
  std::string opening_, received_;
  std::array<char, kWelcomeBytesMax> input_{};
  Dialer dialer_;
};

// `connection`: authenticated, and its first message was the opening; nothing was read after that. It gets the welcome
// and is then given to `take`, in its executor.
void give_away(PeerConnection connection, const std::string& welcome, std::function<void(ReleasedPeer)> take);

}  // namespace ddprun::rendezvous
