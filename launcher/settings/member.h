// Connects an option to a member of the program's struct; parser and printer follow from the member's type.
//
//   .member = at<&Config::role>()                              a text
//   .member = at<&Options::optimizer, &OptimizerOptions::lr>() a number, within the option's min and max
//
// bool: a flag; string or enum: one of the option's choices, if it has any (enumerators in their order); a vector of
// strings: a list.
#pragma once
#include <string>
#include <type_traits>
#include <vector>

#include "launcher/settings/option.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::settings {

template <class Struct, class Type>
Struct struct_of(Type Struct::*);

template <auto First, auto... Rest>
auto& follow(auto& config) {
  if constexpr (sizeof...(Rest) == 0)
    return config.*First;
  else
    return follow<Rest...>(config.*First);
}

template <auto First, auto... Rest>
auto& member_of(void* config) {
  return follow<First, Rest...>(*static_cast<decltype(struct_of(First))*>(config));
}
template <auto First, auto... Rest>
const auto& member_of(const void* config) {
  return follow<First, Rest...>(*static_cast<const decltype(struct_of(First))*>(config));
}

inline std::string complaint_of(const Wrong& wrong) { return wrong.complaint; }
inline std::string complaint_of(const std::string& wrong) { return wrong; }

// Assigns the value to `target`, or returns what is wrong with the text.
template <class Value, class Complaint, class Target>
std::string assign(std::variant<Value, Complaint> read, Target& target) {
  if (const auto* wrong = std::get_if<1>(&read)) return complaint_of(*wrong);
  target = std::move(std::get<0>(read));
  return {};
}

template <class Value>
std::string read_value(const Option& option, const std::string& text, Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return assign(read_flag(text), value);
  } else if constexpr (std::is_enum_v<Value>) {
    auto place = static_cast<std::size_t>(value);
    std::string complaint = assign(read_choice(option, text), place);
    if (complaint.empty()) value = static_cast<Value>(place);
    return complaint;
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return assign(read_number<Value>(option, text), value);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    std::size_t ignored = 0;
    std::string complaint = *option.choices ? assign(read_choice(option, text), ignored) : "";
    if (complaint.empty()) value = text;
    return complaint;
  } else {
    value = text.empty() ? Value() : split(text, ',');
    for (const std::string& one : value)
      if (one.empty()) return "it takes names separated by commas, none of them empty";
    return {};
  }
}

template <class Value>
std::string text_of_value(const Option& option, const Value& value) {
  if constexpr (std::is_same_v<Value, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_enum_v<Value>)
    return split(option.choices, '|')[static_cast<std::size_t>(value)];
  else if constexpr (std::is_floating_point_v<Value>)
    return text_of_number(value);
  else if constexpr (std::is_arithmetic_v<Value>)
    return std::to_string(value);
  else if constexpr (std::is_same_v<Value, std::string>)
    return value;
  else
    return joined(value, ",");
}

template <class Value>
constexpr Takes takes_of() {
  if (std::is_same_v<Value, bool>) return Takes::flag;
  if (std::is_floating_point_v<Value>) return Takes::number;
  if (std::is_integral_v<Value>) return Takes::whole_number;
  return std::is_same_v<Value, std::vector<std::string>> ? Takes::list : Takes::text;
}

template <auto... Path>
constexpr Member at() {
  using Value = std::remove_reference_t<decltype(member_of<Path...>(static_cast<void*>(nullptr)))>;
  Member member;
  member.set = [](void* config, const Option& option, const std::string& text) {
    return read_value(option, text, member_of<Path...>(config));
  };
  member.get = [](const void* config, const Option& option) {
    return text_of_value(option, member_of<Path...>(config));
  };
  member.takes = takes_of<Value>();
  return member;
}

// For options that the struct does not keep: a wrong value is still rejected.
inline std::string check_choice(void*, const Option& option, const std::string& text) {
  std::size_t ignored = 0;
  return assign(read_choice(option, text), ignored);
}
inline std::string check_flag(void*, const Option&, const std::string& text) {
  bool ignored = false;
  return assign(read_flag(text), ignored);
}

}  // namespace ddprun::settings
