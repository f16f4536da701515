#include "agent/etcd/etcd_messages.h"
#include "agent/http/answer_reader.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/etcd/etcd_keys.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::fuzz;

namespace {

void check_values(const std::string& text) {
  try {
    const auto record = rendezvous::decode_record(text, {});
    rendezvous::decode_record(rendezvous::encode(record, {}), {});
  } catch (const rendezvous::BadMessage&) {
  }
  try {
    const auto holder = rendezvous::decode_holder(text);
    promise(rendezvous::decode_holder(rendezvous::encode(holder)) == holder, "a holder is read as it is written");
  } catch (const rendezvous::BadMessage&) {
  }
}

void check_reader(const std::string& bytes) {
  AnswerReader whole, parts;
  whole.take(bytes);
  std::string body;
  for (const char byte : bytes) {
    parts.take({&byte, 1});
    body += parts.take_body();
  }
  if (whole.state() != ParsedAnswer::complete) return;
  promise(parts.state() == ParsedAnswer::complete, "an answer does not depend on its pieces");
  promise(whole.take_body() == body, "nor does its body");
}

}  // namespace

// The answer's bytes, its body, or a value in it.
DDPRUN_FUZZER(etcd_answer) {
  const std::string bytes = text_of(data, size);
  check_reader(bytes);
  const auto read = read_etcd_answer(200, bytes);
  if (const auto* refusal = std::get_if<EtcdRefusal>(&read))
    promise(refusal->why.size() <= 4 * 256 + 64, "what is told of a refusal has a limit");
  if (const auto decoded = from_base64(bytes))
    promise(base64(*decoded).size() == bytes.size(), "base64 has one length");
  check_values(bytes);
  return 0;
}
