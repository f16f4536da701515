// Spelling of words: dashes for underscores, the closest correct word, lists in sentences. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

std::string with_dashes(std::string_view name);       // "max_restarts" → "max-restarts"
std::string with_underscores(std::string_view name);  // "max-restarts" → "max_restarts"
std::string upper_case(std::string_view text);

std::vector<std::string> split(std::string_view text, char separator);  // "" has one part, ""

// The parts between blanks, tabs and line ends. They point into `text`.
std::vector<std::string_view> words_in(std::string_view text);

// How many letters to change, add or drop, or of two neighbours to swap.
std::size_t distance(std::string_view a, std::string_view b);

// The one of `words` that was probably meant: at most a few letters differ. Empty if none is close.
std::string nearest(std::string_view typed, const std::vector<std::string>& words);

// " Did you mean 'rank'?", or nothing.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words);

// As a word of a POSIX shell; in quotes where it needs them.
std::string shell_word(const std::string& text);

// "auto, rank or group"
std::string listed(const std::vector<std::string>& words, const char* last = "or");

// `text` broken at blanks into lines of at most `width` characters.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// Safe for a terminal: control characters, those from U+0080 to U+009F, and bytes that are not UTF-8 become \x1b and
// the like, so that text from a file, a peer or a worker has no effect there and cannot look like a line of ours.
std::string visible(const std::string& text);
// The same for a text of several lines: line ends and tabs stay.
std::string visible_lines(const std::string& text);

}  // namespace ddprun
