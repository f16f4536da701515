// libFuzzer's program: the fuzzer that it is called as.
#include <filesystem>
#include <map>

#include "tests/fuzz/fuzz.h"

namespace ddprun::fuzz {
namespace {

std::map<std::string, Fuzzer>& fuzzers() {
  static std::map<std::string, Fuzzer> all;
  return all;
}

Fuzzer chosen = nullptr;

}  // namespace

RegisteredFuzzer::RegisteredFuzzer(const char* name, Fuzzer fuzzer) { fuzzers()[name] = fuzzer; }

void choose(const std::string& program) {
  const std::string called = std::filesystem::path(program).filename();
  for (const auto& [name, fuzzer] : fuzzers())
    if (called == name + "_fuzz") chosen = fuzzer;
  if (chosen) return;
  std::fprintf(stderr, "%s is not the name of a fuzzer; these are:\n", called.c_str());
  for (const auto& [name, fuzzer] : fuzzers()) std::fprintf(stderr, "  %s_fuzz\n", name.c_str());
  std::exit(2);
}

}  // namespace ddprun::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  ddprun::fuzz::choose((*argv)[0]);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ddprun::fuzz::chosen(data, size);
}
