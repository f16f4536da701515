#include "rendezvous/coordination/wire/ledger_file.h"

#include <algorithm>

#include "rendezvous/base/json_text.h"
#include "rendezvous/coordination/round/ledger.h"
#include "rendezvous/coordination/wire/message_fields.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kFormat = 1;

struct LedgerFile {
  int format = kFormat;
  std::uint64_t written_s = 0;  // since 1970
  LedgerRecord ledger;
};

void fields(auto& a, wire::Is<LedgerFile> auto& m) {
  a("format", m.format, wire::Range{kFormat, kFormat});
  a("written", m.written_s);
  a("ledger", m.ledger);
}

std::uint64_t seconds(WallClock::time_point when) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(when.time_since_epoch()).count()));
}

// A clock that was set back adds nothing.
Duration age_of(std::uint64_t written_s, WallClock::time_point now) {
  const std::uint64_t now_s = seconds(now);
  if (written_s >= now_s) return {};
  const auto most = static_cast<std::uint64_t>(std::chrono::seconds(kLimitWindowMax).count());
  return std::chrono::seconds(std::min(now_s - written_s, most));
}

}  // namespace

std::string ledger_text(const LedgerRecord& record, WallClock::time_point now) {
  wire::Writer writer;
  const LedgerFile file{kFormat, seconds(now), record};
  fields(writer, file);
  return json_text(writer.take(), {.indent = 2}) + "\n";
}

std::variant<LedgerRecord, InvalidLedger> read_ledger(std::string_view text, WallClock::time_point now) {
  const wire::Json json = parse_json(text);
  if (json.is_discarded()) return InvalidLedger{"it is not JSON"};
  LedgerFile file;
  try {
    wire::Reader reader(json);
    fields(reader, file);
  } catch (const BadMessage& bad) {
    return InvalidLedger{bad.what()};
  }
  const Duration age = age_of(file.written_s, now);
  for (Charge& charge : file.ledger.charges) charge.age = std::min<Duration>(charge.age + age, kLimitWindowMax);
  std::erase_if(file.ledger.excluded, [&](const ExcludedHost& host) { return host.left <= age; });
  for (ExcludedHost& host : file.ledger.excluded) host.left -= age;
  return file.ledger;
}

}  // namespace ddprun::rendezvous
