#include "agent/diagnosis/error_file.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "agent/process/exit_status.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRawMax = 4096;
constexpr double kLastSecond = 9223372036;  // in the year 2262, the last that WallTime can hold

std::string text_at(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<WallTime> time_of_seconds(double seconds) {
  if (!(seconds > 0 && seconds <= kLastSecond)) return {};
  return WallTime(std::chrono::duration_cast<WallTime::duration>(std::chrono::duration<double>(seconds)));
}

// A number, or one in quotation marks, as torchelastic writes it.
std::optional<WallTime> time_at(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return {};
  if (object[key].is_number()) return time_of_seconds(object[key].get<double>());
  const std::string text = text_at(object, key);
  double seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return time_of_seconds(seconds);
}

WorkerError raw(const std::string& content) { return {content.substr(0, kRawMax), {}}; }

const Json& inside(const Json& object, const char* key) {
  static const Json nothing;
  return object.is_object() && object.contains(key) ? object[key] : nothing;
}

std::string seconds_of(WallTime when) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(when.time_since_epoch()).count());
}

// The length of the escape sequence that begins at `from`; 1 if there is none.
std::size_t escape_length(const std::string& text, std::size_t from) {
  if (from + 1 >= text.size()) return 1;
  std::size_t end = from + 2;
  if (text[from + 1] == '[') {  // CSI: to its final byte
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return std::min(end + 1, text.size()) - from;
  }
  if (text[from + 1] != ']') return 2;
  while (end < text.size() && text[end] != '\a' && text[end] != '\x1b') ++end;  // OSC: to BEL or ESC-backslash
  return std::min(end + (end < text.size() && text[end] == '\x1b' ? 2 : 1), text.size()) - from;
}

std::string without_controls(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b) {
      i += escape_length(text, i);
      continue;
    }
    if (byte == '\t')
      out += "    ";
    else if (byte >= 0x20 && byte != 0x7f)
      out += text[i];
    ++i;
  }
  return out;
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// nlohmann's serializer replaces what is not UTF-8 by U+FFFD.
std::string as_utf8(const std::string& text) { return parse_json(json_text(Json(text))).get<std::string>(); }

}  // namespace

WorkerError error_in(const std::string& content) {
  const Json file = parse_json(content);
  const Json& message = inside(file, "message");
  if (message.is_string()) return {message.get<std::string>(), time_at(file, "timestamp")};
  const Json& extra = inside(message, "extraInfo");
  const auto when = time_at(extra, "timestamp");
  if (std::string stack = text_at(extra, "py_callstack"); !stack.empty()) return {std::move(stack), when};
  if (std::string text = text_at(message, "message"); !text.empty()) return {std::move(text), when};
  return raw(content);
}

std::string parent_error_file(const std::string& worker_content, const WorkerEndFacts& end) {
  Json file = parse_json(worker_content);
  const Json& message = inside(file, "message");
  if (message.is_string()) return json_text(file);
  if (!message.is_object()) {
    const std::string stack = worker_content.empty() ? end.last_lines : raw(worker_content).text;
    file = {
        {"message",
         {{"message", end.message}, {"extraInfo", {{"py_callstack", stack}, {"timestamp", seconds_of(end.when)}}}}}};
  }
  file["message"]["errorCode"] = torchrun_code(end.status);
  return json_text(file);
}

std::string printable_line(const std::string& line, std::size_t bytes_max) {
  const auto last = line.find_last_not_of('\r');
  if (last == std::string::npos) return {};
  const std::size_t start = line.rfind('\r', last) + 1;  // 0 if there is none: npos + 1
  std::string out = as_utf8(without_controls(line.substr(start, last + 1 - start)));
  if (out.size() <= bytes_max) return out;
  while (bytes_max > 0 && continues(out[bytes_max])) --bytes_max;
  return out.substr(0, bytes_max) + " ...";
}

}  // namespace ddprun::agent
