#include "ddprun/prefork.h"

#include <dlfcn.h>

#include <cstdlib>

#include "rendezvous/prefork/fork_request.h"
#include "rendezvous/prefork/template_process.h"
#include "trainer/ddp/group/gpu_library.h"

namespace ddprun {
namespace {

// The GPU half of LibTorch, which each worker would load otherwise. Nothing asks the driver: only that may not be
// forked.
void load_gpu_half_in_template() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!std::getenv(kTemplateVariable) || (visible && *visible == '\0')) return;
  if (!dlopen(kCudaDriverLibrary, RTLD_NOW)) return;  // no GPU
  dlopen(kGpuLibrary, RTLD_NOW | RTLD_GLOBAL);        // a worker that needs it says what is wrong
}

}  // namespace

void prefork(int& argc, char**& argv) {
  // Kept also where the function's own name is not: ddprun looks for it in the program's file.
  static const char* const volatile mark = kPreforkMark;
  load_gpu_half_in_template();
  if (mark) serve_as_template(argc, argv);
}

}  // namespace ddprun
