#include "launcher/cli.h"

#include "launcher/completion.h"
#include "launcher/config_file.h"
#include "launcher/environment_twins.h"
#include "launcher/help.h"
#include "launcher/man_page.h"
#include "launcher/options.h"
#include "launcher/values.h"
#include "launcher/words.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/peer/token.h"

namespace ddprun {
namespace {

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
void append(std::vector<Setting>& to, const std::vector<Setting>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// --help, --version, --make-token, --print-completion and --generate: what to print instead of doing anything.
void answer(const std::vector<Setting>& settings, const Outside& outside, Asked& asked) {
  if (const Setting* help = in_force(settings, option("help")))
    asked.answer = help_text(help->text);
  else if (in_force(settings, option("version")))
    asked.answer = version_text();
  else if (in_force(settings, option("make-token")) && outside.make_token)
    asked.answer = outside.make_token() + "\n";
  else if (const Setting* shell = in_force(settings, option("print-completion")))
    asked.answer = completion(shell->text);
  else if (const Setting* what = in_force(settings, option("generate")); what && what->text == "man")
    asked.answer = man_page();
}

std::string unreadable(const Setting& named, const Unreadable& failed) {
  return subject(named) + " is '" + named.text + "', which cannot be read: " + failed.why + ".";
}

void read_file(const Outside& outside, Asked& asked) {
  const Setting* named = in_force(asked.config.settings, option("config"));
  if (!named || !outside.read_file) return;
  if (named->text.empty())
    return asked.mistakes.push_back(nonsense(subject(*named), "", "it takes the name of a file"));
  const auto content = outside.read_file(named->text);
  if (const auto* failed = std::get_if<Unreadable>(&content))
    return asked.mistakes.push_back(unreadable(*named, *failed));
  ConfigFile file = read_config_file(named->text, std::get<FileText>(content).text);
  append(asked.config.settings, file.settings);
  append(asked.mistakes, file.mistakes);
  asked.config.env = std::move(file.env);
  if (!asked.config.program.empty() || file.program.empty()) return;
  asked.config.program = std::move(file.program);
  asked.config.program_place = file.program_place;
}

bool says_no(const std::string& flag) {
  const auto read = read_flag(flag);
  return std::holds_alternative<bool>(read) && !std::get<bool>(read);
}

void fill(Asked& asked) {
  for (const OptionRow& row : options()) {
    const Setting* setting = in_force(asked.config.settings, row);
    if (!setting || (!row.set && !*row.refusal)) continue;
    if (*row.refusal && row.flag() && says_no(setting->text)) continue;
    const std::string complaint = row.set ? row.set(asked.config, row, setting->text) : row.refusal;
    if (!complaint.empty()) asked.mistakes.push_back(refusal(*setting, complaint));
  }
}

// `who` is the subject of a complaint, which never holds the token.
std::optional<Token> parse_token(const std::string& who, std::string_view text, Asked& asked) {
  auto parsed = Token::parse(text);
  if (auto* token = std::get_if<Token>(&parsed)) return std::move(*token);
  asked.mistakes.push_back(who + " holds no token: " + std::get<NoToken>(parsed).complaint +
                           ". ddprun --make-token prints one.");
  return {};
}

std::optional<Token> token_of_file(const Outside& outside, Asked& asked) {
  if (asked.config.token_file.empty() || !outside.read_file) return {};
  const Setting* named = in_force(asked.config.settings, option("token-file"));
  auto content = outside.read_file(named->text);
  if (std::holds_alternative<Unreadable>(content) && std::holds_alternative<Token>(Token::parse(named->text))) {
    asked.mistakes.push_back(subject(*named) +
                             " takes the name of a file, and there is none of the name it has. A token "
                             "itself belongs into such a file or into DDPRUN_TOKEN, as others see what is typed.");
    return {};
  }
  const std::string who = subject(*named) + " is '" + named->text + "', which ";
  if (const auto* failed = std::get_if<Unreadable>(&content)) {
    asked.mistakes.push_back(unreadable(*named, *failed));
    return {};
  }
  auto& file = std::get<FileText>(content);
  if (file.others_may_read)
    asked.warnings.push_back(who + "others than its owner may read: chmod 600 it, or they may join the job.");
  std::optional<Token> token = parse_token(subject(*named), file.text, asked);
  wipe(file.text);
  return token;
}

void read_token(const Outside& outside, Asked& asked) {
  Config& config = asked.config;
  config.token = token_of_file(outside, asked);
  const auto variable = outside.environment.find(kTokenVariable);
  if (variable == outside.environment.end() || variable->second.empty()) return;
  config.token_variable = kTokenVariable;
  const auto token = parse_token(std::string(kTokenVariable) + " in the environment", variable->second, asked);
  if (token && config.token && *token != *config.token)
    asked.mistakes.push_back(subject(*in_force(config.settings, option("token-file"))) + " and " + kTokenVariable +
                             " in the environment hold different tokens: leave out one of them.");
  if (token) config.token = token;
}

std::optional<PemFile> read_pem(const char* name, const Outside& outside, Asked& asked) {
  const Setting& named = *in_force(asked.config.settings, option(name));
  auto content = outside.read_file(named.text);
  if (auto* file = std::get_if<FileText>(&content)) return PemFile(named.text, std::move(file->text));
  asked.mistakes.push_back(unreadable(named, std::get<Unreadable>(content)));
  return {};
}

// All three or none: problems() says what is missing, or that a token is there, too.
void read_certificates(const Outside& outside, Asked& asked) {
  const Config& config = asked.config;
  if (config.tls_cert.empty() || config.tls_key.empty() || config.tls_ca.empty()) return;
  if (config.token || !outside.read_file) return;
  auto certificate = read_pem("tls-cert", outside, asked), key = read_pem("tls-key", outside, asked),
       authority = read_pem("tls-ca", outside, asked);
  if (certificate && key && authority)
    asked.config.certificates = CertificateFiles{std::move(*certificate), std::move(*key), std::move(*authority)};
}

}  // namespace

Asked parse(const std::vector<std::string>& arguments, const Outside& outside) {
  Asked asked;
  Words words = read_words(arguments);
  answer(words.settings, outside, asked);
  if (!asked.answer.empty()) return asked;
  Twins twins = read_twins(outside.environment);
  asked.config.program = std::move(words.program);
  asked.mistakes = std::move(words.mistakes);
  append(asked.mistakes, twins.mistakes);
  append(asked.config.settings, words.settings);
  append(asked.config.settings, twins.settings);
  read_file(outside, asked);
  fill(asked);
  read_token(outside, asked);
  read_certificates(outside, asked);
  for (std::string& sentence : asked.warnings) sentence = visible(sentence);
  for (std::string& sentence : asked.mistakes) sentence = visible(sentence);
  return asked;
}

}  // namespace ddprun
