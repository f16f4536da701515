#include "agent/http/http_answer.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "agent/http/http_response.h"
#include "agent/http/http_syntax.h"

namespace ddprun::agent {
namespace {

using std::chrono::seconds;

constexpr std::string_view kEol = "\r\n", kEnd = "\r\n\r\n", kVersion1 = "HTTP/1.";
constexpr std::size_t kStatusLineMin = std::string_view("HTTP/1.1 200").size();
constexpr int kSwitches = 101;

ParsedAnswer bad_answer(const char* complaint) { return {.state = ParsedAnswer::bad, .complaint = complaint}; }

// "HTTP/1.1 200 OK"; 0: it is none.
int status_of(std::string_view line) {
  int status = 0;
  if (line.size() < kStatusLineMin || !line.starts_with(kVersion1) || (line[7] != '0' && line[7] != '1') ||
      line[8] != ' ' || (line.size() > kStatusLineMin && line[kStatusLineMin] != ' ') || !is_field_value(line))
    return 0;
  const char* end = line.data() + kStatusLineMin;
  if (std::from_chars(line.data() + 9, end, status).ptr != end) return 0;
  return status >= 100 && status <= 599 && status != kSwitches ? status : 0;
}

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7), the only form that senders may write.
std::optional<seconds> read_date(std::string_view text) {
  const std::string after_day(text.substr(std::min(text.find(' '), text.size())));
  std::tm parts{};
  const char* end = strptime(after_day.c_str(), " %d %b %Y %H:%M:%S GMT", &parts);
  if (!end || *end != '\0') return {};
  return seconds(timegm(&parts));
}

// A date is read against the sender's own clock.
std::optional<seconds> read_retry_after(std::string_view text, std::optional<seconds> date) {
  if (const auto when = read_date(text)) {
    if (!date) return {};
    return std::clamp<seconds>(*when - *date, seconds::zero(), kRetryAfterMax);
  }
  long count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (text.empty() || end != text.data() + text.size() || text.front() == '-') return {};
  if (error == std::errc::result_out_of_range) return kRetryAfterMax;
  return std::min<seconds>(seconds(std::min<long>(count, kRetryAfterMax / seconds(1))), kRetryAfterMax);
}

// What says where the body ends.
void read_framing(const std::string& name, std::string_view value, ParsedAnswer& out) {
  if (name == "connection") out.closes = lower(value) == "close";
  if (name == "transfer-encoding") out.chunked = lower(value) == "chunked";
  if (name == "transfer-encoding" && !out.chunked) out.bad_length = true;
  if (name != "content-length") return;
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  if (value.empty() || end != value.data() + value.size() || error != std::errc()) out.bad_length = true;
  if (out.length.value_or(length) != length) out.bad_length = true;
  out.length = length;
}

ParsedAnswer parse_one_head(std::string_view head) {
  const std::size_t first = std::min(head.find(kEol), head.size());
  ParsedAnswer out{.state = ParsedAnswer::complete, .status = status_of(head.substr(0, first))};
  if (out.status == 0) return bad_answer("its answer is not one of HTTP/1.1");
  std::optional<seconds> date;
  std::string_view retry_after;
  for (std::size_t at = first + kEol.size(); at < head.size();) {
    const std::size_t end = std::min(head.find(kEol, at), head.size());
    const std::string_view line = head.substr(at, end - at);
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon)) || !is_field_value(line.substr(colon + 1)))
      return bad_answer("its answer has a header that is none");
    const std::string name = lower(line.substr(0, colon));
    read_framing(name, without_padding(line.substr(colon + 1)), out);
    if (name == "retry-after") retry_after = without_padding(line.substr(colon + 1));
    if (name == "date") date = read_date(without_padding(line.substr(colon + 1)));
    at = end + kEol.size();
  }
  out.retry_after = read_retry_after(retry_after, date);
  if (out.chunked) out.length.reset();
  if (head[7] == '0' || (!out.chunked && !out.length)) out.closes = true;
  return out;
}

}  // namespace

std::string post_bytes(const HttpUrl& url, const HttpHeaders& headers, const std::string& json, AfterAnswer after) {
  std::string out = "POST " + (url.target.empty() ? std::string("/") : url.target) + " HTTP/1.1\r\n";
  out += "Host: " + host_field(url) + "\r\n";
  if (after == AfterAnswer::close) out += "Connection: close\r\n";
  out += "Content-Type: application/json\r\n";
  out += "Content-Length: " + std::to_string(json.size()) + "\r\n";
  for (const auto& [name, value] : headers) out += name + ": " + value + "\r\n";
  return out + "\r\n" + json;
}

ParsedAnswer parse_answer(std::string_view bytes) {
  const std::string_view begin = bytes.substr(0, kVersion1.size());
  if (begin != kVersion1.substr(0, begin.size())) return bad_answer("its answer is not one of HTTP/1.1");
  for (std::string_view rest = bytes.substr(0, kAnswerHeadMax);;) {
    const std::size_t end = rest.find(kEnd);
    if (end == rest.npos) break;
    ParsedAnswer answer = parse_one_head(rest.substr(0, end));
    answer.head_size = static_cast<std::size_t>(rest.data() - bytes.data()) + end + kEnd.size();
    if (answer.state == ParsedAnswer::bad || answer.status >= 200) return answer;
    rest.remove_prefix(end + kEnd.size());
  }
  return bytes.size() < kAnswerHeadMax ? ParsedAnswer{} : bad_answer("its answer's headers are too large");
}

std::string status_in_words(int status) {
  const std::string phrase = reason_phrase(status);
  return std::to_string(status) + (phrase == "Error" ? "" : " " + phrase);
}

}  // namespace ddprun::agent
