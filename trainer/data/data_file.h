// Files of data, read whole.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/error.h"

namespace ddprun::train {

// cannot read the data file <name>: <why>. ...
Error malformed_data(const std::string& name, const std::string& why);

// Unpacked, where it is gzip: that is told by the content, not by the name. Error, naming the file, where it is
// missing, torn, or has more than `bytes_max` once unpacked.
std::vector<std::uint8_t> read_data_file(const std::string& path, std::size_t bytes_max = std::size_t{4} << 30);

// Where the data set's files are. `data`, if it is not empty; else data/<name> beside the program's installation, in
// its source tree or in the current folder. Error when there is none.
std::string find_data(const std::string& name, const std::string& data);

}  // namespace ddprun::train
