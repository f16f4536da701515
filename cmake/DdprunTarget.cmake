set(DDPRUN_SANITIZE "" CACHE STRING "Comma-separated sanitizers for all targets of ours, e.g. address,undefined")

# For code that runs once a job or once a death: nothing in it is hot, and -O1 builds it in two thirds of the time.
function(ddprun_quick_to_build target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

option(DDPRUN_UNITY "Compile several files of a library at a time, which reads the headers once for them" ON)

# Most of a file's time goes into the headers of Asio, nlohmann/json or LibTorch; eight files at a time pay for them once.
function(ddprun_several_at_a_time target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DDPRUN_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # it takes the files for headers
    target_compile_options(${target} PRIVATE $<$<BOOL:${DDPRUN_UNITY}>:-Wno-subobject-linkage>)
  endif()
endfunction()

# For a target with precompiled headers: ccache takes them only when told that defines and the time of day do not matter in them.
function(ddprun_cache_precompiled target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)  # a time in it would hide equal headers from ccache
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

# A library that ddprun opens at run time. It carries its C++ runtime, as ddprun does.
function(ddprun_module target)
  ddprun_target(${target})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/ddprun)
  if(NOT DDPRUN_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION ${DDPRUN_MODULES_FOLDER})
  if(DDPRUN_BUNDLE_LIBRARIES)
    ddprun_bundle_libraries(${target})
  endif()
endfunction()

# Installs what a module needs and not every Linux has, under the names that are looked for. Its path has to be the old DT_RPATH:
# it is searched for what these libraries need themselves, too.
function(ddprun_bundle_libraries target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "\$ORIGIN")
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"$<TARGET_FILE:${target}>\" RESOLVED_DEPENDENCIES_VAR libraries
         PRE_EXCLUDE_REGEXES \"^(ld-linux.*|libc|libm|libz)[.]so\")
    foreach(library IN LISTS libraries)
      cmake_path(GET library FILENAME name)
      file(REAL_PATH \"\${library}\" file)
      file(INSTALL \"\${file}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${DDPRUN_MODULES_FOLDER}\" RENAME \${name})
    endforeach()
    file(WRITE \"${CMAKE_BINARY_DIR}/${target}.bundled\" \"\${libraries}\")  # for scripts/packages/sbom.py")
endfunction()

# Every target of the project is dressed here and nowhere else.
function(ddprun_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false alarm on "literal" + string: gcc.gnu.org/PR105651
  endif()
  if(DDPRUN_SANITIZE STREQUAL thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-tsan)  # Asio's fences, which the sanitizer does not see; its mutexes it does
  endif()
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  if(DDPRUN_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${DDPRUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=${DDPRUN_SANITIZE})
  endif()
endfunction()
