// Training allocates and frees the same tensors in every step: keeps their memory with the process in between.
//
//   int main() {
//     ddprun::keep_freed_memory();  // before anything else
//
// glibc gives memory at the heap's end back to the kernel once twice its threshold for mmap is free there, and the next
// step's tensors are page faults again: 21,500 in a step of VGG-11 on a CPU, a sixteenth of its time.
#pragma once

#pragma GCC visibility push(default)
namespace ddprun {

// For the whole process: glibc's malloc gives no memory back to the kernel, but that of blocks above 32 MiB. The
// process stays as large as it has ever been. Nothing changes where MALLOC_TRIM_THRESHOLD_ or GLIBC_TUNABLES is set, or
// where another malloc is in use. Source: mallopt(3).
void keep_freed_memory();

}  // namespace ddprun
#pragma GCC visibility pop
