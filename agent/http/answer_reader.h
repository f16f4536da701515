// One answer of an HTTP/1.1 server with its body, as its bytes come (RFC 9112, 6 and 7.1). Pure.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "agent/http/http_answer.h"

namespace ddprun::agent {

constexpr std::size_t kAnswerBodyMax = 3 << 20;

class AnswerReader {
 public:
  void take(std::string_view bytes);
  // The connection has ended; it may be what ends the answer.
  void end();

  ParsedAnswer::State state() const { return state_; }
  const ParsedAnswer& head() const { return head_; }  // status 0: not here yet; if the answer is bad, with a complaint
  bool has_begun() const { return head_.status != 0 || !input_.empty(); }
  // Another request may follow on the connection.
  bool keeps_connection() const { return state_ == ParsedAnswer::complete && input_.empty() && !head_.closes; }
  // What has come of the body since the last call.
  std::string take_body();

 private:
  void take_plain();
  void take_chunks();
  void take_line(const std::string& line);
  void move_to_body();
  void refuse(const char* complaint);

  ParsedAnswer head_;
  ParsedAnswer::State state_ = ParsedAnswer::need_more;
  std::string input_, body_;
  std::size_t left_ = 0;  // of the body, or of its chunk
  bool after_chunk_ = false, in_trailer_ = false;
};

}  // namespace ddprun::agent
