// Tells what a file is that is not one of weights that we read, and what to do about it: other programs' formats,
// packed files, pages and pointers that were saved in the file's place.
//
// Pure: decides by the first and last bytes, by the names in an archive, and last by the file's name.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct OtherFile {
  std::string what;    // "it is a GGUF file of llama.cpp"
  std::string remedy;  // a sentence
};

// Nothing if it is a file of torch.save or safetensors, or begins like one; else always something.
std::optional<OtherFile> other_file(std::string_view bytes, const std::string& path);

// The same of a folder with these names in it.
std::optional<OtherFile> other_folder(const std::vector<std::string>& names, const std::string& path);

// A sentence with the command by which PyTorch itself converts the file.
std::string by_torch(const std::string& path);
// The same with these statements of Python; FROM and TO stand for the file's name and the new one's.
std::string by_python(const std::string& path, std::string statements);

}  // namespace ddprun
