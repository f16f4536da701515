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
// their dashes.
inline std::string no_option(const std::string& word, const std::vector<std::string>& options,
                             const std::string& program) {
  const std::string hint = did_you_mean(with_dashes(word.substr(0, word.find('='))), options);
  return "there is no option " + visible(word) + (hint.empty() ? "; " + program + " --help lists them." : "." + hint);
}

}  // namespace ddprun
