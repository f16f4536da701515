// What every fuzzer here shares: bytes as text, and a promise that ends the run when it is broken.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace ddprun::fuzz {

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

using Fuzzer = int (*)(const std::uint8_t* data, std::size_t size);

// All fuzzers are one program, which has a name for each: <name>_fuzz.
struct RegisteredFuzzer {
  RegisteredFuzzer(const char* name, Fuzzer fuzzer);
};

}  // namespace ddprun::fuzz

// DDPRUN_FUZZER(name) { what is done with `data` and `size`; return 0; }
#define DDPRUN_FUZZER(name)                                                          \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size);                \
  static const ddprun::fuzz::RegisteredFuzzer registered_##name{#name, fuzz_##name}; \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size)
