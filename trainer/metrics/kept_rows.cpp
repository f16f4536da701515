#include "trainer/metrics/kept_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "rendezvous/base/error.h"
#include "trainer/metrics/row_file.h"

namespace ddprun::train {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::string_view kBeginning = "{\"step\":";

// Empty if it is not a line of ours.
std::optional<std::int64_t> step_of(std::string_view line) {
  bool flat = true;  // our lines contain only numbers
  const auto watch = [&](int depth, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    return flat = flat && (depth == 0 || (event != Event::object_start && event != Event::array_start));
  };
  const Json row = Json::parse(line.begin(), line.end(), watch, /*allow_exceptions=*/false);
  if (!flat || !row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) return std::nullopt;
  return row["step"].get<std::int64_t>();
}

// A line that a machine's crash left incomplete: its beginning, and zeros where the file had already grown.
bool is_torn_line(std::string_view tail) {
  const auto zeros = std::min(tail.find('\0'), tail.size());
  if (tail.find_first_not_of('\0', zeros) != std::string_view::npos) return false;
  const std::string_view head = tail.substr(0, zeros);
  const std::size_t common = std::min(head.size(), kBeginning.size());
  return head.substr(0, common) == kBeginning.substr(0, common);
}

class RowScanner {
 public:
  RowScanner(std::optional<std::int64_t> resumed_step, const std::string& path)
      : resumed_step_(resumed_step), path_(path) {}

  void line(std::string_view text) {
    ++lines_;
    const auto step = step_of(text);
    if (!step) reject("is not a line of metrics");
    if (last_ && *step < *last_)
      reject("goes back from step " + std::to_string(*last_) + " to " + std::to_string(*step));
    last_ = step;
    if (resumed_step_ && *step <= *resumed_step_) kept_ += text.size() + 1;
  }
  void tail(std::string_view text) {
    ++lines_;
    if (!is_torn_line(text)) reject("is not a line of metrics");
  }
  [[noreturn]] void reject(const std::string& why) const {
    throw Error("cannot add metrics to " + path_, "its line " + std::to_string(lines_) + " " + why,
                "It is left as it is: name another file.");
  }
  void too_long() {
    ++lines_;
    reject("is longer than " + std::to_string(kLineBytesMax) + " bytes");
  }
  std::uint64_t kept() const { return kept_; }

 private:
  const std::optional<std::int64_t> resumed_step_;
  const std::string& path_;
  std::optional<std::int64_t> last_;
  std::uint64_t lines_ = 0, kept_ = 0;
};

}  // namespace

std::uint64_t bytes_to_keep(const RowFile& file, std::optional<std::int64_t> resumed_step, const std::string& path) {
  RowScanner scanner(resumed_step, path);
  std::string rest;
  for (std::uint64_t at = 0; at < file.size(); at += kPieceBytes) {
    rest += file.read(at, kPieceBytes);
    std::size_t begin = 0;
    for (std::size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1)
      scanner.line(std::string_view(rest).substr(begin, end - begin));
    rest.erase(0, begin);
    if (rest.size() > kLineBytesMax) scanner.too_long();
  }
  if (!rest.empty()) scanner.tail(rest);
  return scanner.kept();
}

}  // namespace ddprun::train
