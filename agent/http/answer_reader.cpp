#include "agent/http/answer_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::size_t kChunkLineMax = 4096;
constexpr int kHex = 16;

}  // namespace

void AnswerReader::take(std::string_view bytes) {
  if (state_ != ParsedAnswer::need_more) return;
  input_ += bytes;
  if (head_.status == 0) {
    head_ = parse_answer(input_);
    if (head_.state == ParsedAnswer::bad) state_ = ParsedAnswer::bad;
    if (head_.state != ParsedAnswer::complete) return;
    if (head_.bad_length) return refuse("its answer does not tell its length as in HTTP/1.1");
    input_.erase(0, head_.head_size);
    left_ = head_.chunked ? 0 : head_.length.value_or(kAnswerBodyMax + 1);
    if (left_ > kAnswerBodyMax && head_.length) return refuse("its answer is too large");
  }
  head_.chunked ? take_chunks() : take_plain();
  if (body_.size() > kAnswerBodyMax) refuse("its answer is too large");
}

void AnswerReader::end() {
  const bool ends_here = head_.status != 0 && !head_.chunked && !head_.length;
  if (state_ == ParsedAnswer::need_more && ends_here) state_ = ParsedAnswer::complete;
}

std::string AnswerReader::take_body() { return std::exchange(body_, {}); }

void AnswerReader::take_plain() {
  move_to_body();
  if (left_ == 0) state_ = ParsedAnswer::complete;
}

void AnswerReader::take_chunks() {
  while (state_ == ParsedAnswer::need_more && !input_.empty()) {
    if (left_ > 0) {
      move_to_body();
      continue;
    }
    const std::size_t end = input_.find("\r\n");
    if (end == input_.npos) return input_.size() > kChunkLineMax ? refuse("its answer has no chunks") : void();
    const std::string line = input_.substr(0, end);
    input_.erase(0, end + 2);
    take_line(line);
  }
}

// The end of a chunk, the size of the next one, or a line of the trailer, of which nothing is used.
void AnswerReader::take_line(const std::string& line) {
  if (in_trailer_) return line.empty() ? void(state_ = ParsedAnswer::complete) : void();
  if (std::exchange(after_chunk_, false)) return line.empty() ? void() : refuse("its answer has a wrong chunk");
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), left_, kHex);
  const bool ends = end == line.data() + line.size() || *end == ';' || *end == ' ';
  if (error != std::errc() || !ends) return refuse("its answer has no chunks");
  if (left_ > kAnswerBodyMax) return refuse("its answer is too large");
  (left_ > 0 ? after_chunk_ : in_trailer_) = true;
}

void AnswerReader::move_to_body() {
  const std::size_t count = std::min(left_, input_.size());
  body_.append(input_, 0, count);
  input_.erase(0, count);
  left_ -= count;
}

void AnswerReader::refuse(const char* complaint) {
  state_ = ParsedAnswer::bad;
  head_.complaint = complaint;
}

}  // namespace ddprun::agent
