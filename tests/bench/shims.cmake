# Libraries to preload. For benches and for tests.
include_guard(GLOBAL)

# Without libstdc++, which would be loaded with it and counted.
foreach(shim pidfd_shim numeric_names_shim)
  add_library(${shim} SHARED ${CMAKE_CURRENT_LIST_DIR}/${shim}.cpp)
  ddprun_target(${shim})
  target_compile_options(${shim} PRIVATE -fno-exceptions -fno-threadsafe-statics)
  target_link_options(${shim} PRIVATE -Wl,--as-needed)
  target_link_libraries(${shim} PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(${shim} PROPERTIES CXX_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
endforeach()
