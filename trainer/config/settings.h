// The one table of what can be set: its name in a file, its flag, its help, what it takes, and where it lies in
// Options. And the reading of a text for it. Pure.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/config/options.h"

namespace ddprun {

using Place = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*, std::vector<std::string>*>;

struct SettingRow {
  const char* key;    // "optimizer.lr"
  const char* flag;   // "--lr", or "total_epochs" for a word without one; "": by a file or --set only
  const char* value;  // "NUMBER"; "" for what is on or off
  const char* help;
  Place (*place)(Options&);
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;                 // min itself is too small
  std::vector<std::string> choices = {};  // nothing else
  bool same_run = true;                   // another value makes another run: told when it is resumed
};

const std::vector<SettingRow>& setting_rows();
const SettingRow* find_setting(const std::string& key);
// " Did you mean optimizer.lr?", or where to find them all.
std::string unknown_setting(const std::string& key);

// A value somebody gave, and where: "--lr", "--set optimizer.lr", "job.toml:3: optimizer.lr".
struct Setting {
  const SettingRow* row;
  std::string text;
  std::string origin;
};

inline constexpr const char* kMustBeGiven = "???";

// Puts the value into `options`; else says why not, in one sentence.
std::optional<std::string> apply(const Setting& setting, Options& options);

// The value in force, as apply() reads it.
std::string text_of(const SettingRow& row, const Options& options);

}  // namespace ddprun
