# The commit that --version names, in a file of its own: after a commit nothing else is compiled again. Only programs link it.
set(DDPRUN_COMMIT "" CACHE STRING "The commit that --version names (default: what cmake/FindCommit.cmake finds)")
set(commit_file ${PROJECT_BINARY_DIR}/commit.cpp)
set(find_commit ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DCOMMIT=${DDPRUN_COMMIT} -DOUTPUT=${commit_file}
                -P ${PROJECT_SOURCE_DIR}/cmake/FindCommit.cmake)
execute_process(COMMAND ${find_commit} COMMAND_ERROR_IS_FATAL ANY)  # scripts/check.sh reads it without a build
add_custom_target(ddprun_find_commit COMMAND ${find_commit} BYPRODUCTS ${commit_file} COMMENT "Finding the commit" VERBATIM)
add_library(ddprun_commit STATIC ${commit_file})
ddprun_target(ddprun_commit)
add_dependencies(ddprun_commit ddprun_find_commit)
