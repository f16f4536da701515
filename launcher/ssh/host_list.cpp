#include "launcher/ssh/host_list.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "launcher/scheduler/node_list.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using settings::Read, settings::Wrong;
using Hosts = std::vector<HostEntry>;

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

// At the commas outside brackets.
std::vector<std::string> words_of_list(const std::string& list) {
  std::vector<std::string> words{""};
  bool inside = false;
  for (const char c : list) {
    inside = c == '[' || (inside && c != ']');
    if (c == ',' && !inside)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

// "node[01-04]", as Slurm writes it, and not "[fd99::1]".
bool is_node_list(const std::string& word) {
  const std::string rest = user_and_rest(word).second;
  return rest.find('[') != std::string::npos && !rest.starts_with('[');
}

// "a:2", or "node[01-04,7]:2" for several.
Read<Hosts> read_hosts_word(const std::string& word) {
  if (!is_node_list(word)) {
    Read<HostEntry> read = read_host_word(word);
    if (auto* wrong = std::get_if<Wrong>(&read)) return *wrong;
    return Hosts{std::get<HostEntry>(std::move(read))};
  }
  const std::size_t colon = word.find(':', std::min(word.rfind(']'), word.size() - 1));
  Read<std::vector<std::string>> names = expand_node_list(word.substr(0, colon));
  if (auto* wrong = std::get_if<Wrong>(&names)) return Wrong{"in '" + word + "' " + wrong->complaint};
  Hosts out;
  for (const std::string& name : std::get<std::vector<std::string>>(names)) {
    Read<HostEntry> read = read_host_word(colon == std::string::npos ? name : name + word.substr(colon));
    if (auto* wrong = std::get_if<Wrong>(&read)) return *wrong;
    out.push_back(std::get<HostEntry>(std::move(read)));
  }
  return out;
}

// "a:2,b", "node[01-04,7],login2".
Read<Hosts> read_words(const std::string& list) {
  Hosts out;
  for (const std::string& word : words_of_list(list)) {
    Read<Hosts> read = read_hosts_word(word);
    if (auto* wrong = std::get_if<Wrong>(&read)) return *wrong;
    const auto& more = std::get<Hosts>(read);
    out.insert(out.end(), more.begin(), more.end());
    if (out.size() > kHostsMax) return Wrong{"it takes at most " + std::to_string(kHostsMax) + " hosts"};
  }
  return out;
}

// What a line of a host file says of its hosts.
struct HostLine {
  Hosts hosts = {};       // none: a comment
  bool excluded = false;  // "^a" of Open MPI: not these
  std::string user = {};  // user=NAME of Hydra
  std::optional<int> slots = {}, most = {};
};

// Of those behind a host. Open MPI has `cpu` and `count` for slots, and two names for their maximum; Hydra's `binding`
// is ignored.
std::string take_attribute(const std::string& key, const std::string& value, HostLine& line) {
  const std::string name = with_underscores(key);
  if (name == "binding") return {};
  if (name == "user" || name == "username") {
    if (!std::exchange(line.user, value).empty()) return "it gives the user twice";
    return value.empty() ? "user= takes a name" : "";
  }
  if (name == "port") return "a port is ssh's: name it in ~/.ssh/config, or by --ssh \"ssh -p " + value + "\"";
  const bool is_most = name == "max_slots" || name == "slots_max";
  if (!is_most && name != "slots" && name != "cpu" && name != "count") {
    const std::string near = did_you_mean(name, {"slots", "max_slots"});
    return "'" + key + "' is unknown: it takes slots=N and max_slots=N behind the host" + (near.empty() ? "" : ".") +
           near;
  }
  const std::optional<int> number = slots(value);
  if (!number) return wrong_slots(value) + ", as in slots=2";
  std::optional<int>& to = is_most ? line.most : line.slots;
  if (to) return "it gives " + std::string(is_most ? "max_slots" : "the number of workers") + " twice";
  to = number;
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

// What other programs take as a host, and ddprun cannot.
std::string wrong_begin(const std::string& word) {
  if (word.starts_with('+')) return "'" + word + "' is a host of a scheduler's job: name the host itself";
  if (word.find('=') != std::string::npos) return "'" + word + "' stands where a host's name is expected";
  return {};
}

std::string take_attributes(std::istringstream& words, HostLine& line) {
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return "'" + word + "' is unexpected: it takes one host per line, as in a slots=2";
    if (std::string wrong = take_attribute(word.substr(0, equals), word.substr(equals + 1), line); !wrong.empty())
      return wrong;
  }
  return {};
}

// The attributes' part of the host. As in Open MPI, a maximum alone is the number.
std::string complete(const HostLine& line, HostEntry& host) {
  if (line.slots && host.workers) return "it gives the number of workers twice";
  const std::optional<int> workers = line.slots ? line.slots : host.workers;
  if (line.most && workers && *workers > *line.most)
    return "slots is " + std::to_string(*workers) + ", more than its max_slots, " + std::to_string(*line.most);
  host.workers = workers ? workers : line.most;
  if (line.user.empty()) return {};
  if (host.name.find('@') != std::string::npos) return "it gives the user twice";
  host.name = line.user + "@" + host.name;
  return wrong_name(host.name);
}

Read<HostLine> read_host_line(const std::string& text) {
  std::istringstream words(joined_attributes(text.substr(0, text.find('#'))));
  HostLine line;
  std::string word;
  if (!(words >> word)) return line;
  if (std::string wrong = wrong_begin(word); !wrong.empty()) return Wrong{wrong};
  line.excluded = word.starts_with('^');
  Read<Hosts> read = read_words(word.substr(line.excluded ? 1 : 0));
  if (auto* wrong = std::get_if<Wrong>(&read)) return *wrong;
  line.hosts = std::get<Hosts>(std::move(read));
  if (std::string wrong = take_attributes(words, line); !wrong.empty()) return Wrong{wrong};
  for (HostEntry& host : line.hosts)
    if (std::string wrong = complete(line, host); !wrong.empty()) return Wrong{wrong};
  return line;
}

// The hosts of all lines, each once, in the order in which they were named first.
class HostTable {
 public:
  // Returns what is wrong. A line without a number is one worker more of a host that other lines name, too, as in PBS's
  // node file; "a:2" adds, as in Hydra; "slots=2" is said once.
  std::string add(const HostLine& line) {
    for (const HostEntry& host : line.hosts) {
      Named& named = hosts_[host.name];
      if (named.lines++ == 0) order_.push_back(host.name);
      if (named.lines > 1 && line.slots) return host.name + " was named before: give it all its workers on one line";
      named.counted |= host.workers.has_value();
      named.workers += host.workers.value_or(1);
      if (named.workers > kHostWorkersMax)
        return host.name + " has more than " + std::to_string(kHostWorkersMax) + " workers";
      repeats_ |= named.lines > 1;
    }
    return {};
  }
  void leave_out(const HostLine& line) {
    for (const HostEntry& host : line.hosts) left_out_.insert(host.name);
  }
  Hosts take() const {
    Hosts out;
    for (const std::string& name : order_) {
      const Named& named = hosts_.at(name);
      const bool has_number = named.counted || repeats_;
      if (!left_out_.contains(name)) out.push_back({name, has_number ? std::optional(named.workers) : std::nullopt});
    }
    return out;
  }

 private:
  struct Named {
    int lines = 0, workers = 0;
    bool counted = false;
  };
  std::map<std::string, Named> hosts_;
  std::vector<std::string> order_;
  std::set<std::string> left_out_;
  bool repeats_ = false;  // some host has several lines, so each line is a worker
};

std::string sentence_end(const std::string& text) { return text.ends_with('?') ? text : text + "."; }

}  // namespace

Read<Hosts> read_host_list(const std::string& text) {
  if (text.empty()) return Hosts{};
  Read<Hosts> read = read_words(text);
  if (std::holds_alternative<Wrong>(read)) return read;
  std::set<std::string> names;
  for (const HostEntry& host : std::get<Hosts>(read))
    if (!names.insert(host.name).second)
      return Wrong{"it names " + host.name + " twice: give it all its workers at once, as " + host.name + ":2"};
  return read;
}

HostFile read_host_file(const std::string& path, const std::string& text) {
  HostFile file;
  HostTable table;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto read = read_host_line(line);
    const auto* wrong = std::get_if<Wrong>(&read);
    std::string complaint = wrong ? wrong->complaint : "";
    if (!wrong && std::get<HostLine>(read).excluded)
      table.leave_out(std::get<HostLine>(read));
    else if (!wrong)
      complaint = table.add(std::get<HostLine>(read));
    if (!complaint.empty())
      file.mistakes.push_back(path + ":" + std::to_string(number) + ": " + sentence_end(complaint));
  }
  file.hosts = table.take();
  if (file.hosts.empty() && file.mistakes.empty())
    file.mistakes.push_back(path + " names no host: it takes one host per line, as in a slots=2.");
  if (file.hosts.size() > kHostsMax)
    file.mistakes.push_back(path + " names more than " + std::to_string(kHostsMax) + " hosts.");
  return file;
}

}  // namespace ddprun::launcher
