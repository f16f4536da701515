#include "trainer/config/write_line.h"

#include <CLI/CLI.hpp>
#include <type_traits>
#include <utility>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"
#include "trainer/config/parse_words.h"

namespace ddprun::train {
namespace {

constexpr std::int64_t kLengthMax = 1'000'000'000;
constexpr double kTemperatureMax = 100;

// What CLI11 says of a number does not name the option's range.
template <class Number>
std::string read_number_word(const char* name, const std::string& text, Number least, Number most, Number& value) {
  const auto number = settings::whole_text<Number>(text);
  if (number && *number >= least && *number <= most) {
    value = *number;
    return {};
  }
  const auto shown = [](Number limit) {
    return std::is_integral_v<Number> ? std::to_string(limit) : settings::text_of_number(static_cast<double>(limit));
  };
  return std::string(name) + " is '" + text + "'; it takes a" +
         (std::is_integral_v<Number> ? " whole number from " : " number from ") + shown(least) + " to " + shown(most) +
         ".";
}

EarlyExit refused_writing(const std::string& sentence) {
  return {2, "train: " + visible(sentence) + " `train write --help` explains it.\n"};
}

}  // namespace

WriteLine read_write_line(std::vector<std::string> arguments) {
  WriteLine line;
  std::string length = "400", temperature = "0.8", top_k = "0", seed = "0";
  CLI::App app(
      "Prints a text that begins with the prompt, by the model gpt of a snapshot.\n\n"
      "  train --model gpt\n"
      "  train write --prompt \"A river \"\n");
  const auto add = [&](const char* names, std::string& value, const char* type, const char* help) {
    app.add_option(names, value, help)->type_name(type)->capture_default_str();
  };
  add("--snapshot", line.snapshot, "FILE", "the model's snapshot");
  add("--prompt", line.prompt, "TEXT", "how the text begins; by default as a line does");
  add("--length", length, "N", "characters to write after the prompt");
  add("--temperature", temperature, "T", "0 takes the likeliest character each time; more than 1 surprises");
  add("--top-k,--top_k", top_k, "K", "choose among the K likeliest characters only; 0: among all");
  add("--seed", seed, "S", "the same seed gives the same text");
  line.early_exit = parse_words(app, "train write [options]", std::move(arguments), refused_writing);
  if (line.early_exit) return line;
  for (const std::string& mistake :
       {read_number_word<std::int64_t>("--length", length, 1, kLengthMax, line.length),
        read_number_word<double>("--temperature", temperature, 0, kTemperatureMax, line.temperature),
        read_number_word<std::int64_t>("--top-k", top_k, 0, kLengthMax, line.top_k),
        read_number_word<std::uint64_t>("--seed", seed, 0, kLengthMax, line.seed)})
    if (!mistake.empty() && !line.early_exit) line.early_exit = refused_writing(mistake);
  if (line.snapshot.empty() && !line.early_exit)
    line.early_exit = refused_writing("--snapshot needs the name of a file.");
  return line;
}

}  // namespace ddprun::train
