#include "ddprun/prefork.h"

#include "rendezvous/prefork/fork_request.h"
#include "rendezvous/prefork/template_process.h"

namespace ddprun {

void prefork(int& argc, char**& argv) {
  // Kept also where the function's own name is not: ddprun looks for it in the program's file.
  static const char* const volatile mark = kPreforkMark;
  if (mark) serve_as_template(argc, argv);
}

}  // namespace ddprun
