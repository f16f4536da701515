#include "launcher/words.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "launcher/options.h"
#include "launcher/spelling.h"

namespace ddprun {
namespace {

using Arguments = std::vector<std::string>;

// CLI11 with the names of the table; what was typed is asked from each CLI::Option afterwards.
class Parser {
 public:
  Parser() {
    app_.set_help_flag();
    app_.prefix_command();  // the first word that is no option of ours starts the program's part
    for (const OptionRow& row : options()) typed_.push_back(add(row));
  }

  // How many of the words are ours; nothing where the last one is an option whose value is missing.
  std::optional<std::size_t> parse(const Arguments& words) {
    try {
      app_.parse(Arguments(words.rbegin(), words.rend()));  // CLI11 takes them from the back
    } catch (const CLI::ParseError&) {
      return {};
    }
    return words.size() - app_.remaining_size();
  }

  const CLI::Option& typed(std::size_t row) const { return *typed_[row]; }

 private:
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

  CLI::App app_;
  std::vector<CLI::Option*> typed_;
};

std::string name_part(const std::string& word) { return word.substr(0, word.find('=')); }
bool is_long(const std::string& word) { return word.starts_with("--") && word.size() > 2; }
bool is_letters(const std::string& word) { return word.size() > 1 && word[0] == '-' && word[1] != '-'; }

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

std::string unknown(const std::string& word) {
  const std::string as = name_part(word);
  if (const OptionRow* near = nearest_option(as.substr(as.find_first_not_of('-'))))
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

  // Given what Parser::parse said of them: was anything changed, so that it is worth parsing again?
  bool mend(std::optional<std::size_t> ours) { return ours ? mend_ours(*ours) || mend_next(*ours) : drop_last(); }

 private:
  bool drop_last() {
    const std::string& word = words_.back();
    const OptionRow* row = is_letters(word) ? of_letter(word.back()) : named_by(word);
    mistakes_.push_back(row ? value_missing(*row, word) : word + " needs a value.");
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

  // The first word that is not ours, if it looks like an option.
  bool mend_next(std::size_t ours) {
    if (ours == words_.size() || words_[ours] == "--") return false;
    std::string& word = words_[ours];
    if (const std::string mistake = one_dash(word); !mistake.empty())
      return drop(ours, mistake, find_option(name_part(word).substr(1)));
    if (!is_long(word)) return is_letters(word) && drop_letters(ours);
    const std::vector<const OptionRow*> rows = abbreviated(name_part(word).substr(2));
    if (rows.size() == 1) {
      word = std::string("--") + rows.front()->name + word.substr(name_part(word).size());
      return true;
    }
    if (!rows.empty()) return drop(ours, ambiguous(word, rows), rows.front());
    return drop(ours, unknown(word), nearest_option(name_part(word).substr(2)));
  }

  // -vx: CLI11 took the v.
  bool drop_letters(std::size_t at) {
    const std::string word = words_[at];
    const auto unknown_letter = std::find_if(word.begin() + 1, word.end(), [](char c) { return !of_letter(c); });
    const bool mixed = unknown_letter != word.end() && unknown_letter != word.begin() + 1;
    return drop(at, unknown(mixed ? std::string("-") + *unknown_letter : word),
                nearest_option(name_part(word).substr(1)));
  }

  // Takes a word out, and the value behind it if it was meant to be an option that takes one.
  bool drop(std::size_t at, const std::string& mistake, const OptionRow* meant) {
    mistakes_.push_back(mistake);
    const bool with_value = meant && !meant->flag() && words_[at].find('=') == std::string::npos &&
                            at + 2 < words_.size() && !words_[at + 1].starts_with("-");
    const auto first = words_.begin() + static_cast<std::ptrdiff_t>(at);
    words_.erase(first, first + (with_value ? 2 : 1));
    return true;
  }

  Arguments words_, mistakes_;
};

// The name by which an option was typed last.
std::string typed_as(const OptionRow& row, const Arguments& words, std::size_t ours) {
  for (std::size_t i = ours; i-- > 0;)
    if (named_by(words[i]) == &row) return is_long(words[i]) ? name_part(words[i]) : words[i].substr(0, 2);
  return std::string("--") + row.name;
}

// An option of ours where a value should stand: the value was forgotten.
bool is_option(const std::string& value) { return value == "--" || (is_long(value) && named_by(value)); }

}  // namespace

Words read_words(const Arguments& arguments) {
  Parser parser;
  Mender mender(arguments);
  std::optional<std::size_t> parsed = parser.parse(arguments);
  while (mender.mend(parsed)) parsed = parser.parse(mender.words());
  const std::size_t ours = parsed.value_or(0);
  const Arguments& words = mender.words();
  Words read{{}, {words.begin() + static_cast<std::ptrdiff_t>(ours), words.end()}, {}};
  if (!read.program.empty() && read.program.front() == "--") read.program.erase(read.program.begin());
  read.mistakes = std::move(mender.mistakes());
  for (std::size_t i = 0; i < options().size(); ++i) {
    const CLI::results_t& values = parser.typed(i).results();
    if (values.empty()) continue;
    const OptionRow& row = options()[i];
    const std::string as = typed_as(row, words, ours);
    std::string value = values.back();
    if (as.size() == 2 && value.starts_with('=')) value.erase(0, 1);  // -r=3, as Python's argparse reads it
    if (!row.flag() && is_option(value))
      read.mistakes.push_back(value_missing(row, as));
    else
      read.settings.push_back({&row, value, Origin::command_line, as});
  }
  return read;
}

}  // namespace ddprun
