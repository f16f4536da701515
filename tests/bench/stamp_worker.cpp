// A worker for the restart bench: writes the time of its first line into FOLDER/PID, then only sleeps.
#include "tests/bench/stamp.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: stamp_worker FOLDER\n", stderr), 2;
  if (!ddprun::stamp(argv[1])) return std::perror("stamp_worker"), 1;
  for (;;) pause();
}
