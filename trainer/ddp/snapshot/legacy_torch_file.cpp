#include "trainer/ddp/snapshot/legacy_torch_file.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "trainer/ddp/snapshot/damaged.h"

namespace ddprun {
namespace {

// The magic number 0x1950a86a20f9469cfc6c as an operand, within a pickle of one value.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::size_t kMagicPickleMax = 32;
constexpr std::int64_t kVersion = 1001;

class LegacyReader {
 public:
  explicit LegacyReader(std::string_view rest) : rest_(rest) {}

  Pickle pickle() {
    std::size_t size = 0;
    Pickle result = read_object_pickle(rest_, &size);
    rest_.remove_prefix(size);
    return result;
  }
  std::string_view bytes(std::uint64_t count) {
    if (count > rest_.size()) throw Malformed("it is cut short");
    const std::string_view result = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return result;
  }
  std::uint64_t number() {
    std::uint64_t result = 0;
    std::memcpy(&result, bytes(sizeof result).data(), sizeof result);
    return result;
  }

 private:
  std::string_view rest_;
};

void check_version(const Pickle& pickle) {
  const auto* version = std::get_if<std::int64_t>(&pickle[pickle.root]);
  if (!version || *version != kVersion) throw Malformed("its format has an unknown version");
}

void check_byte_order(const Pickle& pickle) {
  const auto* machine = std::get_if<PickleDict>(&pickle[pickle.root]);
  if (!machine) return;
  for (const auto& [key, value] : machine->items) {
    const auto* name = std::get_if<std::string>(&pickle[key]);
    const auto* is_so = std::get_if<bool>(&pickle[value]);
    if (name && is_so && *name == "little_endian" && !*is_so) throw Malformed("its byte order is not this machine's");
  }
}

}  // namespace

bool looks_like_legacy_torch_file(std::string_view bytes) {
  return bytes.starts_with('\x80') && bytes.substr(0, kMagicPickleMax).find(kMagic) != std::string_view::npos;
}

LegacyTorchFile read_legacy_torch_file(std::string_view bytes) {
  LegacyReader reader(bytes);
  reader.pickle();
  check_version(reader.pickle());
  check_byte_order(reader.pickle());
  LegacyTorchFile file{.pickle = reader.pickle(), .storages = {}};
  const Pickle keys = reader.pickle();
  const auto* list = std::get_if<PickleList>(&keys[keys.root]);
  if (!list) throw Malformed("it has no list of its storages");
  std::map<std::string_view, const PickleStorage*> known;
  for (const PickleStorage& storage : file.pickle.storages) known.emplace(storage.key, &storage);
  for (const NodeId id : list->items) {
    const auto* key = std::get_if<std::string>(&keys[id]);
    const auto storage = key ? known.find(*key) : known.end();
    if (storage == known.end()) throw Malformed("a storage of it is of a type that is not read");
    const std::uint64_t count = reader.number();
    if (count != static_cast<std::uint64_t>(storage->second->count)) throw Malformed("a storage has two sizes");
    file.storages[*key] = reader.bytes(count * bytes_of(storage->second->type));
  }
  return file;
}

}  // namespace ddprun
