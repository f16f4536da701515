// Sentences that say what was probably meant, in the same words everywhere. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/spelling.h"

namespace ddprun {

// " Did you mean 'rank'?" of a word that is known to be near; nothing of an empty one.
inline std::string did_you_mean(std::string_view word) {
  return word.empty() ? "" : " Did you mean '" + std::string(word) + "'?";
}

// Of a command line that `program --help` explains: "there is no option --jsn. Did you mean '--json'?" `options` with
// their dashes. The value of --jsn=VALUE is not shown: it may be a secret.
inline std::string no_option(const std::string& word, const std::vector<std::string>& options,
                             const std::string& program) {
  const std::string name = word.substr(0, word.find('='));
  const std::string hint = did_you_mean(with_dashes(name), options);
  return "there is no option " + visible(name) + (hint.empty() ? "; " + program + " --help lists them." : "." + hint);
}

}  // namespace ddprun
