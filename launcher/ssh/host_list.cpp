#include "launcher/ssh/host_list.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using settings::Read, settings::Wrong;

// What ssh takes in a user or host name; nothing of it is special to a shell.
bool in_host_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("._-@%+").find(c) != std::string_view::npos;
}

std::string wrong_name(const std::string& name) {
  if (name.empty()) return "it takes a host's name";
  if (name.front() == '-') return "'" + name + "' begins with a dash, as no host's name does";
  const bool ipv6 = name.find(':') != std::string::npos;
  for (const char c : name)
    if (!in_host_name(c) && !(ipv6 && c == ':')) return "'" + name + "' is not a host's name";
  const std::size_t at = name.find('@');
  if (at == 0 || at + 1 == name.size() || name.find('@', at + 1) != std::string::npos)
    return "'" + name + "' is neither HOST nor USER@HOST";
  return {};
}

std::optional<int> slots(const std::string& text) {
  const auto number = settings::whole_text<int>(text);
  return number && *number >= 1 && *number <= kHostWorkersMax ? number : std::nullopt;
}

std::string wrong_slots(const std::string& text) {
  return "'" + text + "' is no number of workers: it takes a whole number from 1 to " + std::to_string(kHostWorkersMax);
}

// "user@" and the rest.
std::pair<std::string, std::string> user_and_rest(const std::string& word) {
  const std::size_t at = word.rfind('@');
  return at == std::string::npos ? std::pair(std::string(), word)
                                 : std::pair(word.substr(0, at + 1), word.substr(at + 1));
}

// "a", "a:2", "user@[fd99::1]:2"
Read<HostEntry> read_host_word(const std::string& word) {
  const auto [user, rest] = user_and_rest(word);
  std::string host = rest, count;
  bool counted = false;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string::npos) return Wrong{"'" + word + "' has no ']' after its IPv6 address"};
    host = rest.substr(1, end - 1);
    if (host.find(':') == std::string::npos) return Wrong{"'" + word + "' has brackets, which are for IPv6 addresses"};
    counted = end + 1 < rest.size();
    if (counted && rest[end + 1] != ':')
      return Wrong{"'" + word + "' has '" + rest.substr(end + 1) + "' behind its address"};
    if (counted) count = rest.substr(end + 2);
  } else if (const std::size_t colon = rest.find(':'); colon != std::string::npos) {
    if (rest.find(':', colon + 1) != std::string::npos)
      return Wrong{"'" + word + "' has several colons: write an IPv6 address in brackets, as [fd99::1]:2"};
    host = rest.substr(0, colon);
    count = rest.substr(colon + 1);
    counted = true;
  }
  HostEntry entry{user + host, {}};
  if (std::string wrong = wrong_name(entry.name); !wrong.empty()) return Wrong{wrong};
  if (!counted) return entry;
  entry.workers = slots(count);
  if (!entry.workers) return Wrong{wrong_slots(count) + ", as in " + entry.name + ":2"};
  return entry;
}

// Of the two that a host file may hold; `key` with dashes.
std::string take_attribute(const std::string& key, const std::string& value, HostEntry& entry,
                           std::optional<int>& most) {
  const std::string name = with_underscores(key);
  if (name != "slots" && name != "max_slots") {
    const std::string near = did_you_mean(name, {"slots", "max_slots"});
    return "'" + key + "' is unknown: it takes slots=N and max_slots=N behind the host" + (near.empty() ? "" : ".") +
           near;
  }
  const std::optional<int> number = slots(value);
  if (!number) return wrong_slots(value) + ", as in slots=2";
  if (name == "slots" && entry.workers) return "it gives the number of workers twice";
  (name == "slots" ? entry.workers : most) = number;
  return {};
}

// "slots = 4" is "slots=4".
std::string joined_attributes(std::string line) {
  for (std::size_t at = 0; (at = line.find('=', at)) != std::string::npos; ++at) {
    while (at > 0 && std::isspace(static_cast<unsigned char>(line[at - 1]))) line.erase(--at, 1);
    while (at + 1 < line.size() && std::isspace(static_cast<unsigned char>(line[at + 1]))) line.erase(at + 1, 1);
  }
  return line;
}

// Without a comment; empty: nothing else is there.
Read<std::optional<HostEntry>> read_host_line(const std::string& line) {
  std::istringstream words(joined_attributes(line.substr(0, line.find('#'))));
  std::string word;
  if (!(words >> word)) return std::optional<HostEntry>();
  if (word.find('=') != std::string::npos) return Wrong{"'" + word + "' stands where a host's name is expected"};
  Read<HostEntry> read = read_host_word(word);
  if (auto* wrong = std::get_if<Wrong>(&read)) return *wrong;
  auto entry = std::get<HostEntry>(read);
  std::optional<int> most;
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos)
      return Wrong{"'" + word + "' is unexpected: it takes one host per line, as in a slots=2"};
    if (std::string wrong = take_attribute(word.substr(0, equals), word.substr(equals + 1), entry, most);
        !wrong.empty())
      return Wrong{wrong};
  }
  if (most && entry.workers.value_or(1) > *most)
    return Wrong{"slots is " + std::to_string(entry.workers.value_or(1)) + ", more than its max_slots, " +
                 std::to_string(*most)};
  return std::optional(entry);
}

std::string sentence_end(const std::string& text) { return text.ends_with('?') ? text : text + "."; }

}  // namespace

Read<std::vector<HostEntry>> read_host_list(const std::string& text) {
  std::vector<HostEntry> out;
  if (text.empty()) return out;
  std::set<std::string> names;
  for (const std::string& word : split(text, ',')) {
    Read<HostEntry> read = read_host_word(word);
    if (auto* wrong = std::get_if<Wrong>(&read)) return *wrong;
    out.push_back(std::get<HostEntry>(std::move(read)));
    if (!names.insert(out.back().name).second)
      return Wrong{"it names " + out.back().name + " twice: give it all its workers at once, as " + out.back().name +
                   ":2"};
  }
  if (out.size() > kHostsMax) return Wrong{"it takes at most " + std::to_string(kHostsMax) + " hosts"};
  return out;
}

HostFile read_host_file(const std::string& path, const std::string& text) {
  HostFile file;
  std::set<std::string> names;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = path + ":" + std::to_string(number) + ": ";
    auto read = read_host_line(line);
    if (const auto* wrong = std::get_if<Wrong>(&read)) {
      file.mistakes.push_back(place + sentence_end(wrong->complaint));
      continue;
    }
    const auto& entry = std::get<std::optional<HostEntry>>(read);
    if (!entry) continue;
    file.hosts.push_back(*entry);
    if (!names.insert(entry->name).second)
      file.mistakes.push_back(place + entry->name + " was named before: give it all its workers on one line.");
  }
  if (file.hosts.empty() && file.mistakes.empty())
    file.mistakes.push_back(path + " names no host: it takes one host per line, as in a slots=2.");
  if (file.hosts.size() > kHostsMax)
    file.mistakes.push_back(path + " names more than " + std::to_string(kHostsMax) + " hosts.");
  return file;
}

}  // namespace ddprun::launcher
