// Reads whole data files.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/base/error.h"

namespace ddprun::train {

// cannot read the data file <name>: <why>. ...
Error malformed_data(const std::string& name, const std::string& why);

// Unpacks gzip, which it detects by content, not by name. Throws Error, naming the file, if it is missing, torn, or has
// more than `bytes_max` unpacked bytes.
std::vector<std::uint8_t> read_data_file(const std::string& path, std::size_t bytes_max = std::size_t{4} << 30);

// Its names, sorted; none if it cannot be read.
std::vector<std::string> names_in_folder(const std::string& folder);
// "are a, b/, c and 7 more", folders with a slash, or "is nothing".
std::string what_is_in(const std::string& folder);

// The first of these folders of `root` for which `has` is true; "" is `root` itself. If there is none: throws an Error
// that says so of `file`, the first of the files, and names another folder below `root`, an archive to unpack, or what
// is in `root`.
std::string folder_with(const std::string& file, const std::function<bool(const std::string& folder)>& has,
                        const std::string& root, const std::vector<std::string>& folders);

// The folder of the data set's files: `data`, if not empty; else data/<name> in the program's installation, its source
// tree or the current folder, or data where torchvision has put it there. Throws Error if there is none.
std::string find_data(const std::string& name, const std::string& data);

}  // namespace ddprun::train
