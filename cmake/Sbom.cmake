# What is linked in, and its licences, beside the wheel's metadata (PEP 770).
# Included last: what is installed is installed in the order of the rules.
option(DDPRUN_SBOM "Write what is linked in into the wheel; asks Debian's dpkg" OFF)
if(DDPRUN_SBOM AND SKBUILD)
  install(CODE "
    set(metadata \"${SKBUILD_METADATA_DIR}\")
    file(MAKE_DIRECTORY \"\${metadata}/sboms\")
    execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/scripts/packages/sbom.py\" \"${CMAKE_BINARY_DIR}\"
                            --licences \"\${metadata}/licenses/linked\"
                    OUTPUT_FILE \"\${metadata}/sboms/ddprun.cdx.json\" COMMAND_ERROR_IS_FATAL ANY)")
endif()
