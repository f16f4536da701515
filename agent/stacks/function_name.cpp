#include "agent/stacks/function_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace ddprun::agent {
namespace {

struct FreeName {
  void operator()(char* name) const { std::free(name); }
};

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, FreeName> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status));
  return status == 0 && name ? name.get() : "";
}

std::string without_suffix(std::string name) {
  if (const auto version = name.find('@'); version != name.npos && version > 0) name.resize(version);
  for (const char* added : {".part.", ".constprop.", ".isra.", ".cold", ".llvm.", ".lto_priv."})
    if (const auto at = name.find(added); at != name.npos && at > 0) name.resize(at);
  return name;
}

bool is_letter_of_a_name(char letter) {
  return letter == '_' || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

// Reads a demangled name from left to right and keeps the parts that are the function's own name.
class NameReader {
 public:
  explicit NameReader(std::string_view text) : text_(text) {}

  std::string read() {
    while (at_ < text_.size() && !done_) step();
    return out_;
  }

 private:
  void step() {
    if (begins("operator") && !(at_ > 0 && is_letter_of_a_name(text_[at_ - 1]))) return take_operator();
    if (begins(kAnonymous)) return take(kAnonymous.size());
    switch (text_[at_]) {
      case '<':
        return skip('<', '>');
      case '[':
        return skip('[', ']');
      case '{':
        return take_lambda();
      case '(':
        return skip_arguments();
      case ' ':
        return start_again();
      default:
        return take(1);
    }
  }

  bool begins(std::string_view word) const { return text_.substr(at_, word.size()) == word; }

  void take(std::size_t count) {
    out_ += text_.substr(at_, count);
    at_ += count;
  }

  // What came before was the return type.
  void start_again() {
    ++at_;
    out_.clear();
  }

  // To behind the closing letter; "->" and ">=" of expressions in template arguments close nothing.
  void skip(char open, char close) {
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == open) ++depth;
      if (text_[at_] == close && !(close == '>' && text_[at_ - 1] == '-') && --depth == 0) break;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  void take_lambda() {
    out_ += begins("{lambda") ? "{lambda}" : "{}";
    skip('{', '}');
  }

  // Symbols such as "<<", "()" or "->" belong to the name, and so does the type of "operator unsigned long".
  void take_operator() {
    take(std::string_view("operator").size());
    if (begins("()") || begins("[]")) return take(2);
    if (begins(" ")) {
      while (at_ < text_.size() && text_[at_] != '(' && text_[at_] != '<') take(1);
      return;
    }
    while (at_ < text_.size() && std::string_view("<>=!+-*/%^&|~,").find(text_[at_]) != std::string_view::npos) {
      if (text_[at_] == '<' && !out_.ends_with("operator") && !out_.ends_with('<')) return;  // template arguments
      take(1);
    }
    if (begins(" <")) ++at_;  // these, too
  }

  // The name ends here, unless this was a function around a lambda or a local type, or part of a return type.
  void skip_arguments() {
    skip('(', ')');
    if (begins("::")) return;
    const std::string_view rest = text_.substr(at_);
    for (const std::string_view qualifier : {"", " const", " volatile", " &", " noexcept", " [clone", "@"})
      if (qualifier.empty() ? rest.empty() : rest.substr(0, qualifier.size()) == qualifier) return skip_qualifiers();
  }

  // "f() const::{lambda()#1}::operator()() const" goes on behind the first one.
  void skip_qualifiers() {
    const auto inner = text_.find("::", at_);
    const auto bracket = text_.find_first_of("[(<", at_);
    if (inner == text_.npos || (bracket != text_.npos && bracket < inner))
      done_ = true;
    else
      at_ = inner;
  }

  static constexpr std::string_view kAnonymous = "(anonymous namespace)";
  const std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  bool done_ = false;
};

}  // namespace

std::string shortened(const std::string& demangled) {
  std::string name = NameReader(demangled).read();
  return name.empty() ? demangled : name;
}

std::string function_name(const std::string& symbol) {
  const std::string plain = without_suffix(symbol);
  for (const std::string& from : {symbol, plain})
    if (const std::string full = demangled(from); !full.empty()) return shortened(full);
  return plain;
}

}  // namespace ddprun::agent
