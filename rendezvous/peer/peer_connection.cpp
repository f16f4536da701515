#include "rendezvous/peer/peer_connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kInputBytesAtFirst = 4 << 10;  // a whole handshake by token
constexpr std::size_t kInputBytes = 8 << 10;         // a coordinator holds one for each of thousands of agents
constexpr std::size_t kOutputBytes = 32 << 10;       // what is encrypted at a time

// A socket for both families gives IPv4 addresses as ::ffff:10.0.0.7.
std::string numeric(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

}  // namespace

class PeerConnection::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::ip::tcp::socket socket, PeerRole role, const PeerTrust& trust)
      : socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        tls_(trust.tls),
        own_{role, trust.own},
        bytes_before_proof_max_(trust.limits.bytes_before_proof_max) {}

  void handshake(TimePoint deadline, ProofHandler done);
  bool left_silently() const { return left_silently_; }
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
  void begin_proof();
  void go_on_proving();
  std::string closed_in_words() const;
  void take_proof(std::string_view bytes);
  bool tls_proves();
  bool hear();
  void judge(const ParsedGreeting& parsed);
  void greet(const Greeting& greeting);
  void await_proof();
  void be_proved();
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
  void send_last_words();

  void finish_release();
  ReleasedPeer take_apart();
  void shut();
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
  const std::size_t bytes_before_proof_max_;
  std::size_t bytes_before_proof_ = 0;
  bool left_silently_ = false;
  bool tls_proved_ = false, greeted_ = false, proved_ = false;
  bool abandoned_ = false;  // its owner wants no more calls
  std::string heard_;       // the peer's greeting so far; later the bytes that came after it

  std::vector<char> input_;  // as it came from the socket
  std::string output_;       // as it goes to the socket
  asio::const_buffer unwritten_;
  bool sending_ = false;

  ProofHandler on_proof_;
  asio::mutable_buffer read_to_;
  ReadHandler on_read_;
  Handler on_written_;
  std::function<void(ReleasedPeer)> on_released_;
};

// An error with one peer, even out of memory, must not affect the others.
template <class Step>
void PeerConnection::Impl::attempt(Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    refuse(error.what());
  }
}

void PeerConnection::Impl::handshake(TimePoint deadline, ProofHandler done) {
  check(!on_proof_ && !proved_, "that a connection is proved once");
  on_proof_ = std::move(done);
  std::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  deadline_.expires_at(deadline);
  deadline_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error) self->refuse("it did not prove itself in time");
  });
  attempt([&] { begin_proof(); });
}

void PeerConnection::Impl::begin_proof() {
  input_.resize(std::min(kInputBytesAtFirst, bytes_before_proof_max_));
  tls_proved_ = tls_->plain();
  if (own_.role == PeerRole::server) return await_proof();
  if (!tls_->plain()) session_ = tls_->open(own_.role);
  go_on_proving();
}

void PeerConnection::Impl::go_on_proving() {
  if (!tls_proved_ && !tls_proves()) return;
  if (own_.role == PeerRole::client && !greeted_) greet(own_);
  if (!hear()) return;
  const ParsedGreeting parsed = parse_greeting(heard_);
  if (parsed.state == GreetingState::need_more) return await_proof();
  judge(parsed);
}

// False: not yet, or failed.
bool PeerConnection::Impl::tls_proves() {
  const TlsResult result = session_->handshake();
  pump();
  tls_proved_ = result == TlsResult::done;
  if (result == TlsResult::need_input) await_proof();
  if (result == TlsResult::failed) refuse(session_->why());
  if (result == TlsResult::closed) refuse("it closed the connection");
  return tls_proved_;
}

// Moves readable bytes into heard_. False: the connection is unusable.
bool PeerConnection::Impl::hear() {
  std::array<char, 1024> bytes;
  TlsResult result = TlsResult::need_input;
  for (std::size_t count = 0; session_ && parse_greeting(heard_).state == GreetingState::need_more;) {
    result = session_->read(bytes.data(), bytes.size(), count);
    if (result != TlsResult::done) break;
    heard_.append(bytes.data(), count);
  }
  if (result == TlsResult::failed) return refuse(session_->why()), false;
  if (result == TlsResult::closed) return refuse("it closed the connection"), false;
  return true;
}

void PeerConnection::Impl::judge(const ParsedGreeting& parsed) {
  if (parsed.state == GreetingState::bad) return refuse(parsed.complaint);
  if (const std::string complaint = complaint_about(parsed.greeting, own_); !complaint.empty()) {
    if (parsed.greeting.role == PeerRole::client && own_.role == PeerRole::server) greet(without_a_job());
    return refuse(complaint);
  }
  theirs_ = parsed.greeting;
  heard_.erase(0, parsed.size);
  if (!greeted_) greet(own_);
  be_proved();
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

void PeerConnection::Impl::await_proof() {
  const std::size_t left = bytes_before_proof_max_ - bytes_before_proof_;
  if (left == 0) return refuse("it sent too much before it proved itself");
  const auto room = asio::buffer(input_.data(), std::min(input_.size(), left));
  socket_.async_read_some(room, [self = shared_from_this()](const std::error_code& error, std::size_t count) {
    if (!self->on_proof_) return;  // already finished
    self->left_silently_ = error && self->bytes_before_proof_ == 0;
    if (error) return self->refuse(error == asio::error::eof ? self->closed_in_words() : error.message());
    self->bytes_before_proof_ += count;
    self->attempt([&] { self->take_proof({self->input_.data(), count}); });
  });
}

// A server sends nothing to a client whose bytes it does not understand.
std::string PeerConnection::Impl::closed_in_words() const {
  const std::string closed = "it closed the connection";
  if (own_.role == PeerRole::server || bytes_before_proof_ > 0) return closed;
  return closed + (tls_->plain() ? ": perhaps the job has a token or certificates, and this node has none"
                                 : ": perhaps the job has neither token nor certificates, and this node has");
}

void PeerConnection::Impl::take_proof(std::string_view bytes) {
  if (tls_->plain()) {
    heard_ += bytes;
    return go_on_proving();
  }
  if (!session_ && is_plain_greeting(bytes)) return refuse("it has no token and no certificate, and we have");
  if (!session_) session_ = tls_->open(own_.role);
  session_->take_in(bytes);
  go_on_proving();
}

void PeerConnection::Impl::be_proved() {
  proved_ = true;
  deadline_.cancel();
  if (session_) input_.resize(kInputBytes);
  call(on_proof_, std::string());
}

void PeerConnection::Impl::refuse(const std::string& why) {
  if (!on_proof_) return;
  shut();
  call(on_proof_, why);
}

void PeerConnection::Impl::read_some(asio::mutable_buffer to, ReadHandler done) {
  check(proved_ && !on_read_, "that a connection is read once it is proved, by one reader");
  check(to.size() > 0, "that a read has room");
  read_to_ = to;
  on_read_ = std::move(done);
  if (!heard_.empty()) {
    const std::size_t count = std::min(heard_.size(), to.size());
    std::memcpy(to.data(), heard_.data(), count);
    heard_.erase(0, count);
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
  check(proved_ && !on_written_, "that a connection is written once it is proved, by one writer");
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
  check(proved_ && !on_read_ && !on_written_,
        "that a released connection is proved, and that nobody reads or writes it");
  on_released_ = std::move(done);
  if (!sending_) finish_release();
}

void PeerConnection::Impl::finish_release() {
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), done = std::exchange(on_released_, {})] { done(self->take_apart()); });
}

ReleasedPeer PeerConnection::Impl::take_apart() {
  std::error_code error;
  const int fd = socket_.release(error);  // if that fails, the socket closes it
  return {theirs_.from, Fd(error ? -1 : fd), tls_, std::move(session_), std::move(heard_)};
}

// An alert or a close_notify, as far as the socket takes it.
void PeerConnection::Impl::send_last_words() {
  if (!session_ || sending_) return;
  if (proved_) session_->say_goodbye();
  collect_output();
  std::error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.write_some(asio::buffer(output_), ignored);
}

void PeerConnection::Impl::shut() {
  if (!socket_.is_open()) return;
  send_last_words();
  std::error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
}

void PeerConnection::Impl::close() {
  abandoned_ = true;
  on_proof_ = {};
  on_read_ = {};
  on_written_ = {};
  shut();
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

void PeerConnection::handshake(TimePoint deadline, ProofHandler done) { impl_->handshake(deadline, std::move(done)); }
bool PeerConnection::left_silently() const { return impl_->left_silently(); }
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
