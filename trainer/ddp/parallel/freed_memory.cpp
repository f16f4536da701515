#include "ddprun/freed_memory.h"

#include <malloc.h>

#include <cstdlib>

namespace ddprun {
namespace {

constexpr int kMmapThreshold = 32 << 20;  // the highest that glibc takes
constexpr int kTopPad = 64 << 20;         // the heap grows by so much at a time
constexpr int kNever = -1;

}  // namespace

void keep_freed_memory() {
  if (std::getenv("MALLOC_TRIM_THRESHOLD_") || std::getenv("GLIBC_TUNABLES")) return;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, kTopPad);
}

}  // namespace ddprun
