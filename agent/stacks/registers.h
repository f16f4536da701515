// A stopped thread's registers, numbered as the unwinder wants them.
#pragma once
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::agent {

struct Registers {
  std::vector<std::uint64_t> values;  // by DWARF number, from 0
  std::uint64_t pc, stack_pointer;
};

#if defined(__x86_64__)
constexpr std::uint64_t kRedZone = 128;  // below the stack pointer, a leaf function's; System V ABI, AMD64 supplement

// The numbers of figure 3.36 in the same document; 16 is the return address.
inline Registers by_dwarf_number(const user_regs_struct& r) {
  return {{r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,
           r.rip},
          r.rip,
          r.rsp};
}
#elif defined(__aarch64__)
constexpr std::uint64_t kRedZone = 0;

// x0 to x30 and sp; DWARF for the Arm 64-bit Architecture.
inline Registers by_dwarf_number(const user_regs_struct& r) {
  std::vector<std::uint64_t> values(std::begin(r.regs), std::end(r.regs));
  values.push_back(r.sp);
  return {std::move(values), r.pc, r.sp};
}
#endif

#if defined(__x86_64__) || defined(__aarch64__)
// Of a thread in a ptrace stop of ours. Empty: it is a 32-bit program, or gone.
inline std::optional<Registers> registers_of(pid_t tid) {
  user_regs_struct raw{};
  iovec into{&raw, sizeof raw};
  if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &into) != 0 || into.iov_len != sizeof raw) return {};
  return by_dwarf_number(raw);
}
#else
constexpr std::uint64_t kRedZone = 0;
inline std::optional<Registers> registers_of(pid_t) { return {}; }
#endif

}  // namespace ddprun::agent
