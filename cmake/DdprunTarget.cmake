option(DDPRUN_HANDLER_TIMES "End an agent whose loop has a handler that waits (rendezvous/base/handler_time.h)" OFF)
set(DDPRUN_SANITIZE "" CACHE STRING "Comma-separated sanitizers for all targets of ours, e.g. address,undefined")

# For code that runs once a job or once a death: nothing in it is hot. A quarter smaller than with -O1, and as quick to build.
function(ddprun_small target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
endfunction()

# For tests: -O1 builds them in two thirds of the time, and headers that were precompiled with -O3 fit (those of -Os would not).
function(ddprun_quick_to_build target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

option(DDPRUN_UNITY "Compile several files of a library at a time, which reads the headers once for them" ON)

# Most of a file's time goes into the headers of Asio, nlohmann/json or LibTorch; two dozen files at a time pay for them once. CMake's own
# unity files include by absolute path, and a second clone would compile them all again.
function(ddprun_several_at_a_time target)
  if(DDPRUN_UNITY)  # at the folder's end, when all sources are named
    cmake_language(EVAL CODE "cmake_language(DEFER CALL ddprun_group_sources ${target})")
  endif()
endfunction()

define_property(TARGET PROPERTY DDPRUN_GROUP_SIZE BRIEF_DOCS "So many files are compiled at a time (default 24)")

function(ddprun_group_sources target)
  get_target_property(size ${target} DDPRUN_GROUP_SIZE)
  if(NOT size)
    set(size 24)
  endif()
  get_target_property(sources ${target} SOURCES)
  set(alone "")
  set(grouped "")
  foreach(source IN LISTS sources)
    get_source_file_property(special "${source}" COMPILE_DEFINITIONS)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR "${path}" is_generated)
    if(special OR options OR is_generated OR NOT source MATCHES "[.]cpp$")
      list(APPEND alone "${source}")
    else()
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      list(APPEND grouped ${path})
    endif()
  endforeach()
  list(LENGTH grouped count)
  set(begin 0)
  while(begin LESS count)
    list(SUBLIST grouped ${begin} ${size} group)
    list(JOIN group "\"\n#include \"" includes)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/units/${target}_${begin}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${includes}\"\n" @ONLY)
    list(APPEND alone ${unit})
    math(EXPR begin "${begin} + ${size}")
  endwhile()
  set_target_properties(${target} PROPERTIES SOURCES "${alone}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # it takes the files for headers
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# For a target with precompiled headers: a time in them would hide equal ones from ccache.
function(ddprun_cache_precompiled target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# The C++ runtime is linked in, two libraries less to load (1 ms of 3), and a module shows no name of it.
set(DDPRUN_STATIC_RUNTIME -static-libstdc++ -static-libgcc)
set(DDPRUN_HIDDEN_LIBRARIES LINKER:--exclude-libs,ALL)
if(DDPRUN_ZIG)  # its runtime is linked in anyway, and it does not know these options
  set(DDPRUN_STATIC_RUNTIME "")
  set(DDPRUN_HIDDEN_LIBRARIES LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/module.map)
endif()

# A library that ddprun opens at run time. It carries its C++ runtime, as ddprun does.
function(ddprun_module target)
  ddprun_target(${target})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/ddprun)
  if(NOT DDPRUN_SANITIZE)
    target_link_options(${target} PRIVATE ${DDPRUN_STATIC_RUNTIME} ${DDPRUN_HIDDEN_LIBRARIES})
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
  if(DDPRUN_HANDLER_TIMES)
    target_compile_definitions(${target} PUBLIC ASIO_CUSTOM_HANDLER_TRACKING="rendezvous/base/handler_time.h")
  endif()
  if(DDPRUN_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${DDPRUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    target_link_options(${target} PUBLIC -fsanitize=${DDPRUN_SANITIZE})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)  # a quarter of a program would be relocations: 30 ms of each start
      target_link_options(${target} PRIVATE -no-pie)
    endif()
  endif()
endfunction()
