#include "trainer/ddp/snapshot/archive.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "trainer/ddp/snapshot/damaged.h"

namespace ddprun {
namespace {

// Signatures, and the sizes of their structures without names and extras (APPNOTE.TXT of PKWARE, section 4.3).
constexpr std::uint32_t kLocal = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kLocator64Bytes = 20, kCommentMax = 0xffff;
constexpr std::uint16_t kExtra64 = 1, kEncrypted = 1;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the number is among the extras

static_assert(std::endian::native == std::endian::little);

[[noreturn]] void fail(const std::string& why) {
  throw Malformed("it is damaged, or not a file of torch.save (" + why + ")");
}

// Reads numbers where they are in the file.
class View {
 public:
  explicit View(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t size() const { return bytes_.size(); }
  std::string_view part(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) fail("a part of it lies beyond its end");
    return bytes_.substr(at, size);
  }
  template <class T>
  T number(std::uint64_t at) const {
    T result;
    std::memcpy(&result, part(at, sizeof result).data(), sizeof result);
    return result;
  }
  std::uint16_t u16(std::uint64_t at) const { return number<std::uint16_t>(at); }
  std::uint32_t u32(std::uint64_t at) const { return number<std::uint32_t>(at); }
  std::uint64_t u64(std::uint64_t at) const { return number<std::uint64_t>(at); }

 private:
  std::string_view bytes_;
};

// The last end-of-directory record.
std::uint64_t find_end(const View& file) {
  if (file.size() < kEndBytes) fail("it has no directory");
  const std::uint64_t last = file.size() - kEndBytes, first = last > kCommentMax ? last - kCommentMax : 0;
  for (std::uint64_t at = last + 1; at-- > first;)
    if (file.u32(at) == kEnd) return at;
  fail("it has no directory");
}

struct Directory {
  std::uint64_t at, size, entries;
};

Directory find_directory(const View& file) {
  const std::uint64_t end = find_end(file);
  if (end >= kLocator64Bytes && file.u32(end - kLocator64Bytes) == kLocator64) {
    const std::uint64_t end64 = file.u64(end - kLocator64Bytes + 8);
    if (file.u32(end64) != kEnd64) fail("its directory's end is not where it should be");
    return {file.u64(end64 + 48), file.u64(end64 + 40), file.u64(end64 + 32)};
  }
  return {file.u32(end + 16), file.u32(end + 12), file.u16(end + 10)};
}

struct ZipEntry {
  std::string_view name;
  std::uint64_t at;    // offset of its local header
  std::uint64_t size;  // of its content, as it is stored
  bool compressed;
  std::uint64_t begin = 0;
};

// Sizes and offset that do not fit 32 bits are among the extras, in this order.
void read_zip64_sizes(const View& extras, std::uint64_t& whole, std::uint64_t& size, std::uint64_t& at) {
  for (std::uint64_t extra = 0; extra + 4 <= extras.size();) {
    const std::uint64_t length = extras.u16(extra + 2);
    if (extras.u16(extra) == kExtra64) {
      const View numbers(extras.part(extra + 4, length));
      std::uint64_t next = 0;
      for (std::uint64_t* number : {&whole, &size, &at})
        if (*number == kIn64) *number = numbers.u64(std::exchange(next, next + 8));
      return;
    }
    extra += 4 + length;
  }
}

// Moves `at` past it.
ZipEntry read_entry(const View& file, std::uint64_t& at) {
  if (file.u32(at) != kEntry) fail("its directory has an invalid entry");
  if (file.u16(at + 8) & kEncrypted) fail("a part of it is compressed or encrypted");
  const bool compressed = file.u16(at + 10) != 0;
  std::uint64_t size = file.u32(at + 20), whole = file.u32(at + 24), local = file.u32(at + 42);
  const std::uint64_t name = file.u16(at + 28), extra = file.u16(at + 30), comment = file.u16(at + 32);
  read_zip64_sizes(View(file.part(at + kEntryBytes + name, extra)), whole, size, local);
  if (size != whole && !compressed) fail("a part of it has two sizes");
  const ZipEntry entry{file.part(at + kEntryBytes, name), local, size, compressed};
  at += kEntryBytes + name + extra + comment;
  return entry;
}

std::vector<ZipEntry> read_entries(const View& file, const Directory& directory) {
  file.part(directory.at, directory.size);
  if (directory.entries > directory.size / kEntryBytes) fail("its directory is too small for its entries");
  std::vector<ZipEntry> entries;
  for (std::uint64_t at = directory.at; entries.size() < directory.entries;) entries.push_back(read_entry(file, at));
  return entries;
}

// Parts must not overlap, and must lie before the directory: a small file must not have large content.
void check_no_overlap(const View& file, std::vector<ZipEntry>& entries, std::uint64_t directory) {
  for (ZipEntry& entry : entries) {
    if (file.u32(entry.at) != kLocal) fail("a part of it is not where it should be");
    entry.begin = entry.at + kLocalBytes + file.u16(entry.at + 26) + file.u16(entry.at + 28);
    file.part(entry.begin, entry.size);
  }
  std::vector<const ZipEntry*> by_place;
  for (const ZipEntry& entry : entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(), [](const ZipEntry* a, const ZipEntry* b) { return a->at < b->at; });
  for (std::size_t i = 0; i < by_place.size(); ++i) {
    const std::uint64_t limit = i + 1 < by_place.size() ? by_place[i + 1]->at : directory;
    if (by_place[i]->begin + by_place[i]->size > limit) fail("parts of it overlap");
  }
}

}  // namespace

Archive::Archive(std::string_view bytes, Compressed compressed) {
  const View file(bytes);
  const Directory directory = find_directory(file);
  std::vector<ZipEntry> entries = read_entries(file, directory);
  check_no_overlap(file, entries, directory.at);
  if (entries.empty()) fail("it is empty");
  const std::size_t slash = entries.front().name.find('/');
  if (slash == std::string_view::npos) fail("its parts are not in a folder");
  const std::string_view folder = entries.front().name.substr(0, slash + 1);
  for (const ZipEntry& entry : entries) {
    if (!entry.name.starts_with(folder)) fail("its parts are in several folders");
    if (entry.compressed && compressed == Compressed::refused) fail("a part of it is compressed or encrypted");
    if (entry.compressed) continue;
    const std::string_view name = entry.name.substr(folder.size());
    if (!by_name_.emplace(name, records_.size()).second) fail("it has two parts with the same name");
    records_.push_back({name, file.part(entry.begin, entry.size)});
  }
}

std::vector<std::string> names_in_zip(std::string_view bytes) try {
  const View file(bytes);
  std::vector<std::string> names;
  for (const ZipEntry& entry : read_entries(file, find_directory(file))) names.emplace_back(entry.name);
  return names;
} catch (const Malformed&) {
  return {};
}

const Archive::Record* Archive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &records_[found->second];
}

}  // namespace ddprun
