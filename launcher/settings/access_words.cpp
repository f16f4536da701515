#include "launcher/settings/access_words.h"

#include <algorithm>

#include "rendezvous/base/suggestion.h"

namespace ddprun::launcher {
namespace {

constexpr OwnOption kAccess[] = {{"rdzv-endpoint"}, {"rdzv-backend"}, {"rdzv-conf"}, {"token-file"},
                                 {"tls-cert"},      {"tls-key"},      {"tls-ca"}};

const OwnOption* named(const auto& options, const std::string& name) {
  const auto found = std::ranges::find_if(options, [&](const OwnOption& one) { return one.name == name; });
  return found == std::end(options) ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<OwnOption>& own) {
  std::vector<std::string> out;
  for (const OwnOption& one : own) out.push_back(std::string("--") + one.name);
  for (const OwnOption& one : kAccess) out.push_back(std::string("--") + one.name);
  return out;
}

}  // namespace

const char* const kAccessHelp =
    "JOB is what ddprun status takes; left out: your only job here. For a job of\n"
    "which no node is on this machine, whose --rdzv-id is JOB:\n"
    "  --rdzv-endpoint HOST:PORT\n"
    "                           where one of its agents is, or where etcd is:\n"
    "  --rdzv-backend etcd, --rdzv-conf K=V,...\n"
    "  --token-file FILE        the job's token, or certificates: --tls-cert FILE,\n"
    "                           --tls-key FILE and --tls-ca FILE\n";

WordsTaken take_words(const std::vector<std::string>& words, const std::string& command,
                      const std::vector<OwnOption>& own,
                      const std::function<std::string(const std::string& name, const std::string& value)>& take) {
  WordsTaken out;
  for (std::size_t i = 0; i < words.size() && out.mistake.empty(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") return {.help = true};
    if (!word.starts_with("--")) {
      out.plain.push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = with_dashes(word.substr(2, equals == word.npos ? equals : equals - 2));
    const OwnOption* mine = named(own, name);
    if (mine && !mine->has_value && equals == word.npos)
      out.mistake = take(name, "");
    else if (!(mine ? mine->has_value : named(kAccess, name) != nullptr))
      out.mistake = no_option(word, names_of(own), command);
    else if (equals == word.npos && i + 1 == words.size())
      out.mistake = "--" + name + " needs a value.";
    else if (const std::string value = equals == word.npos ? words[++i] : word.substr(equals + 1); mine)
      out.mistake = take(name, value);
    else
      out.access.push_back("--" + name + "=" + value);
  }
  const bool has_place = std::any_of(out.access.begin(), out.access.end(),
                                     [](const std::string& one) { return one.starts_with("--rdzv-endpoint"); });
  if (out.mistake.empty() && !out.access.empty() && !has_place)
    out.mistake = "it takes --rdzv-endpoint, too: where is the job?";
  return out;
}

}  // namespace ddprun::launcher
