// A worker for the tee bench: COUNT lines to stdout, a write each, as a program without buffering prints them, or
// buffered by the C library.
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: line_writer COUNT single|buffered\n", stderr), 2;
  if (std::strcmp(argv[2], "single") == 0) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const char* rank = std::getenv("RANK");
  const long count = std::atol(argv[1]);
  for (long i = 0; i < count; ++i)
    if (std::printf("rank %s step %08ld loss 0.123456 lr 0.0010 samples/s 12345.6\n", rank ? rank : "-", i) < 0)
      return std::perror("line_writer"), 1;
}
