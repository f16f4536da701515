#include "agent/diagnosis/error_file.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::fuzz;

DDPRUN_FUZZER(error_file) {
  const std::string text = text_of(data, size);
  error_in(text);
  const std::string copied = parent_error_file(text, {.status = {.code = 1}, .pid = 7, .message = text});
  promise(nlohmann::json::accept(copied), "ddprun's own error file is JSON, whatever the worker wrote");
  const std::string line = printable_line(text, 100);
  promise(line.size() <= 100 + 4 && line.find('\n') == std::string::npos, "a printed line is one short line");
  return 0;
}
