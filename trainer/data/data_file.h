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

// The folder of the data set's files: `data`, if not empty; else data/<name> in the program's installation, its source
// tree or the current folder. Throws Error if there is none.
std::string find_data(const std::string& name, const std::string& data);

}  // namespace ddprun::train
