#include "rendezvous/peer/source_filter.h"

#include <linux/filter.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kSourcesMax = 2000;  // the kernel compares each packet with all; we close others' connections

// Classic BPF, which needs no privilege: socket(7), SO_ATTACH_FILTER; the kernel's Documentation/networking/filter.rst.
constexpr std::uint32_t kIpHeader = static_cast<std::uint32_t>(SKF_NET_OFF);
constexpr std::uint32_t kSourceInIpv4 = 12, kSourceInIpv6 = 8;  // RFC 791, RFC 8200
constexpr std::uint32_t kDrop = 0, kKeep = 0xffffffff;

using Program = std::vector<sock_filter>;

void load(Program& program, std::uint32_t offset) {
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kIpHeader + offset));
}

void drop_if(Program& program, std::uint32_t word) {
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, 0, 1));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, kDrop));
}

std::uint32_t word_of(const PeerSource& source, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < sizeof word; ++i) word = word << 8 | source.network[at + i];
  return word;
}

// The filter for one address family: packets that it does not drop are kept.
Program from_ipv4(const std::vector<PeerSource>& sources) {
  Program program;
  load(program, kSourceInIpv4);
  for (const PeerSource& source : sources)
    if (source.is_ipv4()) drop_if(program, word_of(source, 12));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, kKeep));
  return program;
}

Program from_ipv6(const std::vector<PeerSource>& sources) {
  Program program;
  for (const PeerSource& source : sources) {
    if (source.is_ipv4()) continue;
    load(program, kSourceInIpv6);
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word_of(source, 0), 0, 3));  // else on to the next source
    load(program, kSourceInIpv6 + 4);
    drop_if(program, word_of(source, 4));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, kKeep));
  return program;
}

Program dropping(const std::vector<PeerSource>& sources) {
  const Program ipv4 = from_ipv4(sources), ipv6 = from_ipv6(sources);
  Program program{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kIpHeader), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x60, 0, 1),
                  BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(ipv4.size()))};
  program.insert(program.end(), ipv4.begin(), ipv4.end());
  program.insert(program.end(), ipv6.begin(), ipv6.end());
  return program;
}

}  // namespace

PeerSource source_of(const sockaddr_storage& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (address.ss_family == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, bytes.size());
  } else {
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(&bytes[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  }
  return source_of(bytes);
}

void SourceFilter::on_failure(const PeerSource& source, TimePoint now, Duration cost) {
  if (failed_sources_.on_failure(source, now, cost)) update_soon();
}

void SourceFilter::on_silent_close(const PeerSource& source, TimePoint now) {
  if (failed_sources_.on_silent_close(source, now)) update_soon();
}

void SourceFilter::on_success(const PeerSource& source) {
  if (failed_sources_.on_success(source)) update_kernel_filter();
}

void SourceFilter::unblock_expired(TimePoint now) {
  if (failed_sources_.unblock_expired(now)) update_kernel_filter();
}

// A long program costs the kernel as much as several connections that we close.
void SourceFilter::update_soon() {
  if (++not_filtered_ > filtered_.size() / 16) update_kernel_filter();
}

void SourceFilter::update_kernel_filter() {
  not_filtered_ = 0;
  std::vector<PeerSource> sources = failed_sources_.blocked();
  sources.resize(std::min(sources.size(), kSourcesMax));
  if (sources == filtered_) return;
  // Detach first: the kernel may have no memory for two programs, and an old one must not stay. It may accept none of
  // such a length.
  const int ignored = 0;
  setsockopt(listener_, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof ignored);
  filtered_ = std::move(sources);
  while (!filtered_.empty() && !attach()) filtered_.resize(filtered_.size() / 2);
}

bool SourceFilter::attach() {
  Program program = dropping(filtered_);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return setsockopt(listener_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

}  // namespace ddprun::rendezvous
