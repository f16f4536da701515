// Quotes a text for the languages of scripts and manifests; plain where that reads as the same text. Pure.
#pragma once
#include <string>

namespace ddprun::launcher {

std::string sbatch_word(const std::string& text);  // behind #SBATCH; `text` has no line ends

// A string in YAML, never read as a number, a truth value or null.
std::string yaml_string(const std::string& text);
// The same as the value of a key, in lines (`|2`) where that keeps every byte. `indent`: blanks before the key.
std::string yaml_lines(const std::string& text, std::size_t indent);

// Kubernetes replaces $(NAME) in the arguments of a container: the text that stays as it is.
std::string without_expansion(const std::string& text);

}  // namespace ddprun::launcher
