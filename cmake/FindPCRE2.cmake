# PCRE2::8BIT, PCRE2's library for UTF-8 and bytes: static where it is installed, as every shared library costs the launcher's start.
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY NAMES libpcre2-8.a pcre2-8)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PCRE2 REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR)
if(PCRE2_FOUND AND NOT TARGET PCRE2::8BIT)
  add_library(PCRE2::8BIT UNKNOWN IMPORTED)
  set_target_properties(PCRE2::8BIT PROPERTIES IMPORTED_LOCATION ${PCRE2_LIBRARY}
                                               INTERFACE_INCLUDE_DIRECTORIES ${PCRE2_INCLUDE_DIR}
                                               INTERFACE_COMPILE_DEFINITIONS PCRE2_STATIC)
endif()
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_LIBRARY)
