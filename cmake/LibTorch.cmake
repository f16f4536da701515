# Finds a LibTorch and gives two targets to build on:
#   ddprun::torch      c10d, gloo, autograd: all that `train` links. Loads in two thirds of the time of the whole of LibTorch.
#   ddprun::torch_gpu  the same with CUDA and NCCL; there is none where these cannot be compiled against.
#
# Looked at, in this order: -DDDPRUN_TORCH_DIR, the environment's DDPRUN_TORCH_DIR, the one that an installed ddprun was built with,
# DDPRUN_VENV, the project's .venv. It names a folder "torch" of a wheel or an unpacked libtorch: whatever holds share/cmake/Torch. Python is never started: `import torch` costs two seconds.
set(DDPRUN_TORCH_DIR "$ENV{DDPRUN_TORCH_DIR}" CACHE PATH "LibTorch: a wheel's torch folder or an unpacked libtorch (default: the .venv)")
set(torch_dir ${DDPRUN_TORCH_DIR})
if(NOT torch_dir)
  set(torch_dir ${ddprun_built_with_torch})
endif()
if(NOT torch_dir)
  file(GLOB candidates ${DDPRUN_VENV}/lib/python3*/site-packages/torch)
  list(POP_BACK candidates torch_dir)
endif()
if(NOT EXISTS "${torch_dir}/share/cmake/Torch/TorchConfig.cmake")
  message(FATAL_ERROR "No LibTorch in '${torch_dir}' (no share/cmake/Torch there). Run scripts/setup.sh, or pass -DDDPRUN_TORCH_DIR=<folder>, "
                      "or build the launcher alone with -DDDPRUN_TRAINER=OFF.")
endif()

# A CUDA build of LibTorch asks for the whole toolkit, though host code needs only headers, and the wheel's neighbours have nearly all
# of them. Caffe2's search returns at once where torch::cudart exists already (an include guard, no API: tests pin torch's version).
if(NOT TARGET torch::cudart)
  add_library(torch::cudart INTERFACE IMPORTED GLOBAL)
  cmake_path(GET torch_dir PARENT_PATH site)
  find_path(DDPRUN_NCCL_INCLUDE nccl.h PATHS ${site}/nvidia/nccl/include NO_DEFAULT_PATH)  # its own: another version, another layout
  find_path(DDPRUN_CUDA_INCLUDE cuda_runtime_api.h
            HINTS ${site}/nvidia/cu13 ${site}/nvidia/cuda_runtime ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
  # CUDA 13 keeps these two apart from the runtime: wheels nvidia-cuda-crt and nvidia-cuda-cccl, or the toolkit.
  find_path(DDPRUN_CUDA_CRT_INCLUDE crt/host_config.h HINTS ${DDPRUN_CUDA_INCLUDE} ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
  find_path(DDPRUN_CUDA_CCCL_INCLUDE nv/target HINTS ${DDPRUN_CUDA_INCLUDE} ${DDPRUN_CUDA_INCLUDE}/cccl ENV CUDA_HOME PATHS /usr/local/cuda
            PATH_SUFFIXES include include/cccl)
  mark_as_advanced(DDPRUN_NCCL_INCLUDE DDPRUN_CUDA_INCLUDE DDPRUN_CUDA_CRT_INCLUDE DDPRUN_CUDA_CCCL_INCLUDE)
endif()

set(saved_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # its own chatter: "library kineto not found" and the like, harmless
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # the tests link them, too
find_package(Torch REQUIRED PATHS ${torch_dir} NO_DEFAULT_PATH)
set(CMAKE_MESSAGE_LOG_LEVEL "${saved_log_level}")
unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)

add_library(ddprun_torch INTERFACE)
add_library(ddprun::torch ALIAS ddprun_torch)
target_include_directories(ddprun_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(ddprun_torch INTERFACE torch_cpu_library)

if(NOT TARGET torch_cuda_library)
  message(STATUS "LibTorch ${Torch_VERSION} in ${torch_dir}: a CPU build, the trainer speaks gloo only.")
elseif(DDPRUN_NCCL_INCLUDE AND DDPRUN_CUDA_INCLUDE AND DDPRUN_CUDA_CRT_INCLUDE AND DDPRUN_CUDA_CCCL_INCLUDE)
  message(STATUS "LibTorch ${Torch_VERSION} in ${torch_dir}: gloo and NCCL, CUDA headers from ${DDPRUN_CUDA_CRT_INCLUDE}.")
  add_library(ddprun_torch_gpu INTERFACE)
  add_library(ddprun::torch_gpu ALIAS ddprun_torch_gpu)
  target_include_directories(ddprun_torch_gpu SYSTEM INTERFACE ${DDPRUN_NCCL_INCLUDE} ${DDPRUN_CUDA_INCLUDE} ${DDPRUN_CUDA_CRT_INCLUDE}
                             ${DDPRUN_CUDA_CCCL_INCLUDE})
  target_link_libraries(ddprun_torch_gpu INTERFACE ddprun_torch torch_cuda_library)
else()
  message(STATUS "LibTorch ${Torch_VERSION} in ${torch_dir}: CUDA's host headers (nccl.h, cuda_runtime_api.h, crt/host_config.h, nv/target) are not "
                 "all here, so the trainer speaks gloo only; the wheels nvidia-cuda-crt and nvidia-cuda-cccl or a CUDA toolkit bring them.")
endif()

# For a target that includes LibTorch. Its headers are precompiled once and used by all (20 s a file otherwise).
function(ddprun_torch_headers target)
  # They fit only code that is compiled in the same way: with -fPIC, and without a name for the library's export.
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "" POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_include_directories(${target} SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/trainer/ddp/gloo_shim)
  if(target STREQUAL ddprun_torch_precompiled)
    target_precompile_headers(${target} PRIVATE [["trainer/ddp/torch_pch.h"]])  # relative, as all that ccache compares
  else()
    target_precompile_headers(${target} REUSE_FROM ddprun_torch_precompiled)
  endif()
  ddprun_cache_precompiled(${target})
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)  # then reading them takes longer than all files of a library together
    set_target_properties(${target} PROPERTIES DDPRUN_GROUP_SIZE 40)
    ddprun_several_at_a_time(${target})
  endif()
endfunction()
