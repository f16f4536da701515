#include "agent/diagnosis/core_file.h"

#include <cctype>

namespace ddprun::agent {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// A '*' in a name must match only itself.
std::string literal(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// core(5); the worker's pid is the one in its own namespace, which is ours.
std::string resolved(char specifier, const CoreFacts& facts) {
  switch (specifier) {
    case '%':
      return "%";
    case 'p':
      return std::to_string(facts.pid);
    case 'u':
      return std::to_string(facts.user);
    case 'g':
      return std::to_string(facts.group);
    case 's':
      return std::to_string(facts.signal);
    case 'h':
      return literal(facts.host);
  }
  return "*";
}

std::string resolved_all(const std::string& pattern, const CoreFacts& facts, bool& names_pid) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += literal(std::string(1, pattern[i]));
    } else if (++i < pattern.size()) {
      names_pid |= pattern[i] == 'p';
      out += resolved(pattern[i], facts);
    }
  }
  return out;
}

}  // namespace

CorePlace core_place(const CoreFacts& facts) {
  const std::string pattern = trimmed(facts.pattern);
  if (pattern.starts_with('|')) {
    const auto start = pattern.find_first_not_of("| ");
    if (start == std::string::npos) return {};
    return {pattern.substr(start, pattern.find(' ', start) - start), {}};
  }
  bool names_pid = false;
  std::string path = resolved_all(pattern.empty() ? "core" : pattern, facts, names_pid);
  if (facts.uses_pid && !names_pid) path += "." + std::to_string(facts.pid);
  if (path.front() != '/') path = literal(facts.folder) + "/" + path;
  return {{}, path};
}

std::string handler_in_words(const std::string& handler, pid_t pid) {
  const std::string name = handler.substr(handler.rfind('/') + 1);
  if (name == "systemd-coredump")
    return "systemd-coredump collects core files here: coredumpctl info " + std::to_string(pid);
  if (name == "apport") return "apport collects core files here: look in /var/crash and /var/lib/apport/coredump";
  if (name.starts_with("abrt")) return "abrt collects core files here: abrt-cli list";
  return "this machine passes core files to " + handler;
}

}  // namespace ddprun::agent
