// Who may write to stderr past the log: one header.
#include "tests/support/test.h"

TEST_CASE("a sentence goes to stderr by way of print_line.h alone", "[stderr]") {
  static const std::regex kRaw(
      R"(\b(f?printf|fputs|fputc|putc|fwrite|perror)\s*\(.*\bstderr\b|\bperror\s*\(|\bcerr\s*<<)");
  int allowed = 0;
  for (const char* top : {"launcher", "agent", "rendezvous", "trainer"})
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(fs::path(ddprun::test::source_folder()) / top)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      if (entry.path().filename() == "error.h") continue;  // check(), the last words of a process
      const std::string path = fs::relative(entry.path(), ddprun::test::source_folder()).string();
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        INFO(path << ":" << number << ": " << line);
        CHECK_FALSE(std::regex_search(line, kRaw));
        if (path == "rendezvous/base/print_line.h" && line.find("std::fputs(") != line.npos) ++allowed;
      }
    }
  CHECK(allowed == 2);  // to a stream that its caller names
}
