#include "trainer/tour/operation_report.h"

#include <algorithm>
#include <charconv>

namespace ddprun::train {

std::string counted(std::size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string decimal(double value, int decimals) {
  char digits[400];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, decimals).ptr;
  return {digits, end};
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += "  " + row[i] + std::string(widths[i] - row[i].size(), ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

OperationReport operation_report(const std::string& name, const std::string& what,
                                 const std::vector<OperationResult>& by_rank) {
  std::vector<std::vector<std::string>> rows{{"", "before", "after"}};
  std::string wrong;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const OperationResult& shown = by_rank[rank];
    rows.push_back({"rank " + std::to_string(rank), shown.before, shown.after});
    if (shown.after != shown.expected)
      wrong += "  WRONG on rank " + std::to_string(rank) + ": it should be " + shown.expected + ".\n";
  }
  const std::string verdict =
      wrong.empty() ? "  Right on " + std::string(by_rank.size() == 1 ? "the only" : "every") + " rank.\n" : wrong;
  return {name + ": " + what + "\n" + table(rows) + verdict, wrong.empty()};
}

}  // namespace ddprun::train
