# Dw::dw, elfutils' libdw with libdwfl, as Debian ships it (libdw-dev).
find_path(DW_INCLUDE_DIR elfutils/libdwfl.h)
find_library(DW_LIBRARY NAMES dw)
include(FindPackageHandleStandardArgs)
set(Dw_FIND_QUIETLY ON)  # it is optional
find_package_handle_standard_args(Dw REQUIRED_VARS DW_LIBRARY DW_INCLUDE_DIR)
if(Dw_FOUND AND NOT TARGET Dw::dw)
  add_library(Dw::dw UNKNOWN IMPORTED)
  set_target_properties(Dw::dw PROPERTIES IMPORTED_LOCATION ${DW_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DW_INCLUDE_DIR})
  if(DW_LIBRARY MATCHES "[.]a$")  # as scripts/packages/zig.sh builds it
    find_library(ELF_LIBRARY NAMES elf REQUIRED)
    find_library(LZMA_LIBRARY NAMES lzma REQUIRED)
    target_link_libraries(Dw::dw INTERFACE ${ELF_LIBRARY} ${LZMA_LIBRARY} ZLIB::ZLIB)
    mark_as_advanced(ELF_LIBRARY LZMA_LIBRARY)
  endif()
endif()
mark_as_advanced(DW_INCLUDE_DIR DW_LIBRARY)
