#include "launcher/outside.h"

#include <string.h>  // explicit_bzero
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "rendezvous/token.h"

extern char** environ;

namespace ddprun {
namespace {

constexpr std::size_t kFileMax = 1 << 20;  // a configuration is a page; a device without end shall not fill memory

std::variant<FileText, Unreadable> read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Unreadable{"it is a folder"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return Unreadable{std::strerror(errno)};
  std::string text(kFileMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileMax) return Unreadable{"it is larger than 1 MiB"};
  struct stat status {};
  const bool others_may_read = stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
  return FileText{std::move(text), others_may_read};
}

}  // namespace

Environment own_environment() {
  Environment out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;  // no copy more than need be: it may hold the token
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

void wipe_token_variable() {
  if (char* const token = std::getenv(kTokenVariable)) explicit_bzero(token, std::strlen(token));
  unsetenv(kTokenVariable);
}

Outside this_process() { return {own_environment(), read_file, make_token}; }

}  // namespace ddprun
