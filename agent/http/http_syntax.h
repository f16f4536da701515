// Words of HTTP (RFC 9110), in requests and answers. Pure.
#pragma once
#include <string>
#include <string_view>

namespace ddprun::agent {

bool is_token(std::string_view text);           // 5.6.2: a method, a header's name
bool is_printable_word(std::string_view text);  // ASCII without blanks
bool is_field_value(std::string_view text);     // 5.5: bytes above 0x7f are allowed
std::string_view without_padding(std::string_view text);
std::string lower(std::string_view text);  // ASCII letters

}  // namespace ddprun::agent
