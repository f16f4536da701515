// Names of functions as people read them. Pure.
#pragma once
#include <string>

namespace ddprun::agent {

// From a symbol: "_ZN4gloo9allreduceE..." → "gloo::allreduce". Names of C lose the version and what the compiler added,
// "pthread_cond_wait@@GLIBC_2.3.2", "loop.constprop.0".
std::string function_name(const std::string& symbol);

// Without return type, arguments and template arguments: "void at::call<float>(int) const" → "at::call".
std::string shortened(const std::string& demangled);

}  // namespace ddprun::agent
