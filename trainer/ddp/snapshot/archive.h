// The zip archive that torch.save writes: its records, and where in the file their bytes are.
//
// Pure, and safe for untrusted bytes: checks every length and copies only names. Records are stored uncompressed, and
// no two of them share a byte, so that all of them together are never larger than the file.
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

  enum class Compressed { refused, left_out };

  // `file` must outlive it. Throws Malformed (damaged.h) if it is not such an archive. TorchScript compresses its code:
  // such records may be left out.
  explicit Archive(std::string_view file, Compressed compressed = Compressed::refused);

  const std::vector<Record>& records() const { return records_; }  // in the order of its directory
  const Record* find(std::string_view name) const;

 private:
  std::vector<Record> records_;
  std::map<std::string_view, std::size_t> by_name_;
};

// The names of all parts of any zip archive, with their folders; none if it is damaged.
std::vector<std::string> names_in_zip(std::string_view file);

}  // namespace ddprun
