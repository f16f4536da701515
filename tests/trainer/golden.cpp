#include "tests/trainer/golden.h"

#include <zlib.h>

#include "tests/support/test.h"
#include "tests/trainer/golden_text.h"

namespace ddprun::test {

std::string crc(const std::vector<at::Tensor>& tensors) {
  uLong checksum = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor own = tensor.detach().contiguous();
    if (own.nbytes() == 0) continue;  // zlib takes a null pointer for a wish to begin anew
    checksum = crc32(checksum, static_cast<const Bytef*>(own.const_data_ptr()), static_cast<uInt>(own.nbytes()));
  }
  char text[9];
  std::snprintf(text, sizeof text, "%08lx", checksum);
  return text;
}

// float.hex() always has 13 hexadecimal digits but for 0.
std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  char text[40];
  std::snprintf(text, sizeof text, value == 0 ? "%.1a" : "%.13a", value);
  return text;
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  return gradients;
}

std::string difference_to_python(const std::string& what, const std::string& ours) {
  static const Ended python = run({venv_python(), source_folder() + "/tests/trainer/numbers_golden.py"},
                                  std::chrono::seconds(120), {.env = {{"OMP_NUM_THREADS", "1"}}});
  REQUIRE(python == exited(0));
  const std::size_t begin = python.out.find("== " + what + "\n") + what.size() + 4;
  return first_difference(ours, python.out.substr(begin, python.out.find("== ", begin) - begin));
}

}  // namespace ddprun::test
