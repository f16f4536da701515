#include "tests/e2e/compose_file.h"

#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace ddprun::test {
namespace {

using nlohmann::json;

struct Line {
  int number;
  std::size_t indent;
  std::string key, value;
};

[[noreturn]] void refuse(int number, const std::string& why) {
  throw std::runtime_error("compose.yaml:" + std::to_string(number) + ": " + why);
}

std::vector<Line> lines_of(const std::string& text) {
  static const std::regex entry(R"(^( *)([A-Za-z0-9_<.-]+):(?: +(\S.*))?$)"), nothing(R"(^ *(#.*)?$)");
  std::vector<Line> lines;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::smatch match;
    if (std::regex_match(line, nothing)) continue;
    if (!std::regex_match(line, match, entry)) refuse(number, "no 'key: value'");
    lines.push_back({number, match.str(1).size(), match.str(2), match.str(3)});
  }
  return lines;
}

class Reader {
 public:
  explicit Reader(const std::string& text) : lines_(lines_of(text)) {}

  json read() {
    json all = mapping(0);
    if (at_ < lines_.size()) refuse(lines_[at_].number, "is indented less than its mapping");
    return all;
  }

 private:
  json mapping(std::size_t indent) {
    json found = json::object();
    while (at_ < lines_.size() && lines_[at_].indent == indent) {
      const Line line = lines_[at_++];
      if (line.key == "<<")
        found.update(anchored(line));
      else if (!found.emplace(line.key, value_of(line)).second)
        refuse(line.number, line.key + " is there twice");
    }
    return found;
  }

  json anchored(const Line& line) const {
    const auto it = anchors_.find(line.value);
    if (it == anchors_.end()) refuse(line.number, "no anchor " + line.value);
    return it->second;
  }

  json value_of(const Line& line) {
    const char first = line.value.empty() ? ' ' : line.value[0];
    if (first == ' ' || first == '&') {
      const bool nested = at_ < lines_.size() && lines_[at_].indent > line.indent;
      if (!nested) refuse(line.number, line.key + " has no value");
      json value = mapping(lines_[at_].indent);
      if (first == '&') anchors_["*" + line.value.substr(1)] = value;
      return value;
    }
    if (first == '[' || first == '{' || first == '"') return json::parse(line.value);
    if (line.value.find(": ") != std::string::npos || line.value.find(" #") != std::string::npos || first == '*' ||
        first == '|' || first == '>')
      refuse(line.number, "a value that this reader would misread");
    return line.value;
  }

  std::vector<Line> lines_;
  std::size_t at_ = 0;
  std::map<std::string, json> anchors_;
};

}  // namespace

nlohmann::json read_compose(const std::string& text) { return Reader(text).read(); }

}  // namespace ddprun::test
