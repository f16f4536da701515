// ProcessGroupGloo.hpp includes it for std::runtime_error only.
#pragma once
#include <stdexcept>
