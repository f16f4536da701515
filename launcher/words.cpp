#include "launcher/words.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "launcher/options.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"

namespace ddprun {
namespace {

using Arguments = std::vector<std::string>;

std::string name_part(const std::string& word) { return word.substr(0, word.find('=')); }
bool is_long(const std::string& word) { return word.starts_with("--") && word.size() > 2; }
bool is_letters(const std::string& word) { return word.size() > 1 && word[0] == '-' && word[1] != '-'; }

bool looks_like_option(const std::string& word) { return word.size() > 1 && word[0] == '-' && word != "--"; }

// What CLI11 makes of the words.
struct Parsed {
  bool complete = true;                     // false: the last word is an option whose value is missing
  std::optional<std::size_t> unknown = {};  // the first word that looks like an option and is none
  std::size_t ours = 0;                     // else: how many words are ours
};

// CLI11 with the names of the table; what was typed is asked from each CLI::Option afterwards. It learns those options
// alone that a word names: to learn all of them takes longer than all the rest of a start.
class Parser {
 public:
  explicit Parser(const Arguments& words) : words_(words), typed_(options().size()) {
    app_.set_help_flag();
    app_.prefix_command();  // the first word that is no option of ours starts the program's part
    for (const std::string& word : words) learn(word);
  }

  Parsed parse() {
    try {
      app_.parse(Arguments(words_.rbegin(), words_.rend()));  // CLI11 takes them from the back
    } catch (const CLI::ParseError&) {
      return {.complete = false};
    }
    const Arguments rest = app_.remaining();
    if (!rest.empty() && looks_like_option(rest.front())) return {.unknown = position(rest.front())};
    return {.ours = words_.size() - rest.size()};
  }

  // The values of an option of the table, in the order of the words.
  CLI::results_t values(std::size_t row) const { return typed_[row] ? typed_[row]->results() : CLI::results_t(); }

 private:
  // Of -mx CLI11 took the m and leaves -x, of -m-x it leaves --x.
  std::size_t position(const std::string& unknown) const {
    auto found = std::find(words_.begin(), words_.end(), unknown);
    if (found == words_.end())
      found = std::find_if(words_.begin(), words_.end(), [&](const std::string& word) {
        return is_letters(word) && word.ends_with(unknown.substr(1));
      });
    check(found != words_.end(), "that what the parser leaves is one of the words");
    return static_cast<std::size_t>(found - words_.begin());
  }

  void learn(const std::string& word) {
    if (word.size() < 2 || word[0] != '-') return;
    const OptionRow* by_name = is_long(word) ? find_option(name_part(word).substr(2)) : nullptr;
    for (std::size_t i = 0; i < options().size(); ++i) {
      const OptionRow& row = options()[i];
      const bool named = is_long(word) ? &row == by_name : row.letter != 0;
      if (named && !typed_[i]) typed_[i] = add(row);
    }
  }

  CLI::Option* add(const OptionRow& row) {
    const std::string names = spellings(row);
    if (row.flag()) return app_.add_flag(names)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    CLI::Option* added = app_.add_option(names)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (std::string_view(row.name) == "help") added->expected(0, 1);  // of a group, or of all
    return added;
  }

  static std::string spellings(const OptionRow& row) {
    std::string all;
    for (const std::string& name : {std::string(row.name), std::string(row.alias)}) {
      if (name.empty()) continue;
      all += (all.empty() ? "--" : ",--") + name;
      if (const std::string other = with_underscores(name); other != name) all += ",--" + other;
    }
    return row.letter ? all + ",-" + row.letter : all;
  }

  const Arguments& words_;
  CLI::App app_;
  std::vector<CLI::Option*> typed_;  // by row; null: no word names it
};

const OptionRow* of_letter(char letter) {
  for (const OptionRow& row : options())
    if (row.letter && row.letter == letter) return &row;
  return nullptr;
}

// The option that a word names, as CLI11 would see it; nullptr where it is none.
const OptionRow* named_by(const std::string& word) {
  if (is_long(word)) return find_option(name_part(word).substr(2));
  return is_letters(word) ? of_letter(word[1]) : nullptr;
}

std::string value_missing(const OptionRow& row, const std::string& as) {
  const bool letter = as.size() == 2;
  return as + " needs a value: " + as + (letter ? " " : "=") + row.value + ".";
}

// -master-port=1 would be the letter m and more letters.
std::string one_dash(const std::string& word) {
  if (!is_letters(word) || word.size() < 4) return {};
  const OptionRow* row = find_option(name_part(word).substr(1));
  return row ? "There is no option " + name_part(word) + "; long ones begin with two dashes: --" + row->name + "." : "";
}

std::string without_dashes(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

std::string unknown(const std::string& word) {
  const std::string as = name_part(word);
  if (const OptionRow* near = nearest_option(without_dashes(as)))
    return "There is no option " + as + ". Did you mean --" + near->name + "?";
  return "There is no option " + as + "; ddprun --help lists them.";
}

std::string ambiguous(const std::string& word, const std::vector<const OptionRow*>& rows) {
  std::vector<std::string> names;
  for (const OptionRow* row : rows) names.push_back(std::string("--") + row->name);
  return name_part(word) + " may be " + listed(names) + ": write more of it.";
}

// The words, mended one by one until CLI11 understands them all. What cannot be mended is noted and taken out.
class Mender {
 public:
  explicit Mender(Arguments words) : words_(std::move(words)) {}

  const Arguments& words() const { return words_; }
  Arguments& mistakes() { return mistakes_; }

  // Was anything changed, so that it is worth parsing again?
  bool mend(const Parsed& parsed) {
    if (!parsed.complete) return drop_last();
    return parsed.unknown ? mend_unknown(*parsed.unknown) : mend_ours(parsed.ours);
  }

 private:
  bool drop_last() {
    const std::string& word = words_.back();
    const OptionRow* row = is_letters(word) ? of_letter(word.back()) : named_by(word);
    const std::string as = is_letters(word) ? std::string("-") + word.back() : word;
    mistakes_.push_back(row ? value_missing(*row, as) : as + " needs a value.");
    words_.pop_back();
    return true;
  }

  // What CLI11 took, but not as it was meant: --role= (it takes the next word for the value), and -role.
  bool mend_ours(std::size_t ours) {
    for (std::size_t i = 0; i < ours; ++i) {
      if (const std::string mistake = one_dash(words_[i]); !mistake.empty())
        return drop(i, mistake, find_option(name_part(words_[i]).substr(1)));
      const OptionRow* row = named_by(words_[i]);
      if (!row || row->flag() || !is_long(words_[i])) continue;
      if (words_[i].ends_with('=') && words_[i].find('=') + 1 == words_[i].size()) {
        words_[i].pop_back();
        words_.insert(words_.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
        return true;
      }
      if (words_[i].find('=') == std::string::npos) ++i;  // its value
    }
    return false;
  }

  bool mend_unknown(std::size_t at) {
    std::string& word = words_[at];
    const std::string name = name_part(word);
    if (const std::string mistake = one_dash(word); !mistake.empty())
      return drop(at, mistake, find_option(name.substr(1)));
    if (!is_long(word)) return drop_letters(at);
    const std::vector<const OptionRow*> rows =
        name == "--" ? std::vector<const OptionRow*>() : abbreviated(name.substr(2));
    if (rows.empty()) return drop(at, unknown(word), nearest_option(name.substr(2)));
    if (rows.size() > 1) return drop(at, ambiguous(word, rows), rows.front());
    word = std::string("--") + rows.front()->name + word.substr(name.size());
    return true;
  }

  // -vx: CLI11 took the v.
  bool drop_letters(std::size_t at) {
    const std::string word = words_[at];
    const auto unknown_letter = std::find_if(word.begin() + 1, word.end(), [](char c) { return !of_letter(c); });
    const bool mixed = unknown_letter != word.end() && unknown_letter != word.begin() + 1;
    return drop(at, unknown(mixed ? std::string("-") + *unknown_letter : word),
                nearest_option(name_part(word).substr(1)));
  }

  // Is the word behind this one its value rather than the program? No program is called 3.
  bool value_follows(std::size_t at, const OptionRow* meant) const {
    if (words_[at].find('=') != std::string::npos || at + 2 >= words_.size()) return false;
    const std::string& next = words_[at + 1];
    return meant ? !meant->flag() && !next.starts_with("-") : next.find_first_not_of("0123456789") == std::string::npos;
  }

  // Takes a word out, and the value behind it if it was meant to be an option that takes one.
  bool drop(std::size_t at, const std::string& mistake, const OptionRow* meant) {
    mistakes_.push_back(mistake);
    const bool with_value = value_follows(at, meant);
    const auto first = words_.begin() + static_cast<std::ptrdiff_t>(at);
    words_.erase(first, first + (with_value ? 2 : 1));
    return true;
  }

  Arguments words_, mistakes_;
};

// The word by which an option was typed last, its value included where that hangs on it.
std::string typed_word(const OptionRow& row, const Arguments& words, std::size_t ours) {
  for (std::size_t i = ours; i-- > 0;)
    if (named_by(words[i]) == &row) return words[i];
  return std::string("--") + row.name;  // one of several letters
}

// An option of ours where a value should stand: the value was forgotten.
bool is_option(const std::string& value) { return value == "--" || (is_long(value) && named_by(value)); }

}  // namespace

Words read_words(const Arguments& arguments) {
  Mender mender(arguments);
  std::optional<Parser> parser(std::in_place, arguments);
  Parsed parsed = parser->parse();
  while (mender.mend(parsed)) parsed = parser.emplace(mender.words()).parse();
  const std::size_t ours = parsed.ours;
  const Arguments& words = mender.words();
  Words read{{}, {words.begin() + static_cast<std::ptrdiff_t>(ours), words.end()}, {}};
  if (!read.program.empty() && read.program.front() == "--") read.program.erase(read.program.begin());
  read.mistakes = std::move(mender.mistakes());
  for (std::size_t i = 0; i < options().size(); ++i) {
    const CLI::results_t values = parser->values(i);
    if (values.empty()) continue;
    const OptionRow& row = options()[i];
    const std::string word = typed_word(row, words, ours);
    const std::string as = is_long(word) ? name_part(word) : word.substr(0, 2);
    std::string value = values.back();
    if (as.size() == 2 && value.starts_with('=')) value.erase(0, 1);  // -r=3, as Python's argparse reads it
    if (!row.flag() && word == as && is_option(value))
      read.mistakes.push_back(value_missing(row, as));
    else
      read.settings.push_back({&row, value, Origin::command_line, as});
  }
  return read;
}

}  // namespace ddprun
