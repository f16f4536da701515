// Names that nobody can foresee, for files and folders of ours where others may write, too.
#pragma once
#include <sys/random.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

// So many of [0-9a-z]; at most 64.
inline std::string random_letters(std::size_t count) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::array<unsigned char, 64> bytes{};
  [[maybe_unused]] const ssize_t got = getrandom(bytes.data(), count, 0);  // such a few bytes are always to be had
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += kLetters[bytes[i] % kLetters.size()];
  return out;
}

// For a file that is written beside `path` and then replaces it. Other hosts may write there, with our process id.
inline std::string temporary_name(const std::string& path) { return path + ".writing." + random_letters(12); }

}  // namespace ddprun
