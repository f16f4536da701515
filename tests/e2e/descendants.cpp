#include "tests/e2e/descendants.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ostringstream out;  // operator<< hides the error if a process ends while we read
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

bool lives(const fs::path& task) {
  const std::string stat = content(task / "stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && !std::strchr("ZXx", stat[name_end + 2]);
}

bool is_number(const std::string& text) { return std::all_of(text.begin(), text.end(), ::isdigit); }

std::vector<std::string> words_in(const std::string& command_line) {
  std::vector<std::string> words;
  std::istringstream in(command_line);
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

// If its main thread has ended, a process shows its command line only in its other threads.
std::string command_line_of(const fs::path& process) {
  if (lives(process)) return content(process / "cmdline");
  std::error_code gone;
  for (fs::directory_iterator task(process / "task", gone), end; !gone && task != end; task.increment(gone))
    if (lives(task->path())) return content(task->path() / "cmdline");
  return {};
}

}  // namespace

std::vector<Descendant> processes_of(const std::string& folder) {
  std::vector<Descendant> found;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc", gone), end; !gone && entry != end; entry.increment(gone)) {
    const std::string name = entry->path().filename();
    if (!is_number(name)) continue;
    const auto words = words_in(command_line_of(entry->path()));
    if (std::find(words.begin(), words.end(), folder) != words.end()) found.push_back({std::stoi(name), words});
  }
  return found;
}

std::vector<std::string> worker_words(const std::string& folder, const std::vector<std::string>& kinds,
                                      const std::string& then) {
  std::string list;
  for (const std::string& kind : kinds) list += (list.empty() ? "" : ",") + kind;
  return {folder, list, then};
}

}  // namespace ddprun::test
