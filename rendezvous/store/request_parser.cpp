#include "rendezvous/store/request_parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kTextBytes = 64;      // that a text takes besides its characters
constexpr std::uint64_t kReservedMax = 64;  // announced keys for which room is reserved

}  // namespace

Parsed RequestParser::feed(std::string_view& bytes) {
  while (!bad_) {
    if (!fill(bytes)) return Parsed::need_more;
    bad_ = !advance();
    if (!bad_ && field_ == Field::none) return Parsed::complete;
  }
  return Parsed::bad;
}

Request RequestParser::take() {
  held_bytes_ = 0;
  expect(Field::op, 1);
  return std::move(request_);
}

bool RequestParser::fill(std::string_view& bytes) {
  if (field_ == Field::text) return fill_text(bytes);
  const std::size_t n = std::min(bytes.size(), field_size_ - have_);
  bytes.copy(scratch_.data() + have_, n);
  have_ += n;
  bytes.remove_prefix(n);
  return have_ == field_size_;
}

bool RequestParser::fill_text(std::string_view& bytes) {
  std::string& text = shape_of(request_.op).item[part_] == 'k' ? request_.keys.back() : request_.values.back();
  const std::size_t n = std::min(bytes.size(), field_size_ - text.size());
  text.append(bytes.substr(0, n));
  held_bytes_ += n;
  bytes.remove_prefix(n);
  return text.size() == field_size_;
}

bool RequestParser::advance() {
  switch (field_) {
    case Field::op:
      return begin_request();
    case Field::count:
      return begin_items();
    case Field::length:
      return begin_text();
    case Field::text:
      return end_text();
    case Field::number:
      return end_request();
    case Field::none:
      break;
  }
  return false;
}

bool RequestParser::begin_request() {
  const auto op = static_cast<std::uint8_t>(scratch_[0]);
  if (op >= kOpCount) return false;
  request_ = {static_cast<Op>(op)};
  if ((request_.op == Op::validate) == validated_) return false;
  request_bytes_ = 0;
  items_left_ = shape_of(request_.op).item.empty() ? 0 : 1;
  return shape_of(request_.op).counted ? expect(Field::count, 8) : expect_item();
}

bool RequestParser::begin_items() {
  items_left_ = number();
  if (items_left_ > kCountMax) return false;
  request_.keys.reserve(std::min(items_left_, kReservedMax));
  return expect_item();
}

bool RequestParser::begin_text() {
  const std::uint64_t length = number();
  if (length > limit()) return false;
  request_bytes_ += sizeof length + length;
  if (request_bytes_ > kRequestBytesMax) return false;
  (shape_of(request_.op).item[part_] == 'k' ? request_.keys : request_.values).emplace_back();
  held_bytes_ += kTextBytes;
  return expect(Field::text, length);
}

bool RequestParser::end_text() {
  if (++part_ < shape_of(request_.op).item.size()) return expect(Field::length, 8);
  --items_left_;
  return expect_item();
}

bool RequestParser::end_request() {
  const Shape& shape = shape_of(request_.op);
  if (shape.number_size == 8) request_.number = static_cast<std::int64_t>(number());
  if (shape.number_size == 4) request_.number = static_cast<std::int64_t>(number() & 0xFFFFFFFF);
  if (request_.op != Op::validate) return expect(Field::none, 0);
  validated_ = request_.number == kMagic;
  return validated_ && expect(Field::op, 1);
}

bool RequestParser::expect(Field field, std::size_t size) {
  field_ = field;
  field_size_ = size;
  have_ = 0;
  return true;
}

bool RequestParser::expect_item() {
  part_ = 0;
  if (items_left_ > 0) return expect(Field::length, 8);
  const std::size_t size = shape_of(request_.op).number_size;
  return size > 0 ? expect(Field::number, size) : end_request();
}

std::uint64_t RequestParser::number() const {
  std::uint64_t value = 0;
  std::memcpy(&value, scratch_.data(), sizeof value);
  return value;
}

std::uint64_t RequestParser::limit() const {
  return shape_of(request_.op).item[part_] == 'k' ? kKeyBytesMax : kValueBytesMax;
}

}  // namespace ddprun::rendezvous
