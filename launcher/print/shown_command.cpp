#include "launcher/print/shown_command.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kHidden = "***";
constexpr std::array<std::string_view, 8> kSecrets = {"KEY",      "APIKEY", "TOKEN",      "SECRET",
                                                      "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"};

// Not "--token-file", nor "--tokenizer".
bool names_secret(std::string_view name) {
  const std::size_t last = name.find_last_of("-_.");
  const std::string ending = upper_case(name.substr(last == std::string_view::npos ? 0 : last + 1));
  return std::find(kSecrets.begin(), kSecrets.end(), ending) != kSecrets.end();
}

// "--db=http://user:secret@host", "--rdzv-conf=user=u,password=x".
bool holds_secret(const std::string& word) {
  const std::size_t at = word.rfind('@'), scheme = word.find("://");
  const bool is_url = scheme != word.npos && word.find(':', scheme + 3) < at;
  return (at != word.npos && (is_url || word.starts_with("--rdzv"))) ||
         upper_case(word).find("PASSWORD=") != std::string::npos;
}

}  // namespace

std::string shown_command(const std::vector<std::string>& words) {
  std::string out = "ddprun";
  bool value_follows = false;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const bool is_value = value_follows && !word.starts_with('-');
    value_follows = word.starts_with("--") && equals == std::string::npos && names_secret(word);
    out += ' ';
    const bool is_secret = is_value || holds_secret(word);
    if (equals != std::string::npos && !is_value && (is_secret || names_secret(word.substr(0, equals))))
      out += shell_word(word.substr(0, equals)) + "=" + kHidden;
    else
      out += is_secret ? kHidden : shell_word(word);
  }
  return out;
}

}  // namespace ddprun::launcher
