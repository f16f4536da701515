// What a call that fails says.
#pragma once
#include <concepts>
#include <exception>
#include <string>

namespace ddprun::test {

// Of an exception of this kind; "" where the call succeeds.
template <class Exception = std::exception, std::invocable Call>
std::string error_text(const Call& call) {
  try {
    call();
    return "";
  } catch (const Exception& error) {
    return error.what();
  }
}

}  // namespace ddprun::test
