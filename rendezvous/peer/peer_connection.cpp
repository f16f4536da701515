#include "rendezvous/peer/peer_connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kHandshakeInputBytes = 4 << 10;  // a whole handshake by token
constexpr std::size_t kInputBytes = 8 << 10;           // a coordinator holds one for each of thousands of agents
constexpr std::size_t kOutputBytes = 32 << 10;         // what is encrypted at a time

// A socket for both families gives IPv4 addresses as ::ffff:10.0.0.7.
std::string numeric(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

// That this thread has used.
Duration time_of_core() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

class PeerConnection::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::ip::tcp::socket socket, PeerRole role, const PeerTrust& trust)
      : socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        tls_(trust.tls),
        own_{role, trust.own},
        unauthenticated_bytes_max_(trust.limits.unauthenticated_bytes_max) {}

  void handshake(TimePoint deadline, HandshakeHandler done);
  bool closed_silently() const { return closed_silently_; }
  Duration handshake_cost() const { return handshake_cost_; }
  void read_some(asio::mutable_buffer to, ReadHandler done);
  void write(asio::const_buffer bytes, Handler done);
  void release(std::function<void(ReleasedPeer)> done);
  void close();
  const NodeIdentity& peer() const { return theirs_.from; }
  const asio::ip::tcp::socket& socket() const { return socket_; }

 private:
  // Authentication.
  template <class Step>
  void attempt(Step step);
  void begin_handshake();
  void continue_handshake();
  std::string closed_message() const;
  void take_handshake_bytes(std::string_view bytes);
  bool tls_handshake();
  bool read_greeting();
  void check_greeting(const ParsedGreeting& parsed);
  void greet(const Greeting& greeting);
  void await_handshake_bytes();
  void finish_handshake();
  void refuse(const std::string& why);

  // Reading.
  void decrypt();
  void receive();
  void finish_read(const std::error_code& error, std::size_t count);

  // Writing. Bytes leave in the order of output_, then unwritten_.
  void pump();
  void collect_output();
  bool encrypt_some();
  void send(asio::const_buffer bytes, bool unwritten);
  void finish_write(const std::error_code& error);
  void send_closing_alert();

  void finish_release();
  ReleasedPeer detach();
  void close_socket();
  // Handlers are posted, so they may destroy us: no function of ours calls them.
  template <class Function, class... Arguments>
  void call(Function& handler, const Arguments&... arguments) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), handler = std::exchange(handler, {}), arguments...] {
      if (!self->abandoned_) handler(arguments...);
    });
  }

  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;
  const std::shared_ptr<TlsContext> tls_;
  std::unique_ptr<TlsSession> session_;  // empty: plain, or a server whose client has not sent anything yet
  const Greeting own_;
  Greeting theirs_;
  const std::size_t unauthenticated_bytes_max_;
  std::size_t unauthenticated_bytes_ = 0;
  bool closed_silently_ = false;
  Duration handshake_cost_ = {};
  bool tls_authenticated_ = false, greeted_ = false, authenticated_ = false;
  bool abandoned_ = false;  // its owner wants no more calls
  std::string received_;    // the peer's greeting so far; later the bytes that came after it

  std::vector<char> input_;  // as it came from the socket
  std::string output_;       // as it goes to the socket
  asio::const_buffer unwritten_;
  bool sending_ = false;

  HandshakeHandler on_handshake_;
  asio::mutable_buffer read_to_;
  ReadHandler on_read_;
  Handler on_written_;
  std::function<void(ReleasedPeer)> on_released_;
};

// An error with one peer, even out of memory, must not affect the others.
template <class Step>
void PeerConnection::Impl::attempt(Step step) {
  const Duration before = time_of_core();
  try {
    step();
  } catch (const std::exception& error) {
    refuse(error.what());
  }
  handshake_cost_ += time_of_core() - before;
}

void PeerConnection::Impl::handshake(TimePoint deadline, HandshakeHandler done) {
  check(!on_handshake_ && !authenticated_, "a connection is authenticated once");
  on_handshake_ = std::move(done);
  std::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  deadline_.expires_at(deadline);
  deadline_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error) self->refuse("it did not authenticate in time");
  });
  attempt([&] { begin_handshake(); });
}

void PeerConnection::Impl::begin_handshake() {
  input_.resize(std::min(kHandshakeInputBytes, unauthenticated_bytes_max_));
  tls_authenticated_ = tls_->plain();
  if (own_.role == PeerRole::server) return await_handshake_bytes();
  if (!tls_->plain()) session_ = tls_->open(own_.role);
  continue_handshake();
}

void PeerConnection::Impl::continue_handshake() {
  if (!tls_authenticated_ && !tls_handshake()) return;
  if (own_.role == PeerRole::client && !greeted_) greet(own_);
  if (!read_greeting()) return;
  const ParsedGreeting parsed = parse_greeting(received_);
  if (parsed.state == GreetingState::need_more) return await_handshake_bytes();
  check_greeting(parsed);
}

// False: not yet, or failed.
bool PeerConnection::Impl::tls_handshake() {
  const TlsResult result = session_->handshake();
  pump();
  tls_authenticated_ = result == TlsResult::done;
  if (result == TlsResult::need_input) await_handshake_bytes();
  if (result == TlsResult::failed) refuse(session_->why());
  if (result == TlsResult::closed) refuse("it closed the connection");
  return tls_authenticated_;
}

// Moves readable bytes into received_. False: the connection is unusable.
bool PeerConnection::Impl::read_greeting() {
  std::array<char, 1024> bytes;
  TlsResult result = TlsResult::need_input;
  for (std::size_t count = 0; session_ && parse_greeting(received_).state == GreetingState::need_more;) {
    result = session_->read(bytes.data(), bytes.size(), count);
    if (result != TlsResult::done) break;
    received_.append(bytes.data(), count);
  }
  if (result == TlsResult::failed) return refuse(session_->why()), false;
  if (result == TlsResult::closed) return refuse("it closed the connection"), false;
  return true;
}

void PeerConnection::Impl::check_greeting(const ParsedGreeting& parsed) {
  if (parsed.state == GreetingState::bad) return refuse(parsed.complaint);
  if (const std::string complaint = complaint_about(parsed.greeting, own_); !complaint.empty()) {
    if (parsed.greeting.role == PeerRole::client && own_.role == PeerRole::server) greet(without_a_job());
    return refuse(complaint);
  }
  theirs_ = parsed.greeting;
  received_.erase(0, parsed.size);
  if (!greeted_) greet(own_);
  finish_handshake();
}

void PeerConnection::Impl::greet(const Greeting& greeting) {
  greeted_ = true;
  const std::string bytes = encode(greeting);
  if (!session_)
    output_ += bytes;
  else if (session_->write(bytes) != TlsResult::done)
    return refuse(session_->why());
  pump();
}

void PeerConnection::Impl::await_handshake_bytes() {
  const std::size_t left = unauthenticated_bytes_max_ - unauthenticated_bytes_;
  if (left == 0) return refuse("it sent too much before it was authenticated");
  const auto room = asio::buffer(input_.data(), std::min(input_.size(), left));
  socket_.async_read_some(room, [self = shared_from_this()](const std::error_code& error, std::size_t count) {
    if (!self->on_handshake_) return;  // already finished
    self->closed_silently_ = error && self->unauthenticated_bytes_ == 0;
    if (error) return self->refuse(error == asio::error::eof ? self->closed_message() : error.message());
    self->unauthenticated_bytes_ += count;
    self->attempt([&] { self->take_handshake_bytes({self->input_.data(), count}); });
  });
}

// A server sends nothing to a client whose bytes it does not understand.
std::string PeerConnection::Impl::closed_message() const {
  const std::string closed = "it closed the connection";
  if (own_.role == PeerRole::server || unauthenticated_bytes_ > 0) return closed;
  return closed + (tls_->plain() ? ": perhaps the job has a token or certificates, and this node has none"
                                 : ": perhaps the job has neither token nor certificates, but this node does");
}

void PeerConnection::Impl::take_handshake_bytes(std::string_view bytes) {
  if (tls_->plain()) {
    received_ += bytes;
    return continue_handshake();
  }
  if (!session_ && is_plain_greeting(bytes))
    return refuse("it uses neither a token nor certificates, but this node does");
  if (!session_) session_ = tls_->open(own_.role);
  session_->take_in(bytes);
  continue_handshake();
}

void PeerConnection::Impl::finish_handshake() {
  authenticated_ = true;
  deadline_.cancel();
  if (session_) input_.resize(kInputBytes);
  call(on_handshake_, std::string());
}

void PeerConnection::Impl::refuse(const std::string& why) {
  if (!on_handshake_) return;
  close_socket();
  call(on_handshake_, why);
}

void PeerConnection::Impl::read_some(asio::mutable_buffer to, ReadHandler done) {
  check(authenticated_ && !on_read_, "a connection is read after authentication, by one reader");
  check(to.size() > 0, "a read has room");
  read_to_ = to;
  on_read_ = std::move(done);
  if (!received_.empty()) {
    const std::size_t count = std::min(received_.size(), to.size());
    std::memcpy(to.data(), received_.data(), count);
    received_.erase(0, count);
    return finish_read({}, count);
  }
  session_ ? decrypt() : receive();
}

void PeerConnection::Impl::decrypt() {
  std::size_t count = 0;
  const TlsResult result = session_->read(static_cast<char*>(read_to_.data()), read_to_.size(), count);
  pump();  // TLS may send messages of its own, such as new keys
  if (result == TlsResult::need_input) return receive();
  if (result == TlsResult::closed) return finish_read(asio::error::eof, 0);
  if (result == TlsResult::failed) return finish_read(std::make_error_code(std::errc::bad_message), 0);
  finish_read({}, count);
}

void PeerConnection::Impl::receive() {
  const auto room = session_ ? asio::buffer(input_) : read_to_;
  socket_.async_read_some(room, [self = shared_from_this()](const std::error_code& error, std::size_t count) {
    if (!self->on_read_) return;
    if (!self->session_) return self->finish_read(error, count);
    if (error == asio::error::eof)  // without close_notify
      return self->finish_read(std::make_error_code(std::errc::connection_aborted), 0);
    if (error) return self->finish_read(error, 0);
    self->session_->take_in({self->input_.data(), count});
    self->decrypt();
  });
}

void PeerConnection::Impl::finish_read(const std::error_code& error, std::size_t count) {
  call(on_read_, error, count);
}

void PeerConnection::Impl::write(asio::const_buffer bytes, Handler done) {
  check(authenticated_ && !on_written_, "a connection is written after authentication, by one writer");
  unwritten_ = bytes;
  on_written_ = std::move(done);
  pump();
}

// One write of the socket at a time.
void PeerConnection::Impl::pump() {
  if (sending_ || !socket_.is_open()) return;
  collect_output();
  if (output_.empty() && on_written_ && unwritten_.size() == 0) finish_write({});
  if (output_.empty() && unwritten_.size() > 0 && session_ && !encrypt_some())
    return finish_write(std::make_error_code(std::errc::bad_message));
  if (!output_.empty()) return send(asio::buffer(output_), false);
  if (unwritten_.size() > 0) send(unwritten_, true);
}

void PeerConnection::Impl::collect_output() {
  if (!session_) return;
  std::array<char, 4096> bytes;
  while (const std::size_t count = session_->take_out(bytes.data(), bytes.size())) output_.append(bytes.data(), count);
}

bool PeerConnection::Impl::encrypt_some() {
  const std::size_t count = std::min(unwritten_.size(), kOutputBytes);
  if (session_->write({static_cast<const char*>(unwritten_.data()), count}) != TlsResult::done) return false;
  unwritten_ += count;
  collect_output();
  return true;
}

void PeerConnection::Impl::send(asio::const_buffer bytes, bool unwritten) {
  sending_ = true;
  asio::async_write(socket_, bytes, [self = shared_from_this(), unwritten](const std::error_code& error, std::size_t) {
    self->sending_ = false;
    if (unwritten)
      self->unwritten_ = {};
    else
      self->output_.clear();
    if (self->on_released_) return self->finish_release();
    if (error) return self->finish_write(error);  // without a pending write, the next read reports it
    self->pump();
  });
}

void PeerConnection::Impl::finish_write(const std::error_code& error) {
  unwritten_ = {};
  if (on_written_) call(on_written_, error);
}

void PeerConnection::Impl::release(std::function<void(ReleasedPeer)> done) {
  check(authenticated_ && !on_read_ && !on_written_,
        "a released connection is authenticated, and not being read or written");
  on_released_ = std::move(done);
  if (!sending_) finish_release();
}

void PeerConnection::Impl::finish_release() {
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), done = std::exchange(on_released_, {})] { done(self->detach()); });
}

ReleasedPeer PeerConnection::Impl::detach() {
  std::error_code error;
  const int fd = socket_.release(error);  // if that fails, the socket closes it
  return {theirs_.from, Fd(error ? -1 : fd), tls_, std::move(session_), std::move(received_)};
}

// An alert or a close_notify, as far as the socket takes it.
void PeerConnection::Impl::send_closing_alert() {
  if (!session_ || sending_) return;
  if (authenticated_) session_->write_close_notify();
  collect_output();
  std::error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.write_some(asio::buffer(output_), ignored);
}

void PeerConnection::Impl::close_socket() {
  if (!socket_.is_open()) return;
  send_closing_alert();
  std::error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
}

void PeerConnection::Impl::close() {
  abandoned_ = true;
  on_handshake_ = {};
  on_read_ = {};
  on_written_ = {};
  close_socket();
}

PeerConnection::PeerConnection(asio::ip::tcp::socket socket, PeerRole role, const PeerTrust& trust)
    : impl_(std::make_shared<Impl>(std::move(socket), role, trust)) {}

PeerConnection& PeerConnection::operator=(PeerConnection&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

PeerConnection::~PeerConnection() {
  if (impl_) impl_->close();
}

void PeerConnection::handshake(TimePoint deadline, HandshakeHandler done) {
  impl_->handshake(deadline, std::move(done));
}
bool PeerConnection::closed_silently() const { return impl_->closed_silently(); }
Duration PeerConnection::handshake_cost() const { return impl_->handshake_cost(); }
void PeerConnection::read_some(asio::mutable_buffer to, ReadHandler done) { impl_->read_some(to, std::move(done)); }
void PeerConnection::write(asio::const_buffer bytes, Handler done) { impl_->write(bytes, std::move(done)); }
void PeerConnection::release(std::function<void(ReleasedPeer)> done) && {
  std::exchange(impl_, {})->release(std::move(done));
}
void PeerConnection::close() { impl_->close(); }
const NodeIdentity& PeerConnection::peer() const { return impl_->peer(); }

std::string PeerConnection::remote_address() const {
  std::error_code gone;
  const auto endpoint = impl_->socket().remote_endpoint(gone);
  return gone ? "" : numeric(endpoint.address());
}

std::string PeerConnection::local_address() const {
  std::error_code gone;
  const auto endpoint = impl_->socket().local_endpoint(gone);
  return gone ? "" : numeric(endpoint.address());
}

}  // namespace ddprun::rendezvous
