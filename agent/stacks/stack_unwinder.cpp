#include "agent/stacks/stack_unwinder.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "agent/stacks/function_name.h"
#include "rendezvous/base/error.h"

namespace ddprun::agent {
namespace {

constexpr const char* kUnwinderModule = "../lib/ddprun/libddprun_stacks.so";  // relative to the program's folder

#ifdef DDPRUN_UNWINDER
constexpr bool kUnwinderBuilt = true;
#else
constexpr bool kUnwinderBuilt = false;
#endif

struct UnwinderModule {
  MakeUnwinder* make = nullptr;
  std::string missing = {};
};

UnwinderModule open_unwinder_module() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto file = (program.parent_path() / kUnwinderModule).lexically_normal();
  void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open: the next hang needs it, too
  if (!module) return {nullptr, unwinder_missing(dlerror(), kUnwinderBuilt)};
  auto* const make = reinterpret_cast<MakeUnwinder*>(dlsym(module, kMakeUnwinderName));
  check(make != nullptr, "the module for stacks has its one function");
  return {make};
}

// Demangles, and adds the frames to their threads.
class FrameSink final : public UnwindSink {
 public:
  explicit FrameSink(std::vector<ThreadStack*> threads) : threads_(std::move(threads)) {}

  void frame(std::size_t thread, const UnwoundFrame& frame) override {
    threads_[thread]->frames.push_back({frame.symbol ? function_name(frame.symbol) : "",
                                        frame.module ? frame.module : "", frame.address, frame.offset});
  }
  void failed(std::size_t thread, const char* why) override { threads_[thread]->missing = why; }

 private:
  const std::vector<ThreadStack*> threads_;
};

UnwindThread view_of(const CapturedThread& thread) {
  return {thread.about.tid,   thread.registers.data(), thread.registers.size(), thread.pc,
          thread.stack_begin, thread.stack.data(),     thread.stack.size()};
}

void add_sentence(std::string& text, const std::string& more) { text += (text.empty() ? "" : "; ") + more; }

}  // namespace

std::string unwinder_missing(const std::string& error, bool built) {
  const std::string missing = "no native frames: ";
  if (!built)
    return missing + "ddprun was built without libdw; install its headers (Debian: libdw-dev) and build it again";
  if (error.find("libdw") != error.npos || error.find("libelf") != error.npos)
    return missing + error + "; install elfutils' libraries (Debian: libdw1)";
  return missing + error + "; install ddprun with its lib folder";
}

StackUnwinder::StackUnwinder() {
  static const UnwinderModule kModule = open_unwinder_module();
  missing_ = kModule.missing;
  if (kModule.make) unwinder_.reset(kModule.make());
}

void StackUnwinder::unwind(CapturedProcess& captured) {
  std::vector<UnwindThread> views;
  std::vector<ThreadStack*> stacks;
  for (CapturedThread& thread : captured.threads) {
    if (thread.registers.empty()) continue;
    views.push_back(view_of(thread));
    stacks.push_back(&thread.about);
  }
  if (views.empty()) return;
  if (!unwinder_)
    return add_sentence(captured.missing, missing_.empty() ? "no native frames: out of memory" : missing_);
  FrameSink sink(std::move(stacks));
  if (const char* why = unwinder_->unwind(captured.memory_of, views.data(), views.size(), sink))
    add_sentence(captured.missing, std::string("no native frames: ") + why);
}

}  // namespace ddprun::agent
