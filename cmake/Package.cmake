# What find_package(ddprun) reads in every installation. trainer/ddp adds the library.
include(CMakePackageConfigHelpers)
set(DDPRUN_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)
if(DDPRUN_TORCH_AT_START)  # the library is in a folder that find_package does not search
  set(DDPRUN_PACKAGE_FOLDER lib/cmake/ddprun)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ddprunConfig.cmake.in ddprunConfig.cmake
                              INSTALL_DESTINATION ${DDPRUN_PACKAGE_FOLDER} PATH_VARS CMAKE_INSTALL_INCLUDEDIR DDPRUN_PROGRAMS_FOLDER)
write_basic_package_version_file(ddprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake
        DESTINATION ${DDPRUN_PACKAGE_FOLDER})
