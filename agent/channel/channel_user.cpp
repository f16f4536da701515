#include "agent/channel/channel_user.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <system_error>

#include "rendezvous/channel/worker_channel.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;
// The variable is in a program that includes worker_channel.h, the constructor of ddprun::Worker in one that calls the
// library's, and the module in a script of Python.
constexpr std::string_view kNames[] = {DDPRUN_CHANNEL_VARIABLE, "_ZN6ddprun6WorkerC1Ev", "worker_channel",
                                       "ddprun.channel", "ddprun import channel"};
constexpr std::size_t kNameMax = 32;

bool names(std::string_view text, std::string_view name) {
  return std::search(text.begin(), text.end(), std::boyer_moore_horspool_searcher(name.begin(), name.end())) !=
         text.end();
}

bool file_names_channel(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string piece;
  while (file) {
    piece.erase(0, piece.size() - std::min(piece.size(), kNameMax));  // a name may begin in the piece before
    const std::size_t kept = piece.size();
    piece.resize(kept + kPieceBytes);
    file.read(piece.data() + kept, kPieceBytes);
    piece.resize(kept + static_cast<std::size_t>(file.gcount()));
    for (const std::string_view name : kNames)
      if (names(piece, name)) return true;
  }
  return false;
}

}  // namespace

bool names_channel(const std::string& program, const std::vector<std::string>& argv) {
  const auto is_script = [](const std::string& word) { return word.ends_with(".py") || word.ends_with(".sh"); };
  const auto script = std::find_if(argv.begin(), argv.end(), is_script);
  return file_names_channel(program) || (script != argv.end() && file_names_channel(*script));
}

}  // namespace ddprun::agent
