// Writes the fields that describe a message (message_fields.h) as JSON, and reads them back with every check.
//
// Both get the same fields: a Writer writes their values, a Reader fills them. A missing field, a wrong type or a value
// out of its limits is a BadMessage. Pure.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::rendezvous::wire {

using Json = nlohmann::json;

constexpr std::uint64_t kMicrosecondsMax = std::chrono::microseconds(std::chrono::years(10)).count();
constexpr std::size_t kNameMax = 1024, kTextMax = 256 << 10, kListMax = 1 << 16;

struct Range {
  int least = 0, most = std::numeric_limits<int>::max();
};
// Limits of milliseconds. A fraction is rounded up or down.
struct Span {
  int least = 0;
  bool round_up = true;
};
template <class Value>
struct Named {
  Value value;
  const char* name;
};

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

class Writer {
 public:
  Writer() = default;
  // Limits are the reader's. An optional without a value is not written.
  template <class T, class... Limits>
  void operator()(const char* name, const T& value, const Limits&...) {
    if constexpr (kIsOptional<T>) {
      if (value) put(name, json_of(*value));
    } else {
      put(name, json_of(value));
    }
  }
  // May be missing: then the default stays.
  template <class T, class... Limits>
  void lenient(const char* name, const T& value, const Limits&...) {
    put(name, json_of(value));
  }
  // The same, and the default is not written.
  template <class T, class... Limits>
  void unless_default(const char* name, const T& value, const Limits&...) {
    if (value != T{}) put(name, json_of(value));
  }
  // Whether the following fields belong to the message, that is whether it has the field `name`.
  bool continues_with(const char*, bool has) const { return has; }
  // The node that sent it: known from the connection, so not written.
  void sender(NodeId) {}
  void milliseconds(const char* name, Duration value, Span span = {});  // at most 24 days
  void long_milliseconds(const char* name, Duration value);             // rounded down
  void unless_none(const char* name, const std::optional<Duration>& value) {
    if (value) long_milliseconds(name, *value);
  }
  // Rounded down; at most kMicrosecondsMax.
  void microseconds(const char* name, Duration value);
  template <class Value, std::size_t kCount>
  void one_of(const char* name, const Value& value, const Named<Value> (&all)[kCount]) {
    for (const Named<Value>& known : all)
      if (known.value == value) put(name, known.name);
  }
  // One field, which is named for the type that the value has.
  template <class... Types>
  void alternative(const std::variant<Types...>& value, const char* const (&names)[sizeof...(Types)]) {
    std::visit([&](const auto& held) { put(names[value.index()], json_of(held)); }, value);
  }
  // Each item as a list of its fields, without their names: a record has thousands of nodes.
  template <class T>
  void rows(const char* name, const std::vector<T>& items, const char*) {
    Json::array_t rows;
    rows.reserve(items.size());
    for (const T& item : items) rows.push_back(fields_of(item, Json::array()));
    put(name, std::move(rows));
  }

  Json take() { return std::move(out_); }

 private:
  explicit Writer(Json out) : out_(std::move(out)) {}
  void put(const char* name, Json value);
  template <class T>
  static Json fields_of(const T& value, Json empty) {
    Writer writer(std::move(empty));
    fields(writer, value);
    return writer.take();
  }
  template <class T>
  static Json json_of(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
      return value;
    else
      return fields_of(value, Json::object());
  }
  template <class T>
  static Json json_of(const std::vector<T>& items) {
    Json out = Json::array();
    for (const T& item : items) out.push_back(json_of(item));
    return out;
  }
  template <class T>
  static Json json_of(const std::shared_ptr<const T>& value) {
    return json_of(*value);
  }

  Json out_ = Json::object();  // or a list, for a row
};

// Of a text that is compared with ours or parsed: it comes as it was sent.
struct AsSent {
  std::size_t most = kNameMax;
};
// One value. `name` is for the complaint. A text comes as it may be shown and kept anywhere: control characters are
// escaped (visible()), but line ends and tabs stay in one that may be longer than a name.
void read(const char* name, const Json& json, int& value, Range range = {});
void read(const char* name, const Json& json, std::uint16_t& port);
void read(const char* name, const Json& json, std::uint64_t& value);
void read(const char* name, const Json& json, bool& value);
void read(const char* name, const Json& json, double& value);
void read(const char* name, const Json& json, std::string& value, std::size_t most = kNameMax);
void read(const char* name, const Json& json, std::string& value, AsSent limit);
const Json& list_of(const char* name, const Json& json);

class Reader {
 public:
  // `object` must outlive it.
  explicit Reader(const Json& object, NodeId sender = 0);

  template <class T, class... Limits>
  void operator()(const char* name, T& value, const Limits&... limits) {
    if constexpr (kIsOptional<T>) {
      if (has(name)) take(name, member(name), value.emplace(), limits...);
    } else {
      take(name, member(name), value, limits...);
    }
  }
  template <class T, class... Limits>
  void lenient(const char* name, T& value, const Limits&... limits) {
    if (has(name)) (*this)(name, value, limits...);
  }
  template <class T, class... Limits>
  void unless_default(const char* name, T& value, const Limits&... limits) {
    lenient(name, value, limits...);
  }
  bool continues_with(const char* name, bool) const { return has(name); }
  void sender(NodeId& node) const { node = sender_; }
  void milliseconds(const char* name, Duration& value, Span span = {});
  void long_milliseconds(const char* name, Duration& value);
  void unless_none(const char* name, std::optional<Duration>& value) {
    if (has(name)) long_milliseconds(name, value.emplace());
  }
  void microseconds(const char* name, Duration& value);
  template <class Value, std::size_t kCount>
  void one_of(const char* name, Value& value, const Named<Value> (&all)[kCount]) {
    std::string text;
    (*this)(name, text);
    for (const Named<Value>& known : all)
      if (text == known.name) return void(value = known.value);
    throw BadMessage(std::string("'") + name + "' is unknown");
  }
  template <class... Types>
  void alternative(std::variant<Types...>& value, const char* const (&names)[sizeof...(Types)]) {
    const char* const* name = names;
    const auto is_next = [&]<class T>(std::type_identity<T>) {
      const char* const own = *name++;
      if (!has(own)) return false;
      take(own, member(own), value.template emplace<T>());
      return true;
    };
    const bool found = (is_next(std::type_identity<Types>()) || ...);
    if (!found) throw BadMessage(std::string("none of '") + names[0] + "' and the like is there");
  }
  template <class T>
  void rows(const char* name, std::vector<T>& items, const char* complaint) {
    for (const Json& item : list_of(name, member(name))) {
      Reader row(item, complaint);
      fields(row, items.emplace_back());
      row.end();
    }
  }

 private:
  Reader(const Json& row, const char* complaint);
  void end() const;
  bool has(const char* name) const { return object_.contains(name); }
  const Json& member(const char* name);

  template <class T, class... Limits>
  static void take(const char* name, const Json& json, T& value, const Limits&... limits) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      read(name, json, value, limits...);
    } else {
      Reader reader(json);
      fields(reader, value);
    }
  }
  template <class T>
  static void take(const char* name, const Json& json, std::vector<T>& items) {
    for (const Json& item : list_of(name, json)) take(name, item, items.emplace_back());
  }
  template <class T>
  static void take(const char* name, const Json& json, std::shared_ptr<const T>& value) {
    const auto read = std::make_shared<T>();
    take(name, json, *read);
    value = read;
  }

  const Json& object_;
  const NodeId sender_ = 0;
  const char* const complaint_ = nullptr;  // if set, `object_` is a row, a list with a fixed number of fields
  std::size_t next_ = 0;
};

}  // namespace ddprun::rendezvous::wire
