#include "launcher/jobs/hyperparameters.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "rendezvous/base/json_text.h"

namespace ddprun::launcher {
namespace {

using settings::FileNotes;

// A string, a number, a date or a time as text; empty: none of these.
std::optional<std::string> plain_text(const toml::node& node) {
  if (auto text = settings::scalar(node, false)) return text;
  std::ostringstream out;
  if (const auto* date = node.as_date()) out << date->get();
  if (const auto* time = node.as_time()) out << time->get();
  if (const auto* both = node.as_date_time()) out << both->get();
  return out.str().empty() ? std::nullopt : std::optional(out.str());
}

nlohmann::json as_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    nlohmann::json out = nlohmann::json::object();
    for (const auto& [key, value] : *table) out[std::string(key.str())] = as_json(value);
    return out;
  }
  if (const auto* array = node.as_array()) {
    nlohmann::json out = nlohmann::json::array();
    for (const toml::node& one : *array) out.push_back(as_json(one));
    return out;
  }
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* yes = node.as_boolean()) return yes->get();
  return plain_text(node).value_or("");
}

// A parser takes a value that begins with a dash for an option unless it is part of the same word.
std::vector<std::string> flag_and_value(const std::string& flag, const std::string& value) {
  const bool number = value.find_first_not_of("-+.0123456789eE") == std::string::npos;
  if (value.starts_with('-') && !number) return {flag + "=" + value};
  return {flag, value};
}

std::string flag_of(const std::string& key) { return (key.size() == 1 ? "-" : "--") + key; }

std::optional<std::vector<std::string>> argparse_words(const std::string& key, const toml::node& node) {
  const std::string flag = flag_of(key);
  if (const auto* yes = node.as_boolean()) return yes->get() ? std::vector{flag} : std::vector<std::string>();
  if (const auto text = plain_text(node)) return flag_and_value(flag, *text);
  const toml::array* all = node.as_array();
  if (!all) return {};
  std::vector<std::string> out{flag};
  for (const toml::node& one : *all) {
    const auto text = plain_text(one);
    if (!text) return {};
    out.push_back(*text);
  }
  return out;
}

std::vector<std::string> sagemaker_words(const std::string& key, const toml::node& node) {
  if (const auto* yes = node.as_boolean()) return {flag_of(key), yes->get() ? "True" : "False"};
  if (const auto text = plain_text(node)) return {flag_of(key), *text};
  return {flag_of(key), json_text(as_json(node))};
}

// Hydra's grammar of overrides: what is no plain word is in quotes.
std::string hydra_value(const toml::node& node) {
  if (const auto* yes = node.as_boolean()) return yes->get() ? "true" : "false";
  if (const auto* all = node.as_array()) {
    std::string out;
    for (const toml::node& one : *all) out += (out.empty() ? "" : ",") + hydra_value(one);
    return "[" + out + "]";
  }
  const std::string text = plain_text(node).value_or("");
  if (!node.is_string() || (!text.empty() && text.find_first_of(" ,:=[]{}()'\"\\\t") == std::string::npos)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("\\'") : std::string(1, c);
  return out + "'";
}

void add_hydra(const std::string& key, const toml::node& node, Hyperparameters& out) {
  const toml::table* table = node.as_table();
  if (!table) return out.push_back({key, {key + "=" + hydra_value(node)}});
  for (const auto& [name, value] : *table) add_hydra(key + "." + std::string(name.str()), value, out);
}

// toml++ keeps a table in alphabetical order.
std::vector<std::pair<std::string, const toml::node*>> in_file_order(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> out;
  for (const auto& [key, node] : table) out.emplace_back(key.str(), &node);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    const auto &left = a.second->source().begin, &right = b.second->source().begin;
    return std::pair(left.line, left.column) < std::pair(right.line, right.column);
  });
  return out;
}

}  // namespace

bool read_style(const std::string& text, HyperparameterStyle& style) {
  if (text == "argparse") return style = HyperparameterStyle::argparse, true;
  if (text == "sagemaker") return style = HyperparameterStyle::sagemaker, true;
  if (text == "hydra") return style = HyperparameterStyle::hydra, true;
  return false;
}

Hyperparameters read_hyperparameters(const toml::table& table, HyperparameterStyle style, FileNotes& notes) {
  Hyperparameters out;
  for (const auto& [key, node] : in_file_order(table)) {
    if (style == HyperparameterStyle::hydra) {
      add_hydra(key, *node, out);
    } else if (style == HyperparameterStyle::sagemaker) {
      out.emplace_back(key, sagemaker_words(key, *node));
    } else if (auto words = argparse_words(key, *node)) {
      out.emplace_back(key, std::move(*words));
    } else {
      notes.add(*node, "the hyperparameter " + key + " is " + describe_value(*node) +
                           "; it takes a string, a number, true, false, or a list of strings and numbers, unless "
                           "hyperparameter_style is \"sagemaker\" (JSON) or \"hydra\" (a.b=1).");
    }
  }
  return out;
}

void merge(Hyperparameters& into, Hyperparameters later) {
  for (auto& [key, words] : later) {
    const auto same = std::find_if(into.begin(), into.end(), [&k = key](const auto& one) { return one.first == k; });
    if (same == into.end())
      into.emplace_back(key, std::move(words));
    else
      same->second = std::move(words);
  }
}

std::vector<std::string> words_of(const Hyperparameters& hyperparameters) {
  std::vector<std::string> out;
  for (const auto& [key, words] : hyperparameters) out.insert(out.end(), words.begin(), words.end());
  return out;
}

}  // namespace ddprun::launcher
