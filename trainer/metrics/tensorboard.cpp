#include "trainer/metrics/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>

namespace ddprun::train {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr std::uint32_t kMaskDelta = 0xa282ead8;
constexpr std::string_view kNamesBeginning = "events.out.tfevents.";
constexpr std::int64_t kSecondsMax = 9'999'999'998;  // ten digits, and room for one more second

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}

constexpr auto kTable = make_table();

// Rotated and offset, because a CRC of data that contains its own CRC is unreliable.
std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + kMaskDelta; }

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
  return bytes;
}

// Fields of a message. Wire types: 0 a varint, 1 eight bytes, 2 bytes preceded by their length, 5 four bytes.
std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7f) | 0x80);
  return bytes + static_cast<char>(number);
}

std::string key(std::uint32_t field, std::uint32_t wire_type) { return varint(field << 3 | wire_type); }

std::string varint_field(std::uint32_t field, std::int64_t number) {
  return key(field, 0) + varint(static_cast<std::uint64_t>(number));
}

std::string bytes_field(std::uint32_t field, std::string_view content) {
  return key(field, 2) + varint(content.size()) + std::string(content);
}

std::string double_field(std::uint32_t field, double number) {
  return key(field, 1) + little_endian(std::bit_cast<std::uint64_t>(number));
}

std::string float_field(std::uint32_t field, double number) {  // too large numbers become infinite
  return key(field, 5) + little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(number)));
}

// Fields of Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
std::string event(double wall_time, std::int64_t step, const std::string& what) {
  return double_field(1, wall_time) + varint_field(2, step) + what;
}

// 0 if it is not an event file's name.
std::int64_t seconds_of(const std::string& name) {
  if (name.rfind(kNamesBeginning, 0) != 0) return 0;
  std::int64_t seconds = 0;
  const char* const begin = name.data() + kNamesBeginning.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), seconds);
  return error == std::errc() && *end == '.' && seconds <= kSecondsMax ? seconds : 0;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc32c(length)) + std::string(data) + little_endian(masked_crc32c(data));
}

std::string file_version_event(double wall_time) { return event(wall_time, 0, bytes_field(3, "brain.Event:2")); }

std::string session_start_event(double wall_time, std::int64_t first_step) {
  constexpr std::int64_t kStart = 1;  // SessionLog.SessionStatus
  return event(wall_time, first_step, bytes_field(7, varint_field(1, kStart)));
}

std::string scalars_event(double wall_time, std::int64_t step,
                          const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;  // Summary: 1 value, which has 1 tag and 2 simple_value
  for (const auto& [name, value] : values) summary += bytes_field(1, bytes_field(1, name) + float_field(2, value));
  return event(wall_time, step, bytes_field(5, summary));
}

std::string event_file_name(const std::vector<std::string>& existing_names, std::int64_t now, const std::string& host,
                            std::int64_t pid) {
  std::int64_t seconds = now;
  for (const auto& name : existing_names) seconds = std::max(seconds, seconds_of(name) + 1);
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", static_cast<long long>(seconds));
  return std::string(kNamesBeginning) + digits + "." + host + "." + std::to_string(pid);
}

}  // namespace ddprun::train
