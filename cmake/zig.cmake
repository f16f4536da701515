# For Linux with an older glibc than this machine's, or another processor, by zig's compiler. First scripts/packages/zig.sh
# x86_64-linux-gnu.2.28, then
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DDDPRUN_ZIG=$PWD/build/zig/x86_64-linux-gnu.2.28 -DDDPRUN_TRAINER=OFF -DDDPRUN_TESTS=OFF
set(DDPRUN_ZIG "" CACHE PATH "What scripts/packages/zig.sh made: build/zig/TARGET")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DDPRUN_ZIG)
if(NOT EXISTS "${DDPRUN_ZIG}/bin/c++")
  message(FATAL_ERROR "No compiler in '${DDPRUN_ZIG}' (no bin/c++ there). Run scripts/packages/zig.sh, and pass -DDDPRUN_ZIG=<what it made>.")
endif()
cmake_path(GET DDPRUN_ZIG FILENAME target)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR ${target})
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_CXX_COMPILER ${DDPRUN_ZIG}/bin/c++)
set(CMAKE_AR ${DDPRUN_ZIG}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${DDPRUN_ZIG}/bin/ranlib CACHE FILEPATH "")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # other compilers do so by themselves
set(CMAKE_EXE_LINKER_FLAGS_INIT "-pie -s")  # zig's own libraries have debug information
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s -Wl,-z,defs")  # a static library that another one needs is not forgotten
set(CMAKE_STRIP "" CACHE FILEPATH "")  # this machine's knows no other processor
set(CCACHE_PROGRAM ${DDPRUN_ZIG}/bin/ccache CACHE FILEPATH "")

# This machine's headers and libraries are of its glibc: what is in neither folder is not there.
set(CMAKE_FIND_ROOT_PATH ${DDPRUN_ZIG}/libraries ${DDPRUN_ZIG}/headers)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind INCLUDE LIBRARY PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(OPENSSL_USE_STATIC_LIBS TRUE)

set(DDPRUN_LLD OFF CACHE FILEPATH "" FORCE)  # zig has one of its own, and takes few of its options
