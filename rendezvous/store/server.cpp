#include "rendezvous/store/server.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/store/loop_thread.h"
#include "rendezvous/store/node_link.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/store_front.h"

namespace ddprun::rendezvous {
namespace {

// A link's number, which the store sees as the upper bits of its clients' ids.
using LinkId = std::uint64_t;
constexpr LinkId kLinkIdMax = 0xffff;
constexpr unsigned kLinkShift = 48;
constexpr std::size_t kLinkAlwaysAllowedBytes = 1 << 20;  // as kAlwaysAllowedBytes, for all clients of a node
static_assert(StoreFront::kClientsEnd == ClientId{1} << kLinkShift);

ClientId client_of(LinkId link, Ticket ticket) { return link << kLinkShift | ticket; }
LinkId link_of(ClientId client) { return client >> kLinkShift; }
Ticket ticket_of(ClientId client) { return client & kTicketMax; }

// A node's proxy and the loop's data about it.
struct Link {
  Link(ReleasedPeer peer, const ServerLimits& limits, MemoryBudget& memory, NodeLink::RequestHandler on_request,
       NodeLink::CancelHandler on_cancel)
      : node(std::move(peer), limits, std::move(on_request), std::move(on_cancel)), charge(memory) {}
  NodeLink node;
  MemoryBudget::Charge charge;
  std::uint32_t awaited = EPOLLIN;
  TimePoint deadline = TimePoint::max();
  bool touched = false;
};

void log_to_stderr(const std::string& line) { print_line(stderr, "ddprun: the store " + line); }

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const Options& options);
  ~Impl() { loop_.stop(); }
  std::uint16_t port() const { return listening_.port; }
  const std::shared_ptr<Mailbox>& mailbox() { return loop_.mailbox(); }
  int ready_fd() { return loop_.poller().fd(); }
  std::string begin() { return loop_.begin(); }
  void admit(ReleasedPeer peer);
  LinkCounts link_counts() const { return {link_count_, link_requests_, link_requesters_}; }
  Counts counts() const;

 private:
  void count(Op op, std::uint64_t requesters);
  void turn();
  void finish_turn();
  TimePoint next_deadline() const;
  void answer(ClientId from, Request request);
  void route(const Answers& answers);
  void answer(LinkId id, Ticket first, LinkClientRequest client_request);
  void log_out_of_memory(const Reply& reply);
  void start_wait(LinkId id, Ticket ticket, Request request);
  void serve(LinkId id, std::uint32_t events);
  Link& touch(LinkId id, Link& link);
  void finish_links();
  void update(LinkId id, Link& link);
  void remove(LinkId id);

  const ServerLimits limits_;
  const std::function<void(const std::string&)> log_;
  LoopThread loop_{"ddprun-store", log_};
  const Listening listening_;
  const std::shared_ptr<StoreMemory> memory_;
  StoreFront front_;
  Store store_{memory_};
  LinkId last_link_ = 0;
  std::map<LinkId, Link> links_;
  std::set<std::pair<TimePoint, LinkId>> deadlines_;  // of the few that have one
  std::vector<LinkId> touched_;
  std::array<std::atomic<std::uint64_t>, kOpCount> requests_ = {};
  std::atomic<std::size_t> connections_ = 0;
  std::atomic<std::size_t> link_count_ = 0;
  std::atomic<std::uint64_t> link_requests_ = 0, link_requesters_ = 0;
};

Server::Impl::Impl(const Options& options)
    : limits_(options.limits),
      log_(options.log ? options.log : log_to_stderr),
      listening_(options.ports.first ? open_listener(options.address, options.ports, options.port_before)
                                     : open_listener(options.address, options.port)),
      memory_(std::make_shared<StoreMemory>(options.limits.memory_bytes_max)),
      front_(listening_, options.own_user_only, options.limits, memory_->under_way, loop_.poller(),
             {[this](ClientId id, Request request) { answer(id, std::move(request)); },
              [this](ClientId id) { store_.forget(id); }, [this](ClientId id) { store_.forget(id); }, log_}) {
  loop_.prepare([this] { turn(); });
  if (options.begins_later) return;
  if (const std::string refused = loop_.begin(); !refused.empty()) throw Error("cannot serve a store", refused);
}

void Server::Impl::turn() {
  for (const epoll_event& event : loop_.poller().wait(next_deadline()))
    if (StoreFront::owns(event.data.u64))
      front_.on_ready(event);
    else
      serve(link_of(event.data.u64), event.events);
  finish_turn();
}

void Server::Impl::finish_turn() {
  front_.finish_turn();
  connections_.store(front_.clients(), std::memory_order_relaxed);
  finish_links();
}

TimePoint Server::Impl::next_deadline() const {
  return std::min(front_.next_deadline(), deadlines_.empty() ? TimePoint::max() : deadlines_.begin()->first);
}

Server::Counts Server::Impl::counts() const {
  Counts out{.connections = connections_.load(std::memory_order_relaxed)};
  for (std::size_t op = 0; op < kOpCount; ++op) out.requests[op] = requests_[op].load(std::memory_order_relaxed);
  return out;
}

// Only this thread writes, so no atomic addition is needed.
void Server::Impl::count(Op op, std::uint64_t requesters) {
  std::atomic<std::uint64_t>& of_op = requests_[static_cast<std::size_t>(op)];
  of_op.store(of_op.load(std::memory_order_relaxed) + requesters, std::memory_order_relaxed);
}

void Server::Impl::answer(ClientId from, Request request) {
  count(request.op, 1);
  route(store_.on(from, std::move(request)));
}

void Server::Impl::route(const Answers& answers) {
  for (const Answer& answer : answers) {
    log_out_of_memory(answer.reply);
    if (StoreFront::owns(answer.to))
      front_.send(answer.to, answer.reply);
    else if (const auto link = links_.find(link_of(answer.to)); link != links_.end())
      touch(link->first, link->second).node.answer(ticket_of(answer.to), 1, answer.reply);
  }
}

// A shared read is done once; with a shared wait, each requester waits by itself.
void Server::Impl::answer(LinkId id, Ticket first, LinkClientRequest client_request) {
  ++link_requests_;
  link_requesters_ += client_request.requesters;
  const Op op = client_request.request.op;
  count(op, client_request.requesters);
  if (op == Op::wait || op == Op::barrier) {
    for (Ticket ticket = first; ticket < first + client_request.requesters - 1; ++ticket)
      start_wait(id, ticket, client_request.request);
    return start_wait(id, first + client_request.requesters - 1, std::move(client_request.request));
  }
  if (client_request.requesters == 1) return route(store_.on(client_of(id, first), std::move(client_request.request)));
  for (const Answer& answer : store_.on(client_of(id, first), std::move(client_request.request))) {
    log_out_of_memory(answer.reply);
    links_.at(id).node.answer(first, client_request.requesters, answer.reply);
  }
}

void Server::Impl::log_out_of_memory(const Reply& reply) {
  const auto* closing = std::get_if<CloseConnection>(&reply);
  if (!closing || closing->why == CloseConnection::Why::bad_request) return;
  front_.log_out_of_memory(closing->why,
                           closing->why == CloseConnection::Why::store_full ? memory_->kept : memory_->under_way);
}

void Server::Impl::start_wait(LinkId id, Ticket ticket, Request request) {
  const ClientId client = client_of(id, ticket);
  const Answers answers = store_.on(client, std::move(request));
  const bool answered =
      std::any_of(answers.begin(), answers.end(), [&](const Answer& answer) { return answer.to == client; });
  if (!answered) links_.at(id).node.park(ticket);
  route(answers);
}

void Server::Impl::admit(ReleasedPeer peer) {
  if (links_.size() >= limits_.links_max || last_link_ == kLinkIdMax)
    return log_("refused a link to another node: there are too many");
  const LinkId id = ++last_link_;
  Link& link = links_
                   .try_emplace(
                       id, std::move(peer), limits_, memory_->under_way,
                       [this, id](Ticket first, LinkClientRequest client_request) {
                         answer(id, first, std::move(client_request));
                       },
                       [this, id](Ticket ticket) { store_.forget(client_of(id, ticket)); })
                   .first->second;
  link_count_ = links_.size();
  loop_.poller().add(link.node.fd(), link.awaited, id << kLinkShift);
  serve(id, EPOLLIN);  // the poller does not report what was received before
  finish_turn();
}

void Server::Impl::serve(LinkId id, std::uint32_t events) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;  // removed earlier in this turn
  try {
    touch(id, found->second).node.on_ready(events);
  } catch (const std::exception& error) {
    log_(std::string("dropped a node's link: ") + error.what());
    remove(id);
  }
}

Link& Server::Impl::touch(LinkId id, Link& link) {
  if (!std::exchange(link.touched, true)) touched_.push_back(id);
  return link;
}

void Server::Impl::finish_links() {
  for (const LinkId id : std::exchange(touched_, {}))
    if (const auto found = links_.find(id); found != links_.end()) update(id, found->second);
  while (!deadlines_.empty() && deadlines_.begin()->first <= Clock::now()) remove(deadlines_.begin()->second);
}

void Server::Impl::update(LinkId id, Link& link) {
  link.touched = false;
  link.node.flush();
  link.charge.set(link.node.held_bytes());
  if (link.charge.bytes() > kLinkAlwaysAllowedBytes && !memory_->under_way.has_room()) {
    front_.log_out_of_memory(CloseConnection::Why::too_much_under_way, memory_->under_way);
    link.node.close();
  }
  if (link.node.closed()) return remove(id);
  if (link.awaited != link.node.awaited()) {
    link.awaited = link.node.awaited();
    loop_.poller().change(link.node.fd(), link.awaited, id << kLinkShift);
  }
  if (link.deadline == link.node.deadline()) return;
  deadlines_.erase({link.deadline, id});
  link.deadline = link.node.deadline();
  if (link.deadline != TimePoint::max()) deadlines_.emplace(link.deadline, id);
}

void Server::Impl::remove(LinkId id) {
  const auto found = links_.find(id);
  for (const Ticket ticket : found->second.node.parked()) store_.forget(client_of(id, ticket));
  loop_.poller().remove(found->second.node.fd());
  deadlines_.erase({found->second.deadline, id});
  links_.erase(found);
  link_count_ = links_.size();
}

void StoreGateway::serve(ReleasedPeer peer) const {
  auto shared = std::make_shared<ReleasedPeer>(std::move(peer));
  mailbox_->post([admit = admit_, shared] { admit(std::move(*shared)); });
}

Server::Server(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }
int Server::ready_fd() const { return impl_->ready_fd(); }
std::string Server::begin() { return impl_->begin(); }
Server::LinkCounts Server::link_counts() const { return impl_->link_counts(); }
Server::Counts Server::counts() const { return impl_->counts(); }

StoreGateway Server::gateway() const {
  StoreGateway gateway;
  gateway.mailbox_ = impl_->mailbox();
  gateway.admit_ = [impl = impl_.get()](ReleasedPeer peer) { impl->admit(std::move(peer)); };
  return gateway;
}

}  // namespace ddprun::rendezvous
