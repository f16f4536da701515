#include "rendezvous/store/proxy/store_proxy.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "rendezvous/base/print_line.h"
#include "rendezvous/store/loop_thread.h"
#include "rendezvous/store/proxy/request_merger.h"
#include "rendezvous/store/store_front.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::uint64_t kStore = StoreFront::kClientsEnd;  // its tag in the poller

void log_proxy_to_stderr(const std::string& line) { print_line(stderr, "ddprun: the store proxy " + line); }

}  // namespace

class StoreProxy::Impl {
 public:
  explicit Impl(const Options& options);
  ~Impl() { loop_.stop(); }
  std::uint16_t port() const { return listening_.port; }
  std::string begin() { return loop_.begin(); }
  const std::shared_ptr<Mailbox>& mailbox() { return loop_.mailbox(); }
  Counts counts() const { return {requests_, sent_}; }
  void connect(ReleasedPeer peer);
  void fail(const std::string& why);

 private:
  void turn();
  void handle_events(TimePoint until);
  void submit(ClientId from, const Request& request);
  void serve(std::uint32_t events);
  void receive(std::string_view bytes);
  void pass_on(const LinkReplyPart& part);
  void update_store();
  void send_batch();
  void flush();
  void resume_stalled();
  bool output_full() const;

  const ProxyLimits limits_;
  const std::function<void(const std::string&)> on_lost_;
  const std::function<void(const std::string&)> log_;
  LoopThread loop_{"ddprun-proxy", log_};
  const Listening listening_;
  RequestMerger merger_;
  MemoryBudget memory_;
  StoreFront front_;
  std::optional<PeerStream> store_;
  std::uint32_t awaited_ = EPOLLIN;
  TimePoint deadline_;  // to be connected; later for a store that reads nothing
  LinkReplyReader replies_;
  std::vector<ClientId> stalled_;  // resume when the store has read more
  bool lost_ = false;
  std::string why_lost_;  // set inside a call, handled at its end
  std::atomic<std::uint64_t> requests_ = 0, sent_ = 0;
};

StoreProxy::Impl::Impl(const Options& options)
    : limits_(options.proxy_limits),
      on_lost_(options.on_lost),
      log_(options.log ? options.log : log_proxy_to_stderr),
      listening_(open_listener(options.address, options.port)),
      memory_(options.limits.memory_bytes_max),
      front_(listening_, options.own_user_only, options.limits, memory_, loop_.poller(),
             {[this](ClientId id, const Request& request) { submit(id, request); },
              [this](ClientId id) { merger_.end_wait(id); }, [this](ClientId id) { merger_.forget(id); }, log_}),
      deadline_(Clock::now() + limits_.connected_within) {
  front_.count_values();
  loop_.prepare([this] { turn(); });
  std::ignore = begin();
}

void StoreProxy::Impl::turn() {
  handle_events(std::min(front_.next_deadline(), deadline_));
  std::this_thread::yield();  // on a busy machine, other clients can add to the batch
  handle_events({});          // does not wait
  update_store();
  front_.finish_turn();
}

void StoreProxy::Impl::handle_events(TimePoint until) {
  for (const epoll_event& event : loop_.poller().wait(until))
    if (StoreFront::owns(event.data.u64))
      front_.on_ready(event);
    else
      serve(event.events);
}

bool StoreProxy::Impl::output_full() const {
  return merger_.unsent_bytes() + (store_ ? store_->output().size() : 0) > limits_.unsent_bytes_max;
}

void StoreProxy::Impl::submit(ClientId from, const Request& request) {
  if (lost_) return;
  const bool answered = merger_.submit(from, request);
  if (!answered && output_full()) stalled_.push_back(from);
  if (answered || output_full()) front_.hold(from);
}

void StoreProxy::Impl::connect(ReleasedPeer peer) {
  if (store_ || lost_) return;
  store_.emplace(std::move(peer));
  loop_.poller().add(store_->fd(), awaited_, kStore);
  deadline_ = kNever;
  serve(EPOLLIN);  // the poller does not report what was received before
  update_store();
  front_.finish_turn();
}

void StoreProxy::Impl::serve(std::uint32_t events) {
  if (!store_ || !why_lost_.empty() || (events & ~std::uint32_t{EPOLLOUT}) == 0) return;
  try {
    if (!store_->read([this](std::string_view bytes) { receive(bytes); })) why_lost_ = store_->why();
  } catch (const std::exception& error) {  // e.g. no memory for a reply: the rest of it has no meaning
    why_lost_ = error.what();
  }
}

void StoreProxy::Impl::receive(std::string_view bytes) {
  while (why_lost_.empty()) {
    const auto part = replies_.next(bytes);
    if (!part) break;
    pass_on(*part);
  }
  if (replies_.bad()) why_lost_ = "the store sent an invalid reply";
}

void StoreProxy::Impl::pass_on(const LinkReplyPart& part) {
  const RequestMerger::Receivers receivers = merger_.on(part);
  if (!receivers.known) why_lost_ = "the store sent an unexpected reply";
  if (!receivers.of_bytes.empty()) {
    const Value bytes = std::make_shared<const std::string>(part.bytes);
    for (const ClientId client : receivers.of_bytes) front_.send(client, bytes);
  }
  for (const ClientId client : receivers.to_close) front_.close_after_output(client);
  for (const ClientId client : receivers.ready)
    if (output_full())
      stalled_.push_back(client);
    else
      front_.resume(client);
}

// At the end of a turn: sends clients' requests, and resumes the clients that had to wait.
void StoreProxy::Impl::update_store() {
  if (store_) send_batch();
  if (!output_full() && !stalled_.empty()) {
    resume_stalled();
    if (store_) send_batch();
  }
  const auto counts = merger_.counts();
  requests_ = counts.requests;
  sent_ = counts.sent;
  if (!why_lost_.empty()) return fail(why_lost_);
  if (deadline_ <= Clock::now())
    return fail(store_ ? "the store does not accept data" : "the store was not reached in time");
  const std::uint32_t awaited = EPOLLIN | (store_ && store_->writing() ? std::uint32_t{EPOLLOUT} : 0u);
  if (!store_ || awaited_ == awaited) return;
  awaited_ = awaited;
  loop_.poller().change(store_->fd(), awaited, kStore);
}

// A batch grows while the one before it is unsent: the slower the store, the more is sent together.
void StoreProxy::Impl::send_batch() {
  const std::size_t before = store_->output().size();
  const bool was_writing = store_->writing();
  flush();
  if (store_->output().empty() && merger_.has_batch()) {
    store_->output().append_bytes(merger_.take_batch());
    flush();
  }
  if (!store_->writing())
    deadline_ = kNever;
  else if (!was_writing || store_->output().size() < before)
    deadline_ = Clock::now() + limits_.store_write_stall_max;
}

void StoreProxy::Impl::flush() {
  if (why_lost_.empty() && !store_->flush()) why_lost_ = store_->why();
}

void StoreProxy::Impl::resume_stalled() {
  for (const ClientId client : std::exchange(stalled_, {})) front_.resume(client);
}

void StoreProxy::Impl::fail(const std::string& why) {
  if (std::exchange(lost_, true)) return;
  deadline_ = kNever;
  if (store_) loop_.poller().remove(store_->fd());
  store_.reset();
  front_.close();
  if (on_lost_) on_lost_(why);
}

void StoreUpstream::connected(ReleasedPeer store) const {
  auto shared = std::make_shared<ReleasedPeer>(std::move(store));
  mailbox_->post([connect = connect_, shared] { connect(std::move(*shared)); });
}

void StoreUpstream::failed(const std::string& why) const {
  mailbox_->post([fail = fail_, why] { fail(why); });
}

StoreProxy::StoreProxy(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
StoreProxy::~StoreProxy() = default;
std::uint16_t StoreProxy::port() const { return impl_->port(); }
std::string StoreProxy::begin() { return impl_->begin(); }
StoreProxy::Counts StoreProxy::counts() const { return impl_->counts(); }

StoreUpstream StoreProxy::upstream() const {
  StoreUpstream upstream;
  upstream.mailbox_ = impl_->mailbox();
  upstream.connect_ = [impl = impl_.get()](ReleasedPeer peer) { impl->connect(std::move(peer)); };
  upstream.fail_ = [impl = impl_.get()](const std::string& why) { impl->fail(why); };
  return upstream;
}

}  // namespace ddprun::rendezvous
