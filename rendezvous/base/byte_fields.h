// Numbers and texts of binary protocols, little-endian as all machines that ddprun is built for.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace ddprun {

static_assert(std::endian::native == std::endian::little, "integers are copied to and from the wire as they are");

template <class Number>
void put_number(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// `bytes` has it whole.
template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// Moves what is missing from the beginning of `bytes`. True once `to` has `size` bytes.
inline bool fill(std::string& to, std::size_t size, std::string_view& bytes) {
  const std::size_t n = std::min(size - to.size(), bytes.size());
  to.append(bytes.substr(0, n));
  bytes.remove_prefix(n);
  return to.size() == size;
}

}  // namespace ddprun
