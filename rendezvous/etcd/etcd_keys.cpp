#include "rendezvous/etcd/etcd_keys.h"

#include <algorithm>

#include "rendezvous/base/json_text.h"
#include "rendezvous/coordination/wire/message_fields.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kEtcdFormat = 1;

struct HolderValue {
  int format = kEtcdFormat;
  EtcdHolder holder;
};
struct RecordValue {
  int format = kEtcdFormat;
  std::uint64_t written_ms = 0;  // since 1970
  EtcdRecord record;
};

void fields(auto& a, wire::Is<HolderValue> auto& m) {
  a("format", m.format, wire::Range{kEtcdFormat, kEtcdFormat});
  a("node", m.holder.node);
  a("name", m.holder.name);
  a("places", m.holder.places);
  a("term", m.holder.term);
  a.unless_default("host", m.holder.host);
  a.unless_default("released", m.holder.released);
}

// A round without nodes is written as its number and term alone.
void fields(auto& a, wire::Is<RecordValue> auto& m) {
  a("format", m.format, wire::Range{kEtcdFormat, kEtcdFormat});
  a("written_ms", m.written_ms);
  a("term", m.record.term);
  if (a.continues_with("record", m.record.round.number > 0)) a("record", m.record.round);
  if (m.record.round.nodes.empty()) {
    a.unless_default("ledger", m.record.round.ledger);
    a("resized", m.record.round.resized);
  }
  a("over", m.record.over);
  a.unless_default("mark", m.record.mark);
}

std::uint64_t milliseconds_of(WallClock::time_point when) {
  const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, count));
}

// A clock that was set back adds nothing.
Duration age_of(const RecordValue& value, WallClock::time_point now) {
  const std::uint64_t now_ms = milliseconds_of(now);
  return std::chrono::milliseconds(value.written_ms < now_ms ? now_ms - value.written_ms : 0);
}

template <class Value>
std::string text_of(const Value& value) {
  wire::Writer writer;
  fields(writer, value);
  return json_text(writer.take());
}

template <class Value>
Value value_of(std::string_view text) {
  const wire::Json json = parse_json(text);
  if (json.is_discarded()) throw BadMessage("it is not JSON");
  Value value;
  wire::Reader reader(json);
  fields(reader, value);
  return value;
}

}  // namespace

std::string encode(const EtcdHolder& holder) { return text_of(HolderValue{.holder = holder}); }

std::string encode(const EtcdRecord& record, WallClock::time_point now) {
  return text_of(RecordValue{.written_ms = milliseconds_of(now - record.age), .record = record});
}

EtcdHolder decode_holder(std::string_view text) { return value_of<HolderValue>(text).holder; }

EtcdRecord decode_record(std::string_view text, WallClock::time_point now) {
  auto value = value_of<RecordValue>(text);
  value.record.age = age_of(value, now);
  return value.record;
}

}  // namespace ddprun::rendezvous
