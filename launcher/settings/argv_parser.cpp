#include "launcher/settings/argv_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::settings {
namespace {

using Arguments = std::vector<std::string>;

std::string name_part(const std::string& word) { return word.substr(0, word.find('=')); }
bool is_long(const std::string& word) { return word.starts_with("--") && word.size() > 2; }
bool is_letters(const std::string& word) { return word.size() > 1 && word[0] == '-' && word[1] != '-'; }
bool looks_like_option(const std::string& word) { return word.size() > 1 && word[0] == '-' && word != "--"; }

std::string without_dashes(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

// "--max-restarts,--max_restarts"; a letter; the name of a word without dashes.
std::string spellings(const Option& option) {
  if (option.positional) return option.name;
  std::string all;
  for (const std::string name : {option.name, option.alias}) {
    if (name.empty()) continue;
    all += (all.empty() ? "--" : ",--") + name;
    if (const std::string other = with_underscores(name); other != name) all += ",--" + other;
  }
  return option.letter ? all + ",-" + option.letter : all;
}

// The option that a word names, by CLI11's rules.
class Names {
 public:
  explicit Names(const Table& table) : table_(table) {}

  const Option* of_letter(char letter) const {
    for (const Option& option : table_.options)
      if (option.letter && option.letter == letter) return &option;
    return nullptr;
  }
  const Option* of_word(const std::string& word) const {
    if (is_long(word)) return find_option(table_, name_part(word).substr(2));
    return is_letters(word) ? of_letter(word[1]) : nullptr;
  }
  // -master-port=1 would be the letter m and further letters.
  const Option* with_one_dash(const std::string& word) const {
    return is_letters(word) && word.size() > 3 ? find_option(table_, name_part(word).substr(1)) : nullptr;
  }
  const Table& table() const { return table_; }

 private:
  const Table& table_;
};

// Stands for an empty word, which CLI11 would take for the name of an option group; no command line has it.
const std::string kEmptyWord(1, '\0');

// CLI11 with those names of the table that the words may mean: all of them would be half of a launch's instructions.
class Parser {
 public:
  enum class Stuck { nowhere, at_missing_value, at_word };
  struct Outcome {
    Stuck stuck = Stuck::nowhere;
    std::size_t word = 0;  // where it is stuck; else the number of our words
  };

  Parser(const Names& names, const Arguments& words) : table_(names.table()), typed_(table_.options.size()) {
    app_.set_help_flag();
    app_.allow_extras();
    if (table_.runs_a_program) app_.prefix_command();
    for (const Option& option : table_.options)
      if (option.positional) add(option);
    for (const std::string& word : words) {
      if (const Option* option = names.of_word(word)) add(*option);
      if (!is_letters(word)) continue;
      for (const char letter : name_part(word))  // several may be combined
        if (const Option* option = names.of_letter(letter)) add(*option);
    }
  }

  Outcome parse(const Arguments& words) {
    try {
      Arguments backwards(words.rbegin(), words.rend());  // as CLI11 reads them
      std::replace(backwards.begin(), backwards.end(), std::string(), kEmptyWord);
      app_.parse(std::move(backwards));
    } catch (const CLI::ParseError&) {
      return {Stuck::at_missing_value};
    }
    Arguments rest = app_.remaining();
    std::replace(rest.begin(), rest.end(), kEmptyWord, std::string());
    if (!table_.runs_a_program) std::erase(rest, "--");  // it only ends the options
    if (rest.empty() || (table_.runs_a_program && !looks_like_option(rest.front())))
      return {Stuck::nowhere, words.size() - rest.size()};
    return {Stuck::at_word, position(words, rest.front())};
  }

  // The values of an option of the table, in the order of the words.
  CLI::results_t values(std::size_t option) const {
    if (!typed_[option]) return {};
    CLI::results_t values = typed_[option]->results();
    std::replace(values.begin(), values.end(), kEmptyWord, std::string());
    return values;
  }

 private:
  // From -mx CLI11 takes the m and leaves -x, from -m-x it leaves --x.
  static std::size_t position(const Arguments& words, const std::string& unknown) {
    auto found = std::find(words.begin(), words.end(), unknown);
    if (found == words.end())
      found = std::find_if(words.begin(), words.end(), [&](const std::string& word) {
        return is_letters(word) && word.ends_with(unknown.substr(1));
      });
    check(found != words.end(), "what the parser leaves is one of the words");
    return static_cast<std::size_t>(found - words.begin());
  }

  void add(const Option& option) {
    CLI::Option*& added = typed_[static_cast<std::size_t>(&option - table_.options.data())];
    if (added) return;
    const std::string names = spellings(option);
    added = option.takes_word() ? app_.add_option(names) : app_.add_flag(names);
    if (option.value_optional) added->expected(0, 1);
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
  }

  const Table& table_;
  CLI::App app_;
  std::vector<CLI::Option*> typed_;  // by index in the table; null: in none of the words
};

std::string value_missing(const Option& option, const std::string& as) {
  const bool letter = as.size() == 2;
  return as + " needs a value: " + as + (letter ? " " : "=") + option.value + ".";
}

std::string unknown(const Names& names, const std::string& word) {
  const std::string as = name_part(word);
  const Option* near = nearest_option(names.table(), without_dashes(as));
  if (!near)
    return "there is no option " + as + "; " + names.table().program + " --help lists " +
           (names.table().runs_a_program ? "its own, and your program's stand after its name." : "them.");
  const bool by_key = near->positional || !*near->name;
  return "there is no option " + as + "." +
         did_you_mean("--" + (by_key ? std::string("set ") + near->key + "=" + near->value : near->name));
}

std::string ambiguous(const std::string& word, const std::vector<const Option*>& options) {
  std::vector<std::string> names;
  for (const Option* option : options) names.push_back(std::string("--") + option->name);
  return name_part(word) + " is ambiguous: it may be " + listed(names) + ".";
}

// Corrects the words one by one until CLI11 accepts them all: completes abbreviated names; removes the rest and adds a
// mistake for each.
class Corrector {
 public:
  Corrector(const Names& names, Arguments& words, Arguments& mistakes)
      : names_(names), words_(words), mistakes_(mistakes) {}

  // Returns whether a word has changed, so that parsing again makes sense.
  bool correct(const Parser::Outcome& outcome) {
    if (outcome.stuck == Parser::Stuck::at_missing_value) return drop_last();
    if (insert_empty_value(outcome.word)) return true;
    return outcome.stuck == Parser::Stuck::at_word ? correct_unknown(outcome.word) : correct_one_dash(outcome.word);
  }

 private:
  bool drop_last() {
    const std::string& word = words_.back();
    const Option* option = is_letters(word) ? names_.of_letter(word.back()) : names_.of_word(word);
    const std::string as = is_letters(word) ? std::string("-") + word.back() : word;
    mistakes_.push_back(option ? value_missing(*option, as) : as + " needs a value.");
    words_.pop_back();
    return true;
  }

  // CLI11 takes the next word as the value of --role=.
  bool insert_empty_value(std::size_t ours) {
    for (std::size_t i = 0; i < ours && words_[i] != "--"; ++i) {
      std::string& word = words_[i];
      const Option* option = names_.of_word(word);
      if (!option || !option->takes_word() || !is_long(word)) continue;
      if (word.find('=') + 1 == word.size()) {
        word.pop_back();
        words_.insert(words_.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
        return true;
      }
      if (word.find('=') == std::string::npos) ++i;  // its value
    }
    return false;
  }

  // CLI11 takes -role for -r with the value "ole".
  bool correct_one_dash(std::size_t ours) {
    for (std::size_t i = 0; i < ours && words_[i] != "--"; ++i) {
      if (const Option* meant = names_.with_one_dash(words_[i])) return drop_one_dash(i, *meant);
      const Option* option = names_.of_word(words_[i]);
      if (option && option->takes_word() && is_long(words_[i]) && words_[i].find('=') == std::string::npos)
        ++i;  // its value
    }
    return false;
  }

  bool correct_unknown(std::size_t at) {
    std::string& word = words_[at];
    const std::string name = name_part(word);
    if (!looks_like_option(word))
      return drop(at, "Unexpected argument '" + word + "'; " + names_.table().program + " --help lists what there is.",
                  nullptr);
    if (const Option* meant = names_.with_one_dash(word)) return drop_one_dash(at, *meant);
    if (!is_long(word)) return drop_letters(at);
    const auto options = name == "--" ? std::vector<const Option*>() : abbreviated(names_.table(), name.substr(2));
    if (options.empty()) return drop(at, unknown(names_, word), nearest_option(names_.table(), name.substr(2)));
    if (options.size() > 1) return drop(at, ambiguous(word, options), options.front());
    word = std::string("--") + options.front()->name + word.substr(name.size());
    return true;
  }

  bool drop_one_dash(std::size_t at, const Option& meant) {
    return drop(
        at, "there is no option " + name_part(words_[at]) + "; long ones begin with two dashes: --" + meant.name + ".",
        &meant);
  }

  // -vx: CLI11 has taken the v.
  bool drop_letters(std::size_t at) {
    const std::string word = words_[at];
    const auto letter = std::find_if(word.begin() + 1, word.end(), [&](char c) { return !names_.of_letter(c); });
    const bool mixed = letter != word.end() && letter != word.begin() + 1;
    return drop(at, unknown(names_, mixed ? std::string("-") + *letter : word),
                nearest_option(names_.table(), name_part(word).substr(1)));
  }

  // Whether the next word is this option's value and not the program. No program is called 3.
  bool value_follows(std::size_t at, const Option* meant) const {
    if (words_[at].find('=') != std::string::npos || at + 2 >= words_.size()) return false;
    const std::string& next = words_[at + 1];
    return meant ? meant->takes_word() && !next.starts_with('-')
                 : next.find_first_not_of("0123456789") == std::string::npos;
  }

  // Removes a word, and the word after it if that is its value.
  bool drop(std::size_t at, const std::string& mistake, const Option* meant) {
    mistakes_.push_back(mistake);
    const bool with_value = looks_like_option(words_[at]) && value_follows(at, meant);
    const auto first = words_.begin() + static_cast<std::ptrdiff_t>(at);
    words_.erase(first, first + (with_value ? 2 : 1));
    return true;
  }

  const Names& names_;
  Arguments& words_;
  Arguments& mistakes_;
};

// The words that name an option, with their values if attached.
Arguments typed_words(const Names& names, const Option& option, const Arguments& words, std::size_t ours) {
  Arguments typed;
  for (std::size_t i = 0; i < ours && words[i] != "--"; ++i) {
    const Option* named = names.of_word(words[i]);
    if (named == &option) typed.push_back(words[i]);
    if (named && named->takes_word() && is_long(words[i]) && words[i].find('=') == std::string::npos) ++i;  // its value
  }
  return typed;
}

// An option in the place of a value: the value was forgotten.
bool is_option(const Names& names, const std::string& value) {
  return value == "--" || (is_long(value) && names.of_word(value));
}

// Adds the settings of one option.
void read_option(const Names& names, const Option& option, const Arguments& values, const Arguments& typed,
                 ParseResult& result) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    // One of several combined letters has no word of its own.
    const std::string word = option.positional               ? option.name
                             : typed.size() == values.size() ? typed[i]
                                                             : std::string("--") + option.name;
    const std::string as = is_letters(word) ? word.substr(0, 2) : name_part(word);
    std::string value = values[i];
    if (as.size() == 2 && value.starts_with('=')) value.erase(0, 1);  // -r=3, as in Python's argparse
    if (!option.flag() && word == as && is_option(names, value))
      result.mistakes.push_back(value_missing(option, as));
    else
      result.settings.push_back({&option, value, Origin::command_line, as});
  }
}

}  // namespace

ParseResult parse_arguments(const Table& table, Arguments words) {
  ParseResult result;
  const Names names(table);
  Corrector corrector(names, words, result.mistakes);
  std::optional<Parser> parser;
  Parser::Outcome outcome;
  do outcome = parser.emplace(names, words).parse(words);
  while (corrector.correct(outcome));
  const std::size_t ours = outcome.word;
  result.program.assign(words.begin() + static_cast<std::ptrdiff_t>(ours), words.end());
  if (!result.program.empty() && result.program.front() == "--") result.program.erase(result.program.begin());
  for (std::size_t i = 0; i < table.options.size(); ++i)
    if (const CLI::results_t values = parser->values(i); !values.empty())
      read_option(names, table.options[i], values, typed_words(names, table.options[i], words, ours), result);
  return result;
}

void expand_sets(const Table& table, ParseResult& parsed) {
  for (Setting& setting : parsed.settings) {
    if (std::string_view(setting.option->name) != "set") continue;
    const std::size_t equals = setting.text.find('=');
    const std::string key = setting.text.substr(0, equals);
    const Option* meant = find_key(table, key);
    if (meant && in_file(*meant) && equals != std::string::npos) {
      setting = {meant, setting.text.substr(equals + 1), Origin::command_line, "--set " + key};
      continue;
    }
    const Option* near = nearest_key(table, key);
    parsed.mistakes.push_back(equals == std::string::npos
                                  ? "--set " + setting.text + " has no value: write --set " + setting.text + "=VALUE."
                                  : "--set " + key + ": there is no key " + key +
                                        (near ? "." + did_you_mean(near->file_key())
                                              : std::string("; ") + table.program + " --print-config lists them."));
    setting.option = nullptr;
  }
  std::erase_if(parsed.settings, [](const Setting& setting) { return !setting.option; });
}

}  // namespace ddprun::settings
