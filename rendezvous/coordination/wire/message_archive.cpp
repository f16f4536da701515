#include "rendezvous/coordination/wire/message_archive.h"

#include <cmath>

#include "rendezvous/base/spelling.h"

namespace ddprun::rendezvous::wire {
namespace {

constexpr std::size_t kRowFields = 6;  // the usual number

[[noreturn]] void refuse(const char* name, const char* why) { throw BadMessage(std::string("'") + name + "' " + why); }

}  // namespace

void Writer::milliseconds(const char* name, Duration value, Span span) {
  using Milliseconds = std::chrono::milliseconds;
  const auto count =
      span.round_up ? std::chrono::ceil<Milliseconds>(value) : std::chrono::duration_cast<Milliseconds>(value);
  put(name, std::min<std::int64_t>(count.count(), std::numeric_limits<int>::max()));  // no reader takes more
}

void Writer::long_milliseconds(const char* name, Duration value) {
  put(name, std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(value).count(), 0));
}

void Writer::microseconds(const char* name, Duration value) {
  const auto count = std::chrono::floor<std::chrono::microseconds>(std::max(value, Duration::zero())).count();
  put(name, std::min(static_cast<std::uint64_t>(count), kMicrosecondsMax));
}

void Writer::put(const char* name, Json value) {
  if (!out_.is_array()) return void(out_[name] = std::move(value));
  auto& row = out_.get_ref<Json::array_t&>();
  row.reserve(kRowFields);
  row.push_back(std::move(value));
}

void read(const char* name, const Json& json, int& value, Range range) {
  if (!json.is_number_integer()) refuse(name, "is out of range");
  const bool above = json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  const auto number = above ? INT64_MAX : json.get<std::int64_t>();
  if (number < range.least || number > range.most) refuse(name, "is out of range");
  value = static_cast<int>(number);
}

void read(const char* name, const Json& json, std::uint16_t& port) {
  int number = 0;
  read(name, json, number, {0, 65'535});
  port = static_cast<std::uint16_t>(number);
}

void read(const char* name, const Json& json, std::uint64_t& value) {
  if (!json.is_number_unsigned()) refuse(name, "is out of range");
  value = json.get<std::uint64_t>();
}

void read(const char* name, const Json& json, bool& value) {
  if (!json.is_boolean()) refuse(name, "is not a boolean");
  value = json.get<bool>();
}

void read(const char* name, const Json& json, double& value) {
  if (!json.is_number()) refuse(name, "is not a number");
  value = json.get<double>();
  if (!std::isfinite(value)) refuse(name, "is out of range");
}

void read(const char*, const Json& json, std::string& value, AsSent limit) {
  if (!json.is_string() || json.get_ref<const std::string&>().size() > limit.most)
    throw BadMessage("expected a string");
  value = json.get_ref<const std::string&>();
}

void read(const char* name, const Json& json, std::string& value, std::size_t most) {
  read(name, json, value, AsSent{most});
  value = most > kNameMax ? visible_lines(value) : visible(value);
  if (value.size() <= most) return;  // else others would not take it from us
  while (most > 0 && (static_cast<unsigned char>(value[most]) & 0xc0) == 0x80) --most;  // not within a character
  value.resize(most);
}

const Json& list_of(const char* name, const Json& json) {
  if (!json.is_array() || json.size() > kListMax) refuse(name, "is not a list");
  return json;
}

Reader::Reader(const Json& object, NodeId sender) : object_(object), sender_(sender) {
  if (!object.is_object()) throw BadMessage("expected an object");
}

Reader::Reader(const Json& row, const char* complaint) : object_(row), complaint_(complaint) {
  if (!row.is_array()) throw BadMessage(complaint_);
}

void Reader::end() const {
  if (next_ != object_.size()) throw BadMessage(complaint_);
}

const Json& Reader::member(const char* name) {
  if (complaint_ && next_ == object_.size()) throw BadMessage(complaint_);
  if (complaint_) return object_[next_++];
  const auto found = object_.find(name);
  if (found == object_.end()) refuse(name, "is missing");
  return *found;
}

void Reader::microseconds(const char* name, Duration& value) {
  std::uint64_t count = 0;
  read(name, member(name), count);
  if (count > kMicrosecondsMax) refuse(name, "is out of range");
  value = std::chrono::microseconds(count);
}

void Reader::milliseconds(const char* name, Duration& value, Span span) {
  int count = 0;
  read(name, member(name), count, {span.least});
  value = std::chrono::milliseconds(count);
}

void Reader::long_milliseconds(const char* name, Duration& value) {
  std::uint64_t count = 0;
  read(name, member(name), count);
  constexpr auto kMost = std::chrono::duration_cast<std::chrono::milliseconds>(Duration::max()).count();
  if (count > static_cast<std::uint64_t>(kMost)) throw BadMessage(std::string("'") + name + "' is out of range");
  value = std::chrono::milliseconds(count);
}

}  // namespace ddprun::rendezvous::wire
