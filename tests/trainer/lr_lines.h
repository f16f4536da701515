// The lines that lr_golden.py prints, checked against our schedules.
#pragma once
#include <string>

namespace ddprun::test {

// The first rate that differs by more than `relative`, in words; empty where there is none. `lines` counts them.
std::string lr_difference(const std::string& text, double relative, int& lines);

}  // namespace ddprun::test
