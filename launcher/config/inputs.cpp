#include "launcher/config/inputs.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>  // explicit_bzero
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "launcher/config/machine.h"
#include "launcher/scheduler/node_questions.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace {

constexpr int kWriterLimitMs = 10'000;
constexpr std::size_t kFileMax = 1 << 20;  // a configuration is a page; an endless device must not fill memory

// Reads to the end, also from a pipe such as a shell's <(command). Empty: nothing was written in time.
std::optional<std::string> text_of(const Fd& file) {
  std::string text;
  std::array<char, 16'384> piece;
  while (text.size() <= kFileMax) {
    pollfd ready{file.get(), POLLIN, 0};
    if (poll(&ready, 1, kWriterLimitMs) == 0) return {};
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(size));
    explicit_bzero(piece.data(), piece.size());  // it may contain the token
  }
  return text;
}

std::variant<FileText, Unreadable> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) return Unreadable{std::strerror(errno)};
  if (S_ISDIR(status.st_mode)) return Unreadable{"it is a folder"};
  std::optional<std::string> text = text_of(file);
  if (!text) return Unreadable{"it is a pipe, and nothing was written to it for 10 s"};
  if (text->size() > kFileMax) return Unreadable{"it is larger than 1 MiB"};
  return FileText{std::move(*text), (status.st_mode & (S_IRGRP | S_IROTH)) != 0};
}

}  // namespace

agent::Environment own_environment() {
  agent::Environment out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;  // no unnecessary copy: it may contain the token
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

void hide_own_memory() { prctl(PR_SET_DUMPABLE, 0); }

void wipe_token_variable() {
  if (char* const token = std::getenv(rendezvous::kTokenVariable)) explicit_bzero(token, std::strlen(token));
  unsetenv(rendezvous::kTokenVariable);
}

Inputs process_inputs() { return {own_environment(), read_file, rendezvous::make_token, host_name, node_questions()}; }

}  // namespace ddprun::launcher
