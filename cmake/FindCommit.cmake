# Writes the commit of the sources into a file, if that does not have it already: a string of C++ where its name ends in .cpp,
# else a line.
# cmake -DSOURCE=FOLDER -DOUTPUT=FILE [-DCOMMIT=abc1234] -P FindCommit.cmake
# Of COMMIT, else cmake/commit.txt, into which `git archive` and scripts/package.sh write it, else git, the first that knows it.
# Only SOURCE's own repository counts: sources may lie in a folder of another one.
cmake_minimum_required(VERSION 3.24)
set(commit "${COMMIT}")
if(NOT commit AND EXISTS ${SOURCE}/cmake/commit.txt)
  file(STRINGS ${SOURCE}/cmake/commit.txt commit LIMIT_COUNT 1)
  if(commit MATCHES "Format:")
    set(commit "")
  endif()
endif()
if(NOT commit AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=40 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "")
  endif()
endif()
if(NOT commit)
  set(commit unknown)
endif()
if(NOT commit MATCHES "^[0-9A-Za-z][0-9A-Za-z.+_-]*$")
  message(FATAL_ERROR "'${commit}' is no commit: DDPRUN_COMMIT takes letters, digits and .+_-")
endif()
string(REGEX REPLACE "^([0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f])[0-9a-f]*(|-dirty)$" "\\1\\2" commit ${commit})  # the same in each clone

set(text "${commit}\n")
if(OUTPUT MATCHES "[.]cpp$")
  set(text "#include \"rendezvous/base/version.h\"\n\nconst char* const ddprun::kCommit = \"${commit}\";\n")
endif()
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
