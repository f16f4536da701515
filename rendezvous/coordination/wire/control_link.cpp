#include "rendezvous/coordination/wire/control_link.h"

#include <utility>

#include <asio/error.hpp>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kInputBytes = 8 << 10;

std::string reason(const std::error_code& error) {
  const bool closed = error == asio::error::eof || error == std::errc::connection_reset ||
                      error == std::errc::connection_aborted || error == std::errc::broken_pipe;
  return closed ? "the other side closed the connection" : error.message();
}

}  // namespace

ControlLink::ControlLink(PeerConnection connection, Hooks hooks)
    : connection_(std::move(connection)),
      hooks_(std::make_shared<Hooks>(std::move(hooks))),
      input_(new char[kInputBytes]) {
  read();
}

ControlLink::~ControlLink() = default;

void ControlLink::read() {
  connection_.read_some(asio::buffer(input_.get(), kInputBytes),
                        [this](const std::error_code& error, std::size_t count) {
                          if (error) return fail(reason(error));
                          reader_.add({input_.get(), count});
                          while (auto message = reader_.next()) {
                            const auto hooks = hooks_;
                            hooks->on_message(std::move(*message));
                            if (closed_) return;
                          }
                          if (reader_.broken()) return fail("the other side sent a message that is too long");
                          read();
                        });
}

void ControlLink::set_hooks(Hooks hooks) { hooks_ = std::make_shared<Hooks>(std::move(hooks)); }

void ControlLink::send(const std::string& message) {
  if (closed_ || stuck()) return;
  unsent_ += framed(message);
  if (sending_.empty()) write();
}

void ControlLink::write() {
  if (unsent_.empty()) return;
  sending_ = std::exchange(unsent_, {});
  connection_.write(asio::buffer(sending_), [this](const std::error_code& error) {
    if (error) return fail(reason(error));
    sending_.clear();
    write();
  });
}

PeerConnection ControlLink::release() {
  closed_ = true;
  return std::move(connection_);
}

void ControlLink::close() {
  if (std::exchange(closed_, true)) return;
  connection_.close();
}

void ControlLink::fail(const std::string& why) {
  if (closed_) return;
  close();
  const auto hooks = hooks_;
  hooks->on_closed(why);
}

}  // namespace ddprun::rendezvous
