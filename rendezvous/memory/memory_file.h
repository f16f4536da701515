// A file without a name (memfd) that outlives the processes that write it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "rendezvous/base/fd.h"

namespace ddprun {

constexpr std::uint64_t kMemoryPage = 4096;

// Sparse: takes no memory before something is written. Closed on exec. Throws std::system_error, as all of these.
Fd make_memory_file(const char* name, std::uint64_t bytes);
// From now on no process can change its size.
void seal_memory_file(int fd);

// The bytes from `begin` to `end`, at the same place; what was never written takes no memory there either.
void copy_memory_file(int from, int to, std::uint64_t begin, std::uint64_t end);

// Less than `size` only at the file's end.
std::size_t read_at(int fd, void* data, std::size_t size, std::uint64_t at);
void write_at(int fd, const void* data, std::size_t size, std::uint64_t at);

}  // namespace ddprun
