// Built into a separate library, the only one that links libdw. See unwind_plugin.h.
#include "agent/stacks/unwind_plugin.h"

#include <elfutils/libdwfl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "agent/stacks/symbol_index.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kFramesMax = 256;  // of a thread: one of endless recursion has thousands

struct CloseDwfl {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};
using DwflPointer = std::unique_ptr<Dwfl, CloseDwfl>;

// Debug files only from this machine's folder of build ids: the standard callback would ask a debuginfod server.
char debug_folder[] = "/usr/lib/debug";
char* debug_path = debug_folder;
const Dwfl_Callbacks kFileCallbacks{dwfl_linux_proc_find_elf, dwfl_build_id_find_debuginfo, nullptr, &debug_path};

// What libdwfl's callbacks need of one process.
struct Captured {
  pid_t pid;
  const UnwindThread* threads;
  std::size_t count;
  const UnwindThread* current = nullptr;
};

bool read_copy(const UnwindThread& thread, Dwarf_Addr address, Dwarf_Word* result) {
  if (address < thread.stack_begin || thread.stack_size < sizeof *result) return false;
  const Dwarf_Addr offset = address - thread.stack_begin;
  if (offset > thread.stack_size - sizeof *result) return false;
  std::memcpy(result, thread.stack + offset, sizeof *result);
  return true;
}

bool read_process(pid_t pid, Dwarf_Addr address, Dwarf_Word* result) {
  const iovec local{result, sizeof *result};
  const iovec remote{reinterpret_cast<void*>(address), sizeof *result};  // NOLINT(performance-no-int-to-ptr)
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof *result;
}

bool memory_read(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* argument) {
  const auto& captured = *static_cast<const Captured*>(argument);
  if (captured.current && read_copy(*captured.current, address, result)) return true;
  return read_process(captured.pid, address, result);
}

// libdwfl's thread argument is the place in the list; it begins with nullptr.
pid_t next_thread(Dwfl*, void* argument, void** position) {
  auto& captured = *static_cast<Captured*>(argument);
  const auto* next = *position ? static_cast<const UnwindThread*>(*position) + 1 : captured.threads;
  if (next == captured.threads + captured.count) return 0;
  *position = const_cast<UnwindThread*>(next);
  return next->tid;
}

bool get_thread(Dwfl*, pid_t tid, void* argument, void** position) {
  auto& captured = *static_cast<Captured*>(argument);
  const auto* const end = captured.threads + captured.count;
  const auto* const found =
      std::find_if(captured.threads, end, [&](const UnwindThread& thread) { return thread.tid == tid; });
  captured.current = found;
  *position = const_cast<UnwindThread*>(found);
  return found != end;
}

bool set_initial_registers(Dwfl_Thread* thread, void* position) {
  const auto& from = *static_cast<const UnwindThread*>(position);
  const std::vector<Dwarf_Word> values(from.registers, from.registers + from.register_count);
  dwfl_thread_state_register_pc(thread, from.pc);
  return dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(values.size()), values.data());
}

const Dwfl_Thread_Callbacks kThreadCallbacks{next_thread,           get_thread, memory_read,
                                             set_initial_registers, nullptr,    nullptr};

// The same file in another process has the same key.
std::string key_of(Dwfl_Module* module) {
  const unsigned char* id = nullptr;
  GElf_Addr vaddr = 0, begin = 0, end = 0;
  const char* name = dwfl_module_info(module, nullptr, &begin, &end, nullptr, nullptr, nullptr, nullptr);
  std::string key = name ? name : "";
  if (const int size = dwfl_module_build_id(module, &id, &vaddr); size > 0)
    return key.append(1, '\0').append(reinterpret_cast<const char*>(id), static_cast<std::size_t>(size));
  return key.append(1, '\0').append(std::to_string(end - begin));
}

class DwflUnwinder final : public Unwinder {
 public:
  const char* unwind(pid_t pid, const UnwindThread* threads, std::size_t count, UnwindSink& sink) override {
    try {
      return unwind_process(pid, threads, count, sink);
    } catch (const std::exception&) {  // no exception may cross
      return "out of memory";
    }
  }

 private:
  struct Walk {
    DwflUnwinder& unwinder;
    Dwfl* dwfl;
    std::size_t thread;
    UnwindSink& sink;
    std::size_t frames = 0;
  };

  const char* unwind_process(pid_t pid, const UnwindThread* threads, std::size_t count, UnwindSink& sink) {
    const std::shared_ptr<Dwfl> dwfl(dwfl_begin(&kFileCallbacks), CloseDwfl());
    if (!dwfl || dwfl_linux_proc_report(dwfl.get(), pid) != 0 || dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0)
      return "its memory map is not readable";
    Captured captured{pid, threads, count};
    if (!dwfl_attach_state(dwfl.get(), nullptr, pid, &kThreadCallbacks, &captured)) return dwfl_errmsg(-1);
    current_ = dwfl;
    modules_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      Walk walk{*this, dwfl.get(), i, sink};
      const int result = dwfl_getthread_frames(dwfl.get(), threads[i].tid, on_frame, &walk);
      if (result == -1) report_end(walk);
      if (walk.frames == kFramesMax) sink.failed(i, "there are more frames");
    }
    current_.reset();
    return nullptr;
  }

  // A stack ends without an error where its outermost frame says so; in code without unwind information it breaks off.
  static void report_end(const Walk& walk) {
    const char* const why = dwfl_errmsg(-1);
    walk.sink.failed(walk.thread, why ? why : "it cannot be unwound further");
  }

  static int on_frame(Dwfl_Frame* frame, void* argument) {
    auto& walk = *static_cast<Walk*>(argument);
    try {
      return walk.unwinder.take_frame(frame, walk) ? DWARF_CB_OK : DWARF_CB_ABORT;
    } catch (const std::exception&) {  // C's frames are between this one and unwind()
      return DWARF_CB_ABORT;
    }
  }

  bool take_frame(Dwfl_Frame* frame, Walk& walk) {
    Dwarf_Addr address = 0;
    bool is_innermost = false;
    if (!dwfl_frame_pc(frame, &address, &is_innermost)) return false;
    UnwoundFrame out{address, address};
    const Dwarf_Addr inside = is_innermost ? address : address - 1;  // a call may be a function's last instruction
    if (Dwfl_Module* const module = dwfl_addrmodule(walk.dwfl, inside)) {
      GElf_Addr begin = 0, bias = 0;
      out.module = dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
      if (dwfl_module_getelf(module, &bias)) out.offset = address - bias;
      out.symbol = index_of(module).find(inside - begin);
    }
    walk.sink.frame(walk.thread, out);
    return ++walk.frames < kFramesMax;
  }

  const SymbolIndex& index_of(Dwfl_Module* module) {
    const SymbolIndex*& known = modules_[module];
    if (known) return *known;
    const auto [kept, fresh] = indexes_.try_emplace(key_of(module));
    if (fresh) kept->second = std::make_unique<Kept>(Kept{current_, SymbolIndex(module)});
    known = &kept->second->index;
    return *known;
  }

  struct Kept {
    std::shared_ptr<Dwfl> owner;  // of the names
    SymbolIndex index;
  };
  std::map<std::string, std::unique_ptr<Kept>> indexes_;
  std::shared_ptr<Dwfl> current_;
  std::map<Dwfl_Module*, const SymbolIndex*> modules_;  // of the current one
};

}  // namespace
}  // namespace ddprun::agent

extern "C" __attribute__((visibility("default"))) ddprun::agent::Unwinder* ddprun_make_unwinder() {
  return new (std::nothrow) ddprun::agent::DwflUnwinder();
}
