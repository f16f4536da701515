#include "agent/prefork/fork_obstacle.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesMax = 4;

std::string obstacle_of_threads(const fs::path& process) {
  const std::vector<fs::path> threads = threads_of(process);
  if (threads.size() <= 1) return {};
  std::string names;
  for (std::size_t i = 0; i < std::min(threads.size(), kNamesMax); ++i) {
    std::string name = file_content(threads[i] / "comm");
    while (name.ends_with('\n')) name.pop_back();
    names += (i ? ", " : "") + name;
  }
  return "has " + std::to_string(threads.size()) + " threads (" + names + (threads.size() > kNamesMax ? ", ..." : "") +
         ")";
}

// The rows' fields that are wanted, without the header line.
template <class Take>
void read_rows(const std::string& text, Take take) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    take(fields);
  }
}

}  // namespace

std::vector<std::string> open_files(pid_t pid) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator entry(table_entry(pid) / "fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    out.push_back(fs::read_symlink(entry->path(), gone).string());
  }
  return out;
}

std::set<std::string> listening_tcp(const std::string& text) {
  constexpr std::size_t kState = 3, kInode = 9;  // proc_net_tcp.rst
  std::set<std::string> out;
  read_rows(text, [&](const std::vector<std::string>& fields) {
    if (fields.size() > kInode && fields[kState] == "0A") out.insert(fields[kInode]);
  });
  return out;
}

std::set<std::string> listening_unix(const std::string& text) {
  constexpr std::size_t kFlags = 3, kInode = 6;  // unix_seq_show in net/unix/af_unix.c
  std::set<std::string> out;
  read_rows(text, [&](const std::vector<std::string>& fields) {
    if (fields.size() > kInode && fields[kFlags] == "00010000") out.insert(fields[kInode]);
  });
  return out;
}

std::string obstacle_among(const std::vector<std::string>& links, const std::set<std::string>& listening) {
  for (const std::string& link : links) {
    if (link.starts_with("/dev/nvidia") || link == "/dev/kfd") return "uses a GPU (" + link + ")";
    const std::string kSocket = "socket:[";
    if (link.starts_with(kSocket) && listening.contains(link.substr(kSocket.size(), link.size() - kSocket.size() - 1)))
      return "listens on a socket";
  }
  return {};
}

std::string fork_obstacle(pid_t pid) {
  const fs::path process = table_entry(pid);
  if (std::string threads = obstacle_of_threads(process); !threads.empty()) return threads;
  const std::vector<std::string> links = open_files(pid);
  const bool sockets =
      std::any_of(links.begin(), links.end(), [](const auto& link) { return link.starts_with("socket:["); });
  std::set<std::string> listening;
  if (sockets) {  // its own, to us, is one: that table may be long
    listening = listening_unix(file_content(process / "net/unix"));
    listening.merge(listening_tcp(file_content(process / "net/tcp")));
    listening.merge(listening_tcp(file_content(process / "net/tcp6")));
  }
  return obstacle_among(links, listening);
}

}  // namespace ddprun::agent
