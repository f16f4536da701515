#include "rendezvous/coordination/control_message.h"

#include <array>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/overloaded.h"

namespace ddprun {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNameMax = 1024, kTextMax = 256 << 10, kListMax = 1 << 16;
constexpr int kPortMax = 65'535, kWorkersMax = 1 << 16, kRanksMax = 1 << 28, kRoundsMax = 1 << 30,
              kAny = std::numeric_limits<int>::max();

struct VerdictName {
  Verdict verdict;
  const char* name;
};
constexpr std::array<VerdictName, 8> kVerdicts{{{Verdict::success, "success"},
                                                {Verdict::worker_failed, "worker-failed"},
                                                {Verdict::worker_final, "worker-final"},
                                                {Verdict::interrupted, "interrupted"},
                                                {Verdict::too_few_nodes, "too-few-nodes"},
                                                {Verdict::too_few_left, "too-few-left"},
                                                {Verdict::refused, "refused"},
                                                {Verdict::out_of_reach, "out-of-reach"}}};

template <class Number>
Number number_from(const Json& value, const char* name, Number least, Number most) {
  if (value.is_number_unsigned() && least <= most) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(most) && (least <= 0 || number >= static_cast<std::uint64_t>(least)))
      return static_cast<Number>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (number >= static_cast<std::int64_t>(least) && number <= static_cast<std::int64_t>(most))
      return static_cast<Number>(number);
  }
  throw BadMessage(std::string("'") + name + "' is out of its range");
}

std::string text_from(const Json& value, std::size_t most) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > most) throw BadMessage("a text is none");
  return value.get<std::string>();
}

// The members of an object, each there and in its range, or a BadMessage.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) throw BadMessage("an object is missing");
  }

  bool has(const char* name) const { return object_.contains(name); }

  template <class Number>
  Number number(const char* name, Number least, Number most) const {
    return number_from(member(name), name, least, most);
  }

  int whole(const char* name, int least, int most = kAny) const { return number<int>(name, least, most); }
  std::uint64_t large(const char* name) const {
    return number<std::uint64_t>(name, 0, std::numeric_limits<std::uint64_t>::max());
  }
  std::uint16_t port(const char* name) const { return static_cast<std::uint16_t>(whole(name, 0, kPortMax)); }

  bool flag(const char* name) const {
    const Json& value = member(name);
    if (!value.is_boolean()) throw BadMessage(std::string("'") + name + "' is no truth value");
    return value.get<bool>();
  }

  std::string text(const char* name, std::size_t most = kNameMax) const { return text_from(member(name), most); }

  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> out;
    for (const Json& item : list(name)) out.push_back(text_from(item, kNameMax));
    return out;
  }

  Fields object(const char* name) const { return Fields(member(name)); }
  const Json& list(const char* name) const {
    const Json& list = member(name);
    if (!list.is_array() || list.size() > kListMax) throw BadMessage(std::string("'") + name + "' is no list");
    return list;
  }

 private:
  const Json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) throw BadMessage(std::string("'") + name + "' is missing");
    return *found;
  }

  const Json& object_;
};

Json to_json(const NodeOffer& offer) {
  Json out{{"workers", offer.workers}, {"host", offer.host}, {"port", offer.port}, {"role", offer.role}};
  out["name"] = offer.name;
  out["rounds"] = offer.rounds;
  if (offer.wished_rank) out["rank"] = *offer.wished_rank;
  return out;
}

NodeOffer offer_from(const Fields& fields) {
  NodeOffer out{.workers = fields.whole("workers", 1, kWorkersMax),
                .host = fields.text("host"),
                .port = fields.port("port"),
                .role = fields.text("role"),
                .name = fields.text("name"),
                .rounds = fields.whole("rounds", 0, kRoundsMax)};
  if (fields.has("rank")) out.wished_rank = fields.whole("rank", std::numeric_limits<int>::min());
  return out;
}

Json to_json(const ExitStatus& status) {
  return {{"code", status.code},
          {"signal", status.signal},
          {"start_error", status.start_error},
          {"hung", status.hung},
          {"stuck", status.stuck}};
}

ExitStatus status_from(const Fields& fields) {
  return {fields.whole("code", 0, 255), fields.whole("signal", 0, NSIG), fields.whole("start_error", 0, 4095),
          fields.flag("hung"), fields.has("stuck") && fields.flag("stuck")};
}

Json to_json(const Failure& failure) {
  return {{"round", failure.round},
          {"node", failure.node},
          {"local_rank", failure.local_rank},
          {"rank", failure.rank},
          {"status", to_json(failure.status)},
          {"host", failure.host},
          {"last_line", failure.last_line}};
}

Failure failure_from(const Fields& fields) {
  return {fields.whole("round", 0),
          fields.large("node"),
          fields.whole("local_rank", 0, kWorkersMax),
          fields.whole("rank", 0, kRanksMax),
          status_from(fields.object("status")),
          fields.text("host"),
          fields.has("last_line") ? fields.text("last_line", kLastLineMax) : std::string()};
}

Json to_json(const Outcome& outcome) {
  Json out{{"signal", outcome.signal}, {"reason", outcome.reason}};
  for (const VerdictName& known : kVerdicts)
    if (known.verdict == outcome.verdict) out["verdict"] = known.name;
  if (outcome.cause) out["cause"] = to_json(*outcome.cause);
  if (outcome.late) out["late"] = true;
  return out;
}

Outcome outcome_from(const Fields& fields) {
  const std::string name = fields.text("verdict");
  for (const VerdictName& known : kVerdicts) {
    if (name != known.name) continue;
    Outcome out{known.verdict, fields.whole("signal", 0, NSIG), fields.text("reason", kTextMax), {}};
    if (fields.has("cause")) out.cause = failure_from(fields.object("cause"));
    out.late = fields.has("late") && fields.flag("late");
    return out;
  }
  throw BadMessage("'verdict' is unknown");
}

Json to_json(const ControlAddress& address) { return {{"host", address.host}, {"port", address.port}}; }

ControlAddress address_from(const Fields& fields) { return {fields.text("host"), fields.port("port")}; }

Json to_json(const Seat& seat) {
  return {{"round", seat.round},
          {"group_rank", seat.group_rank},
          {"group_world_size", seat.group_world_size},
          {"workers", seat.workers},
          {"first_rank", seat.first_rank},
          {"world_size", seat.world_size},
          {"role", seat.role},
          {"first_role_rank", seat.first_role_rank},
          {"role_world_size", seat.role_world_size},
          {"master_host", seat.master_host},
          {"master_port", seat.master_port},
          {"restarts", seat.restarts},
          {"store_agent", to_json(seat.store_agent)}};
}

Seat seat_from(const Fields& fields) {
  return {.round = fields.whole("round", 1),
          .group_rank = fields.whole("group_rank", 0, kRanksMax),
          .group_world_size = fields.whole("group_world_size", 1, kRanksMax),
          .workers = fields.whole("workers", 1, kWorkersMax),
          .first_rank = fields.whole("first_rank", 0, kRanksMax),
          .world_size = fields.whole("world_size", 1, kRanksMax),
          .role = fields.text("role"),
          .first_role_rank = fields.whole("first_role_rank", 0, kRanksMax),
          .role_world_size = fields.whole("role_world_size", 1, kRanksMax),
          .master_host = fields.text("master_host"),
          .master_port = fields.port("master_port"),
          .restarts = fields.whole("restarts", 0),
          .store_agent = address_from(fields.object("store_agent"))};
}

Json to_json(const Fingerprint& fingerprint) {
  return {{"protocol", fingerprint.protocol},
          {"version", fingerprint.version},
          {"nodes", fingerprint.nodes},
          {"program", fingerprint.program}};
}

Fingerprint fingerprint_from(const Fields& fields) {
  return {fields.whole("protocol", 0), fields.text("version"), fields.text("nodes"), fields.text("program")};
}

Json to_json(const Attendance& attendance) {
  return {{"nodes", attendance.nodes},
          {"wanted", attendance.nodes_wanted},
          {"workers", attendance.workers},
          {"awaited", attendance.awaited},
          {"awaited_more", attendance.awaited_more}};
}

Attendance attendance_from(const Fields& fields) {
  return {fields.whole("nodes", 0, kRanksMax), fields.whole("wanted", 0, kRanksMax),
          fields.whole("workers", 0, kRanksMax), fields.texts("awaited"), fields.whole("awaited_more", 0, kRanksMax)};
}

// A list, without the names of its members: a record has thousands of nodes. Their first ranks follow from their order.
Json to_json(const RoundNode& node) {
  return Json::array({node.id, node.workers, node.role, node.name, node.control.host, node.control.port});
}

RoundNode node_from(const Json& list, int first_rank) {
  constexpr std::array<const char*, 6> kNames{"id", "workers", "role", "name", "host", "port"};
  if (!list.is_array() || list.size() != kNames.size()) throw BadMessage("a node is no list of six");
  const auto number = [&](std::size_t i, auto least, auto most) {
    return number_from(list[i], kNames[i], least, most);
  };
  const auto text = [&](std::size_t i) { return text_from(list[i], kNameMax); };
  return {.id = number(0, NodeId{0}, std::numeric_limits<NodeId>::max()),
          .workers = number(1, 1, kWorkersMax),
          .first_rank = first_rank,
          .role = text(2),
          .name = text(3),
          .control = {text(4), static_cast<std::uint16_t>(number(5, 0, kPortMax))}};
}

Json to_json(const LedgerRecord& ledger) {
  Json out{{"crashes", ledger.counts.crashes},       {"hangs", ledger.counts.hangs},
           {"lost_nodes", ledger.counts.lost_nodes}, {"preemptions", ledger.counts.preemptions},
           {"resizes", ledger.counts.resizes},       {"repeats", ledger.repeats}};
  if (ledger.last_failure) out["last_failure"] = to_json(*ledger.last_failure);
  if (!ledger.last_line.empty()) out["last_line"] = ledger.last_line;
  return out;
}

LedgerRecord ledger_from(const Fields& fields) {
  const auto count = [&](const char* name) { return fields.whole(name, 0); };
  LedgerRecord out{
      .counts = {count("crashes"), count("hangs"), count("lost_nodes"), count("preemptions"), count("resizes")},
      .repeats = count("repeats")};
  if (fields.has("last_failure")) out.last_failure = status_from(fields.object("last_failure"));
  if (fields.has("last_line")) out.last_line = fields.text("last_line", kLastLineMax);
  return out;
}

Json to_json(const Electorate& electorate) {
  return {{"coordinator", electorate.coordinator}, {"nodes", electorate.nodes}};
}

Electorate electorate_from(const Fields& fields) {
  Electorate out{.coordinator = fields.large("coordinator")};
  for (const Json& node : fields.list("nodes")) {
    if (!node.is_number_unsigned()) throw BadMessage("a node is no number");
    out.nodes.push_back(node.get<NodeId>());
  }
  if (out.nodes.empty()) throw BadMessage("an electorate is empty");
  return out;
}

Json to_json(const Round& round) {
  if (round.nodes.empty()) return {{"round", round.number}, {"term", round.term}};
  Json nodes = Json::array(), before = Json::array();
  for (const RoundNode& node : round.nodes) nodes.push_back(to_json(node));
  for (const Electorate& electorate : round.before) before.push_back(to_json(electorate));
  return {{"round", round.number},
          {"nodes", std::move(nodes)},
          {"master_host", round.master_host},
          {"master_port", round.master_port},
          {"ledger", to_json(round.ledger)},
          {"term", round.term},
          {"coordinator", round.coordinator},
          {"before", std::move(before)}};
}

RecordId record_id_from(const Fields& fields) { return {fields.whole("term", 0), fields.whole("round", 1)}; }

Round round_from(const Fields& fields) {
  Round out{.number = fields.whole("round", 1),
            .master_host = fields.text("master_host"),
            .master_port = fields.port("master_port"),
            .ledger = ledger_from(fields.object("ledger")),
            .term = fields.whole("term", 0),
            .coordinator = fields.large("coordinator")};
  for (const Json& node : fields.list("nodes")) out.nodes.push_back(node_from(node, out.world_size()));
  if (out.world_size() > kRanksMax) throw BadMessage("a record has too many ranks");
  for (const Json& electorate : fields.list("before")) out.before.push_back(electorate_from(Fields(electorate)));
  if (!out.find(out.coordinator)) throw BadMessage("the record's coordinator is none of its nodes");
  return out;
}

std::int64_t milliseconds(Duration duration) { return std::chrono::ceil<std::chrono::milliseconds>(duration).count(); }

Duration milliseconds_from(const Fields& fields, const char* name, int least = 0) {
  return std::chrono::milliseconds(fields.whole(name, least));
}

Json of_round(const char* type, int round) { return {{"type", type}, {"round", round}}; }

std::string written(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);  // a host's name may be no UTF-8
}

Json parsed(std::string_view bytes) {
  Json message = Json::parse(bytes, nullptr, false);
  if (message.is_discarded()) throw BadMessage("it is no JSON");
  return message;
}

[[noreturn]] void unknown_type() { throw BadMessage("'type' is unknown"); }

}  // namespace

std::string difference(const Fingerprint& coordinators, const Fingerprint& newcomers) {
  const auto differ = [](const char* what, const std::string& theirs, const std::string& ours,
                         const char* remedy = "start every node with the same one") {
    return std::string(what) + " is " + theirs + " here and " + ours + " in the job; " + remedy;
  };
  const char* one_version = "install one version on all nodes";
  if (coordinators.protocol != newcomers.protocol)
    return differ("ddprun's control protocol", std::to_string(newcomers.protocol) + " (" + newcomers.version + ")",
                  std::to_string(coordinators.protocol) + " (" + coordinators.version + ")", one_version);
  if (coordinators.version != newcomers.version)
    return differ("ddprun's version", newcomers.version, coordinators.version, one_version);
  if (coordinators.nodes != newcomers.nodes) return differ("--nnodes", newcomers.nodes, coordinators.nodes);
  if (coordinators.program != newcomers.program) return differ("the program", newcomers.program, coordinators.program);
  return "";
}

std::string encode(const FromAgent& message) {
  return written(std::visit(
      overloaded{
          [](const Hello& m) {
            return Json{{"type", "hello"},       {"job", to_json(m.fingerprint)}, {"control_port", m.control_port},
                        {"term", m.record.term}, {"round", m.record.round},       {"instead_of", m.instead_of}};
          },
          [](const Heartbeat& m) {
            return Json{{"type", "heartbeat"}, {"number", m.number}, {"answered", m.answered}};
          },
          [](const FailureWords& m) {
            return Json{{"type", "failure-words"}, {"text", m.text}};
          },
          [](const NodeReady& m) {
            return Json{{"type", "ready"}, {"offer", to_json(m.offer)}};
          },
          [](const NodeConfirmed& m) { return of_round("confirmed", m.round); },
          [](const NodeRunning& m) { return of_round("running", m.round); },
          [](const NodeDone& m) { return of_round("done", m.round); },
          [](const WorkerFailed& m) {
            Json out{{"type", "failed"}, {"failure", to_json(m.failure)}};
            if (m.progressed) out["progressed"] = *m.progressed;
            return out;
          },
          [](const NodeLeaves& m) {
            return Json{{"type", "leaves"}, {"signal", m.signal}};
          },
          [](const JobInterrupted& m) {
            return Json{{"type", "interrupted"}, {"signal", m.signal}};
          },
          [](const NodeBack& m) {
            return Json{{"type", "back"}, {"round", m.round}, {"offer", to_json(m.offer)}};
          },
          [](const NodeTold&) {
            return Json{{"type", "told"}};
          },
          [](const JobWasOver& m) {
            return Json{{"type", "was-over"}, {"outcome", to_json(m.outcome)}};
          },
          [](const VoteRequest& m) {
            return Json{{"type", "vote-request"}, {"term", m.term}, {"record", to_json(*m.record)}};
          },
          [](const CoordinatorCall& m) {
            return Json{{"type", "call"}, {"term", m.term}, {"control_port", m.control_port}};
          },
      },
      message));
}

std::string encode(const ToAgent& message) {
  return written(std::visit(
      overloaded{
          [](const Welcome& m) {
            return Json{{"type", "welcome"},
                        {"your_address", m.your_address},
                        {"lease_ms", milliseconds(m.lease)},
                        {"term", m.term},
                        {"quorum_age_ms", milliseconds(m.quorum_age)},
                        {"coordinator", m.coordinator}};
          },
          [](const Elsewhere& m) {
            Json out{{"type", "elsewhere"},
                     {"term", m.term},
                     {"agent", m.agent},
                     {"record_term", m.record.term},
                     {"round", m.record.round}};
            if (m.coordinator) out["coordinator"] = to_json(*m.coordinator);
            return out;
          },
          [](const HeartbeatAnswer& m) {
            Json out{{"type", "heartbeat"}, {"number", m.number}, {"quorum_age_ms", milliseconds(m.quorum_age)}};
            if (m.attendance) out["attendance"] = to_json(*m.attendance);
            return out;
          },
          [](const FailureWords& m) {
            return Json{{"type", "failure-words"}, {"text", m.text}};
          },
          [](const KeepRecord& m) {
            return Json{{"type", "record"}, {"record", to_json(m.record)}};
          },
          [](const TakeSeat& m) {
            return Json{{"type", "seat"}, {"seat", to_json(m.seat)}, {"term", m.term}};
          },
          [](const StartRound& m) { return of_round("start", m.round); },
          [](const EndRound& m) {
            Json out = of_round("end-round", m.round);
            out["planned"] = m.planned;
            out["reason"] = m.reason;
            if (m.cause) out["cause"] = to_json(*m.cause);
            return out;
          },
          [](const EndJob& m) {
            return Json{{"type", "end-job"}, {"outcome", to_json(m.outcome)}, {"for_all", m.for_all}};
          },
          [](const AllTold&) {
            return Json{{"type", "all-told"}};
          },
          [](const Vote& m) {
            // told as later than it was, if anything
            const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(m.heard_age).count();
            Json out{
                {"type", "vote"}, {"term", m.term}, {"granted", m.granted}, {"heard_age_ms", age}, {"voter", m.voter}};
            if (m.over) out["over"] = to_json(*m.over);
            return out;
          },
      },
      message));
}

FromAgent decode_from_agent(std::string_view bytes, NodeId node) {
  const Json message = parsed(bytes);
  const Fields fields(message);
  const std::string type = fields.text("type");
  const auto round = [&] { return fields.whole("round", 0); };
  const auto offer = [&] { return offer_from(fields.object("offer")); };
  if (type == "hello")
    return Hello{fingerprint_from(fields.object("job")),
                 fields.port("control_port"),
                 {fields.whole("term", 0), round()},
                 fields.large("instead_of")};
  if (type == "heartbeat") return Heartbeat{fields.large("number"), fields.large("answered")};
  if (type == "failure-words") return FailureWords{fields.text("text", kTextMax)};
  if (type == "ready") return NodeReady{node, offer()};
  if (type == "confirmed") return NodeConfirmed{node, round()};
  if (type == "running") return NodeRunning{node, round()};
  if (type == "done") return NodeDone{node, round()};
  if (type == "leaves") return NodeLeaves{node, fields.whole("signal", 1, NSIG)};
  if (type == "interrupted") return JobInterrupted{node, fields.whole("signal", 1, NSIG)};
  if (type == "back") return NodeBack{node, round(), offer()};
  if (type == "told") return NodeTold{node};
  if (type == "was-over") return JobWasOver{node, outcome_from(fields.object("outcome"))};
  if (type == "vote-request") {
    const Fields record = fields.object("record");
    const bool whole = record.has("nodes");
    return VoteRequest{fields.whole("term", 1), node,
                       whole ? std::make_shared<const Round>(round_from(record)) : only_id(record_id_from(record))};
  }
  if (type == "call") return CoordinatorCall{fields.whole("term", 0), fields.port("control_port")};
  if (type != "failed") unknown_type();
  WorkerFailed failed{failure_from(fields.object("failure")), {}};
  failed.failure.node = node;
  if (fields.has("progressed")) failed.progressed = fields.flag("progressed");
  return failed;
}

ToAgent decode_to_agent(std::string_view bytes) {
  const Json message = parsed(bytes);
  const Fields fields(message);
  const std::string type = fields.text("type");
  const auto round = [&] { return fields.whole("round", 0); };
  if (type == "welcome")
    return Welcome{fields.text("your_address"), milliseconds_from(fields, "lease_ms", 1), fields.whole("term", 0),
                   milliseconds_from(fields, "quorum_age_ms"), fields.large("coordinator")};
  if (type == "elsewhere") {
    Elsewhere out{fields.whole("term", 0), {}, fields.large("agent"), {fields.whole("record_term", 0), round()}};
    if (fields.has("coordinator")) out.coordinator = address_from(fields.object("coordinator"));
    return out;
  }
  if (type == "record") return KeepRecord{round_from(fields.object("record"))};
  if (type == "vote") {
    Vote vote{fields.whole("term", 0), fields.flag("granted"), milliseconds_from(fields, "heard_age_ms"),
              fields.large("voter")};
    if (fields.has("over")) vote.over = outcome_from(fields.object("over"));
    return vote;
  }
  if (type == "failure-words") return FailureWords{fields.text("text", kTextMax)};
  if (type == "seat") return TakeSeat{seat_from(fields.object("seat")), fields.whole("term", 0)};
  if (type == "start") return StartRound{round()};
  if (type == "end-round") {
    EndRound end{round(), fields.flag("planned"), fields.text("reason", kTextMax)};
    if (fields.has("cause")) end.cause = failure_from(fields.object("cause"));
    return end;
  }
  if (type == "end-job") return EndJob{outcome_from(fields.object("outcome")), fields.flag("for_all")};
  if (type == "all-told") return AllTold{};
  if (type != "heartbeat") unknown_type();
  HeartbeatAnswer answer{fields.large("number"), milliseconds_from(fields, "quorum_age_ms")};
  if (fields.has("attendance")) answer.attendance = attendance_from(fields.object("attendance"));
  return answer;
}

}  // namespace ddprun
