# The system's packages first, pinned sources second. With the Debian packages of scripts/setup.sh nothing is downloaded.
include(FetchContent)
set(FETCHCONTENT_QUIET ON)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3 REQUIRED)

FetchContent_Declare(CLI11 URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz FIND_PACKAGE_ARGS 2.1)
FetchContent_Declare(nlohmann_json URL https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
                     FIND_PACKAGE_ARGS 3.11)
set(SPDLOG_FMT_EXTERNAL_DEFAULT OFF)
FetchContent_Declare(spdlog URL https://github.com/gabime/spdlog/archive/refs/tags/v1.14.1.tar.gz FIND_PACKAGE_ARGS 1.10)
FetchContent_Declare(Asio URL https://github.com/chriskohlhoff/asio/archive/refs/tags/asio-1-30-2.tar.gz FIND_PACKAGE_ARGS)
FetchContent_Declare(tomlplusplus URL https://github.com/marzer/tomlplusplus/archive/refs/tags/v3.4.0.tar.gz FIND_PACKAGE_ARGS 3.3)
FetchContent_Declare(PCRE2 URL https://github.com/PCRE2Project/pcre2/releases/download/pcre2-10.44/pcre2-10.44.tar.gz
                     FIND_PACKAGE_ARGS MODULE)
set(PCRE2_BUILD_PCRE2GREP OFF)
set(PCRE2_BUILD_TESTS OFF)
FetchContent_MakeAvailable(CLI11 nlohmann_json spdlog Asio tomlplusplus PCRE2)
if(NOT TARGET PCRE2::8BIT)  # the fetched source's name for it
  add_library(PCRE2::8BIT ALIAS pcre2-8-static)
endif()
if(NOT TARGET Asio::asio)  # the fetched source has no CMake of its own
  add_library(Asio::asio INTERFACE IMPORTED)
  target_include_directories(Asio::asio SYSTEM INTERFACE ${asio_SOURCE_DIR}/asio/include)
  target_link_libraries(Asio::asio INTERFACE Threads::Threads)
  target_compile_definitions(Asio::asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
endif()

# spdlog without libfmt.so: every shared library costs the launcher's start a good part of a millisecond.
add_library(ddprun_spdlog INTERFACE)
if(TARGET fmt::fmt-header-only)
  target_include_directories(ddprun_spdlog SYSTEM INTERFACE
    $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(ddprun_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(ddprun_spdlog INTERFACE fmt::fmt-header-only)
else()
  target_link_libraries(ddprun_spdlog INTERFACE spdlog::spdlog_header_only)
endif()

# toml++ without its shared library, for the same reason.
add_library(ddprun_toml INTERFACE)
target_include_directories(ddprun_toml SYSTEM INTERFACE
  $<TARGET_PROPERTY:tomlplusplus::tomlplusplus,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(ddprun_toml INTERFACE TOML_HEADER_ONLY=1)
if(DDPRUN_SANITIZE MATCHES undefined)
  # toml++ 3.3 calls a place unreachable that letters such as U+0416 reach; whichever way the compiler then takes, the answer is
  # right (3.4 has it mended).
  target_compile_options(ddprun_toml INTERFACE -fno-sanitize=unreachable)
endif()

if(DDPRUN_TESTS)
  FetchContent_Declare(Catch2 URL https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz FIND_PACKAGE_ARGS 2.13)
  FetchContent_MakeAvailable(Catch2)
  if(Catch2_SOURCE_DIR)
    list(APPEND CMAKE_MODULE_PATH ${Catch2_SOURCE_DIR}/extras)
  endif()
endif()
