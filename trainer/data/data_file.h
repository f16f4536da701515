// Reads whole data files.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/error.h"

namespace ddprun::train {

// cannot read the data file <name>: <why>. ...
Error malformed_data(const std::string& name, const std::string& why);

// Unpacks gzip, which it detects by content, not by name. Throws Error, naming the file, if it is missing, torn, or has
// more than `bytes_max` unpacked bytes.
std::vector<std::uint8_t> read_data_file(const std::string& path, std::size_t bytes_max = std::size_t{4} << 30);

// The first of these folders of `root` that has one of the files; "" is `root` itself. If none has: throws an Error
// that names another folder below `root` that has, an archive to unpack, or what is missing.
std::string folder_with(const std::vector<std::string>& files, const std::string& root,
                        const std::vector<std::string>& folders);

// The folder of the data set's files: `data`, if not empty; else data/<name> in the program's installation, its source
// tree or the current folder, or data where torchvision has put it there. Throws Error if there is none.
std::string find_data(const std::string& name, const std::string& data);

}  // namespace ddprun::train
