// A table of what an operation did to each rank's values, and whether the result is right. Pure.
#pragma once
#include <string>
#include <vector>

namespace ddprun::train {

// One rank's values as text, which is also compared.
struct OperationResult {
  std::string before, after;
  std::string expected;  // what `after` should be
};

struct OperationReport {
  std::string text;
  bool right = false;
};

// "all_reduce(sum): each tensor becomes the sum." and one row per rank; then whether all rows are right.
OperationReport operation_report(const std::string& name, const std::string& what,
                                 const std::vector<OperationResult>& by_rank);

// Columns as wide as their widest cell, two blanks between them and two before each row. The first row has headings.
std::string table(const std::vector<std::vector<std::string>>& rows);

// "1 rank", "4 ranks"
std::string counted(std::size_t count, const std::string& thing);

// 12.3, with that many decimals, whatever the locale.
std::string decimal(double value, int decimals);

}  // namespace ddprun::train
