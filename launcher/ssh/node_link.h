// A connection to ddprun on another host: an ssh, or on this machine ddprun itself, with its pipes.
//
// Edge: for the main thread and its io_context. It tells of each host of its branch exactly one end: refused, ended or
// lost; if the first one is refused, of that alone, and the others are unreached(). A host that sends nothing for
// kContactLimit is lost. All that runs on the other side ends by itself once the connection is gone (host_node.h).
#pragma once
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "agent/logs/line_buffer.h"
#include "launcher/ssh/message.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"
#include "rendezvous/peer/frame.h"

namespace ddprun::launcher {

constexpr std::chrono::seconds kContactLimit{5};          // as the lease of an agent
constexpr std::chrono::milliseconds kConnectLimit{4500};  // for TCP; a login may take longer
constexpr std::chrono::milliseconds kContactPause{1000};  // between two messages that say: still here

// Whether bytes are waiting there: then the other side is not silent, we are late.
bool has_input(int fd);

class NodeLink {
 public:
  struct Listener {
    std::function<void(const UpMessage&)> on_message;
    std::function<void()> on_closed;
    std::function<bool()> may_read;  // false: nothing is read until resume()
  };
  // `order` is for the host itself: its branch. The command's words; the first is looked up in PATH.
  NodeLink(asio::io_context& io, HostJobOrder order, std::vector<std::string> command, std::string version,
           Listener listener);
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  void start();
  void send(const DownMessage& message);
  void on_second(TimePoint now);  // says that we are still here, and checks that the other side is
  void resume();
  void close();  // the other side ends what it runs, without a further word to us
  bool closed() const { return closed_; }
  // The hosts behind one that could not be reached, to be reached by another way.
  std::vector<JobHost> unreached() const;

 private:
  enum class HostState { asked, ready, over };

  void spawn_command();
  void await_end();
  void limit_connecting();
  void limit_output();
  void read_output();
  void read_errors();
  void take(std::string_view bytes);
  void greeted();
  void take_frames();
  void take_message(const UpMessage& message);
  void write_more();
  void lose(const std::string& why);  // ends the connection
  void over(const std::string& why);  // tells of all hosts that have no end yet
  void end_if_done();
  void refuse_first(const std::string& why);
  const std::string& host() const { return order_.hosts.front().name; }

  asio::io_context& io_;
  HostJobOrder order_;
  const std::vector<std::string> command_;
  const std::string version_;
  Listener listener_;
  std::map<int, HostState> hosts_;
  asio::posix::stream_descriptor input_, output_, errors_, process_fd_;
  asio::steady_timer drain_, connect_;
  pid_t pid_ = 0;
  rendezvous::ExitStatus status_;
  bool ended_ = false, output_ended_ = false, paused_ = false, closed_ = false, writing_ = false, refused_ = false;
  std::string lost_why_;
  std::string unsent_, sending_;
  std::array<char, 65'536> piece_;
  std::array<char, 4'096> error_piece_;
  GreetingReader greeting_;
  rendezvous::FrameReader frames_;
  agent::Tail last_words_;
  TimePoint heard_;
};

}  // namespace ddprun::launcher
