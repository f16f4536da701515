#include "agent/copies/copy_exchange.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr int kNice = 10;
constexpr std::chrono::milliseconds kSlotsLookEvery{5};
constexpr std::size_t kUnsentMax = std::size_t{2} * kCopyChunkMax, kChunksPerTurn = 8, kAskedMax = 1 << 16;
constexpr std::size_t kUnreadMax = std::size_t{4} * kUnsentMax;  // with answers to what a peer sends without reading

std::string for_time(Duration time) {
  return " for " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

CopyExchange::CopyExchange(CopyMemory& memory, Hooks hooks, Duration stall_max)
    : memory_(memory),
      hooks_(std::move(hooks)),
      stall_max_(stall_max),
      chunk_(new char[kCopyChunkMax]),
      loop_("ddprun-copies", hooks_.log) {
  loop_.mailbox()->post([] { setpriority(PRIO_PROCESS, 0, kNice); });  // on Linux of the calling thread
  loop_.prepare([this] { turn(); });
  std::ignore = start();
}

CopyExchange::~CopyExchange() { loop_.stop(); }

void CopyExchange::begin(int round, const std::optional<CopyMemory::Stamp>& kept) {
  loop_.mailbox()->post([this, round, kept] {
    round_ = round;
    kept_ = kept;
    std::vector<std::uint64_t> old;
    for (const auto& [tag, link] : links_)
      if (link->purpose != Purpose::caller || link->gives_snapshots) old.push_back(tag);
    for (const std::uint64_t tag : old) {
      loop_.poller().remove(links_.at(tag)->stream.fd());
      links_.erase(tag);
    }
  });
}

void CopyExchange::fetch(int round, const std::string& from, std::vector<Wanted> wanted,
                         rendezvous::ReleasedPeer source) {
  const auto peer = std::make_shared<rendezvous::ReleasedPeer>(std::move(source));
  loop_.mailbox()->post([this, round, from, wanted = std::move(wanted), peer] {
    if (round != round_) return;
    add(Purpose::source, round, std::move(*peer), [&](Link& link) {
      link.from = from;
      link.wanted = {wanted.begin(), wanted.end()};
      ask_next(link);
    });
  });
}

void CopyExchange::copy_here(int round, std::vector<Wanted> wanted) {
  loop_.mailbox()->post([this, round, wanted = std::move(wanted)] {
    if (round != round_) return;
    std::string why;
    for (const Wanted& one : wanted) try {
        if (const std::string problem = copy_slot(one); !problem.empty()) why = problem;
      } catch (const std::exception& error) {
        why = error.what();
      }
    hooks_.on_fetched(round, "", why);
  });
}

void CopyExchange::copy_to(const CopyMemory::Round& round, rendezvous::ReleasedPeer neighbour) {
  const auto peer = std::make_shared<rendezvous::ReleasedPeer>(std::move(neighbour));
  loop_.mailbox()->post([this, round, peer] {
    if (static_cast<int>(round.number) != round_) return;
    const std::uint32_t rate = kCopyRate;
    setsockopt(peer->socket.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    add(Purpose::neighbour, round_, std::move(*peer), [&](Link& link) {
      link.ranks = round;
      look_at_ = Clock::now();
    });
  });
}

void CopyExchange::add_caller(rendezvous::ReleasedPeer caller) {
  const auto peer = std::make_shared<rendezvous::ReleasedPeer>(std::move(caller));
  loop_.mailbox()->post([this, peer] { add(Purpose::caller, round_, std::move(*peer), [](Link&) {}); });
}

void CopyExchange::add(Purpose purpose, int round, rendezvous::ReleasedPeer peer,
                       const std::function<void(Link&)>& prepare) {
  const std::uint64_t tag = ++last_tag_;
  Link& link = *links_.emplace(tag, std::make_unique<Link>(purpose, round, std::move(peer))).first->second;
  link.awaited = EPOLLIN;
  loop_.poller().add(link.stream.fd(), link.awaited, tag);
  prepare(link);
  serve(tag, EPOLLIN);  // the poller does not report what was received before
}

void CopyExchange::turn() {
  for (const epoll_event& event : loop_.poller().wait(next_deadline())) serve(event.data.u64, event.events);
  const TimePoint now = Clock::now();
  const bool look = now >= look_at_;
  if (look) look_at_ = TimePoint::max();
  std::vector<std::uint64_t> tags;
  for (const auto& [tag, link] : links_) tags.push_back(tag);
  for (const std::uint64_t tag : tags) {
    Link& link = *links_.at(tag);
    if (now >= link.deadline) link.over = "it sent nothing" + for_time(stall_max_);
    if (now >= link.reads_until) give_up(link, "it read nothing" + for_time(stall_max_));
    if (look && link.purpose == Purpose::neighbour && link.over.empty()) {
      send_newest(link);
      look_at_ = now + kSlotsLookEvery;
    }
    update(tag, link);
  }
}

TimePoint CopyExchange::next_deadline() const {
  TimePoint first = look_at_;
  for (const auto& [tag, link] : links_) first = std::min({first, link->deadline, link->reads_until});
  return first;
}

void CopyExchange::serve(std::uint64_t tag, std::uint32_t events) {
  const auto found = links_.find(tag);
  if (found == links_.end()) return;
  Link& link = *found->second;
  const bool can_read = (events & ~std::uint32_t{EPOLLOUT}) != 0;
  try {
    if (can_read && !link.stream.read([&](std::string_view bytes) { take(link, bytes); }) && link.over.empty())
      link.over = link.stream.why();
    send_chunks(link);
  } catch (const std::exception& error) {  // e.g. no memory for what comes
    link.over = error.what();
  }
  update(tag, link);
}

void CopyExchange::take(Link& link, std::string_view bytes) {
  if (link.purpose == Purpose::source) link.deadline = Clock::now() + stall_max_;
  while (link.over.empty()) {
    const auto part = link.reader.next(bytes);
    if (!part) break;
    on_part(link, *part);
    if (link.stream.output().size() > kUnreadMax) give_up(link, "it does not read the answers to what it asks");
  }
  if (link.reader.bad() && link.over.empty()) link.over = "it sent an invalid message";
}

void CopyExchange::on_part(Link& link, const CopyPart& part) {
  switch (part.kind) {
    case CopyPart::Kind::head:
      return on_head(link, part.head);
    case CopyPart::Kind::content:
      return receive(link, part.bytes);
    case CopyPart::Kind::whole:
    case CopyPart::Kind::given_up:
      return end_receiving(link, part.head, part.kind == CopyPart::Kind::whole);
  }
}

void CopyExchange::on_head(Link& link, const CopyHead& head) {
  if (head.kind == CopyKind::snapshot) return begin_receiving(link, head);
  if (head.kind != CopyKind::want) return on_answer(link, head);
  if (link.purpose != Purpose::caller || link.gives_snapshots || link.asked.size() >= kAskedMax)
    link.over = "it sent an unexpected message";
  else
    link.asked.push_back(head.label);
  if (!link.sending) send_asked(link);
}

void CopyExchange::begin_receiving(Link& link, const CopyHead& head) {
  using Part = CopyMemory::Part;
  link.receiving = Receiving{};
  if (link.purpose == Purpose::caller && !link.sending && link.asked.empty()) {
    link.gives_snapshots = true;
    if (head.round != static_cast<std::uint64_t>(round_)) return void(link.over = "it is in another round");
    link.receiving->slot =
        memory_.begin_write(Part::of_neighbour, static_cast<int>(head.place), head.label, head.bytes);
  } else if (link.purpose == Purpose::source && !link.wanted.empty() && head.label == link.wanted.front().label) {
    link.receiving->slot = memory_.begin_write(Part::own, link.wanted.front().place, head.label, head.bytes, kept_);
    if (!link.receiving->slot) link.over = "it is too large for this node's --memory-snapshots";
  } else {
    link.over = "it sent an unexpected snapshot";
  }
}

void CopyExchange::receive(Link& link, std::string_view bytes) {
  if (link.receiving->slot) memory_.write(*link.receiving->slot, link.receiving->received, bytes);
  link.receiving->received += bytes.size();
}

void CopyExchange::end_receiving(Link& link, const CopyHead& head, bool whole) {
  const Receiving received = *std::exchange(link.receiving, std::nullopt);
  if (whole && received.slot) memory_.complete(*received.slot);
  if (link.purpose == Purpose::caller) {
    if (!received.slot) return reply(link, CopyKind::refused, head.label);
    return whole ? reply(link, CopyKind::arrived, head.label) : reply(link, CopyKind::none, head.label);
  }
  if (!whole) return void(link.over = "it has replaced the snapshot");
  link.wanted.pop_front();
  ask_next(link);
}

void CopyExchange::on_answer(Link& link, const CopyHead& head) {
  if (link.purpose == Purpose::source) return void(link.over = "it does not have it any more");
  if (link.purpose != Purpose::neighbour || !link.unanswered || link.unanswered->label != head.label)
    return void(link.over = "it sent an unexpected message");
  if (head.kind == CopyKind::arrived) memory_.mark_copied(*link.unanswered);
  if (head.kind == CopyKind::refused) {
    hooks_.on_refused(link.round);
    link.over = "it refused a snapshot";
  }
  link.unanswered.reset();
}

void CopyExchange::ask_next(Link& link) {
  if (link.wanted.empty()) return void(link.over = "done");
  link.deadline = Clock::now() + stall_max_;
  reply(link, CopyKind::want, link.wanted.front().label);
}

void CopyExchange::send_asked(Link& link) {
  while (!link.sending && !link.asked.empty()) {
    const CopyLabel label = link.asked.front();
    link.asked.pop_front();
    if (const auto kept = memory_.find(label))
      begin_sending(link, *kept, 0);
    else
      reply(link, CopyKind::none, label);
  }
}

// Of the ranks here, in turn. An older snapshot that the next node lacks is left out.
void CopyExchange::send_newest(Link& link) {
  if (link.sending || link.unanswered) return;
  std::map<std::uint64_t, CopyMemory::Kept> newest;  // by rank
  for (const CopyMemory::Kept& kept : memory_.kept()) {
    const std::uint64_t place = static_cast<std::uint64_t>(kept.slot / CopyMemory::kSlotsOfPlace);
    if (kept.label.rank != link.ranks.first_rank + place || kept.label.world_size != link.ranks.world_size) continue;
    if (place >= static_cast<std::uint64_t>(memory_.places())) continue;  // the node before's
    const auto [known, is_first] = newest.emplace(kept.label.rank, kept);
    if (!is_first && known->second.label < kept.label) known->second = kept;
  }
  for (const auto& [rank, kept] : newest) {
    if (kept.copied) continue;
    link.unanswered = kept;
    return begin_sending(link, kept, static_cast<std::uint32_t>(rank - link.ranks.first_rank));
  }
}

void CopyExchange::begin_sending(Link& link, const CopyMemory::Kept& kept, std::uint32_t place) {
  link.stream.output().append_bytes(
      encode(CopyHead{CopyKind::snapshot, static_cast<std::uint64_t>(round_), kept.label, kept.bytes, place}));
  link.sending = {kept};
}

// As much as the socket takes at once.
void CopyExchange::send_chunks(Link& link) {
  for (std::size_t i = 0; i < kChunksPerTurn && link.sending; ++i) {
    if (link.stream.output().size() >= kUnsentMax) break;
    auto& [kept, sent] = *link.sending;
    const std::size_t count = std::min<std::uint64_t>(kept.bytes - sent, kCopyChunkMax);
    const auto chunk = std::make_shared<std::string>(count, '\0');
    const bool is_there = memory_.read(kept, sent, chunk->data(), count);
    if (is_there && count > 0) {
      link.stream.output().append_bytes(encode_chunk_head(static_cast<std::uint32_t>(count)));
      link.stream.output().append_bytes(rendezvous::Value(chunk));
    }
    sent += count;
    if (is_there && sent < kept.bytes) continue;
    link.stream.output().append_bytes(encode_end(is_there));
    link.sending.reset();
    send_asked(link);
  }
}

void CopyExchange::update(std::uint64_t tag, Link& link) {
  if (link.over.empty() && !link.stream.flush()) link.over = link.stream.why();
  if (!link.over.empty()) return close(tag);
  limit_reading(link);
  const bool writes = link.stream.writing() || link.sending;
  const std::uint32_t awaited = EPOLLIN | (writes ? std::uint32_t{EPOLLOUT} : 0u);
  if (std::exchange(link.awaited, awaited) != awaited) loop_.poller().change(link.stream.fd(), awaited, tag);
}

void CopyExchange::give_up(Link& link, const std::string& why) {
  link.over = why;
  hooks_.log("disconnected " + link.stream.peer().name + ": " + why);
}

void CopyExchange::limit_reading(Link& link) const {
  const bool has_read = std::exchange(link.sent, link.stream.sent()) != link.stream.sent();
  if (!link.stream.writing())
    link.reads_until = TimePoint::max();
  else if (has_read || link.reads_until == TimePoint::max())
    link.reads_until = Clock::now() + stall_max_;
}

void CopyExchange::close(std::uint64_t tag) {
  const std::unique_ptr<Link> link = std::move(links_.extract(tag).mapped());
  loop_.poller().remove(link->stream.fd());
  if (link->purpose == Purpose::source)
    hooks_.on_fetched(link->round, link->from, link->wanted.empty() ? "" : link->over);
  if (link->purpose == Purpose::neighbour) hooks_.on_neighbour_lost(link->round);
}

void CopyExchange::reply(Link& link, CopyKind kind, const CopyLabel& label) {
  link.stream.output().append_bytes(encode(CopyHead{kind, static_cast<std::uint64_t>(round_), label}));
}

std::string CopyExchange::copy_slot(const Wanted& wanted) {
  const auto from = memory_.find(wanted.label);
  if (!from) return "it is not there any more";
  const auto to = memory_.begin_write(CopyMemory::Part::own, wanted.place, wanted.label, from->bytes, kept_);
  if (!to) return "it is too large for --memory-snapshots";
  for (std::uint64_t at = 0; at < from->bytes; at += kCopyChunkMax) {
    const std::size_t count = std::min<std::uint64_t>(from->bytes - at, kCopyChunkMax);
    if (!memory_.read(*from, at, chunk_.get(), count)) return "it has been replaced";
    memory_.write(*to, at, {chunk_.get(), count});
  }
  memory_.complete(*to);
  return "";
}

}  // namespace ddprun::agent
