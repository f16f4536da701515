// What nearly every file of tests begins with: Catch, the standard and system headers, a real command, the places, and
// the names of the project's own namespaces. Precompiled. For .cpp files of test programs: no header includes it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/error_text.h"
#include "tests/support/places.h"
#include "tests/support/texts.h"

namespace ddprun::test {}
namespace fs = std::filesystem;
namespace ddprun::agent {}
namespace ddprun::launcher {}
namespace ddprun::rendezvous {}
namespace ddprun::train {}
using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::launcher;
using namespace ddprun::rendezvous;
using namespace ddprun::test;
using namespace ddprun::train;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;
