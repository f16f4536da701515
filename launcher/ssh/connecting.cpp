#include "launcher/ssh/connecting.h"

#include <filesystem>
#include <sstream>
#include <vector>

#include "agent/process/files/file_content.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kSynSent = "02";
constexpr std::size_t kStateColumn = 3, kInodeColumn = 9;

}  // namespace

std::set<std::string> unanswered_sockets(const std::string& table) {
  std::set<std::string> out;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> columns;
    for (std::string word; columns.size() <= kInodeColumn && words >> word;) columns.push_back(word);
    if (columns.size() > kInodeColumn && columns[kStateColumn] == kSynSent) out.insert(columns[kInodeColumn]);
  }
  return out;
}

bool is_connecting(pid_t process) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  std::set<std::string> sockets;
  for (const char* table : {"tcp", "tcp6"})
    sockets.merge(unanswered_sockets(agent::file_content(folder / "net" / table)));
  if (sockets.empty()) return false;
  std::error_code error;
  for (auto file = std::filesystem::directory_iterator(folder / "fd", error);
       !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file->path(), gone).string();
    if (target.starts_with("socket:[") && sockets.contains(target.substr(8, target.size() - 9))) return true;
  }
  return false;
}

}  // namespace ddprun::launcher
