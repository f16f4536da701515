// Numbers as numbers_golden.py prints them, and what it prints.
#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

namespace ddprun::test {

std::string crc(const std::vector<at::Tensor>& tensors);  // CRC-32 of their bytes
std::string number(double value);                         // as Python's float.hex()
std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters);

// Compares `ours` with what numbers_golden.py prints of `what`: the first lines that differ, or "".
std::string difference_to_python(const std::string& what, const std::string& ours);

}  // namespace ddprun::test
