// The template's side of `ddprun --prefork`, for C++ programs; agent/prefork/ has the other side, and for Python
// agent/prefork/sitecustomize.py is what this file is here.
#pragma once

namespace ddprun {

// In a template, answers the agent's requests and returns only in workers, with their arguments and environment; the
// template itself ends with its agent. In any other process returns at once. Call it at the top of main, before there
// is any thread, socket or device: only the thread that calls it exists in a worker.
void serve_as_template(int& argc, char**& argv);

}  // namespace ddprun
