// Lines "key: value" for people, the values in one column. Pure.
#pragma once
#include <string>

namespace ddprun::launcher {

class KeyLines {
 public:
  explicit KeyLines(int width) : width_(static_cast<std::size_t>(width)) {}
  // Nothing, if the value is empty.
  void add(const std::string& key, const std::string& value);
  // The same, of a line for a terminal of so many columns.
  void add_cut(const std::string& key, const std::string& value, std::size_t columns);
  // Of several lines, such as a report.
  void add_block(const std::string& key, const std::string& value);
  std::string take() { return std::move(text_); }

 private:
  std::size_t width_;
  std::string text_;
};

}  // namespace ddprun::launcher
