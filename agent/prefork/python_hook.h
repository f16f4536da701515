// prefork/sitecustomize.py, as the content of a ZIP file.
#pragma once
#include <string_view>

namespace ddprun::agent {

std::string_view python_hook();

}  // namespace ddprun::agent
