// The zip archive that torch.save writes: which records it has, and where in the file their bytes are.
//
// Pure, and for bytes from anywhere: no length is trusted, nothing is copied but names. Records are stored as they are,
// not compressed, and no two of them share a byte, so that all of them together are never larger than the file.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class Archive {
 public:
  struct Record {
    std::string_view name;  // without the folder that all of them are in
    std::string_view bytes;
  };

  // `file` outlives it. Malformed (damaged.h) where it is no such archive.
  explicit Archive(std::string_view file);

  const std::vector<Record>& records() const { return records_; }  // in the order of its directory
  const Record* find(std::string_view name) const;

 private:
  std::vector<Record> records_;
  std::map<std::string_view, std::size_t> by_name_;
};

}  // namespace ddprun
