#include "rendezvous/store/socket_table.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ddprun::rendezvous {
namespace {

constexpr int kUserField = 4, kInodeField = 6;  // after the two ends, from 0: state, queues, timer, retransmits, ...

const std::uint32_t kMappedPrefix = htonl(0xffff);

std::optional<std::string> content_of(const char* path) {
  std::ifstream file(path);
  if (!file) return {};
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void put_end(std::string& out, const SocketEnd& end, bool ipv6) {
  char text[16];
  const auto put = [&](const char* format, unsigned number) {
    std::snprintf(text, sizeof text, format, number);
    out += text;
  };
  if (!ipv6) put("%08X", end.as_ipv4().value_or(0));
  if (ipv6)
    for (const std::uint32_t word : end.as_ipv6()) put("%08X", word);
  put(":%04X ", end.port);
}

}  // namespace

std::array<std::uint32_t, 4> SocketEnd::as_ipv6() const {
  return ipv6 ? words : std::array<std::uint32_t, 4>{0, 0, kMappedPrefix, words[0]};
}

std::optional<std::uint32_t> SocketEnd::as_ipv4() const {
  if (!ipv6) return words[0];
  if (words[0] || words[1] || words[2] != kMappedPrefix) return {};
  return words[3];
}

std::string text_of_ends(const SocketEnd& near, const SocketEnd& far, bool ipv6) {
  std::string out;
  put_end(out, near, ipv6);
  put_end(out, far, ipv6);
  return out;
}

std::optional<ListedSocket> find_in_table(std::string_view table, const std::string& ends) {
  const std::size_t at = table.find(": " + ends);
  if (at == table.npos) return {};
  table.remove_prefix(at + 2 + ends.size());
  std::istringstream fields(std::string(table.substr(0, table.find('\n'))));
  ListedSocket found;
  std::string field;
  for (int i = 0; fields >> field && i <= kInodeField; ++i) {
    if (i == kUserField) found.user = static_cast<uid_t>(std::strtoul(field.c_str(), nullptr, 10));
    if (i == kInodeField) found.inode = std::strtoull(field.c_str(), nullptr, 10);
  }
  return found;
}

std::variant<std::optional<ListedSocket>, int> find_socket(const SocketEnd& near, const SocketEnd& far) {
  bool read = false;
  for (const bool ipv6 : {false, true}) {
    if (!ipv6 && !near.as_ipv4()) continue;
    const auto table = content_of(ipv6 ? "/proc/net/tcp6" : "/proc/net/tcp");
    read |= table.has_value();
    if (!table) continue;
    if (const auto found = find_in_table(*table, text_of_ends(near, far, ipv6))) return found;
  }
  if (!read) return ENOENT;
  return std::optional<ListedSocket>();
}

}  // namespace ddprun::rendezvous
