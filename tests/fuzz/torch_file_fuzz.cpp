// A file of torch.save() as far as it is read without LibTorch: the archive, and the pickle in it; or a pickle alone,
// or a file of the format before PyTorch 1.6.
#include <variant>

#include "tests/fuzz/fuzz.h"
#include "trainer/ddp/snapshot/archive.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/legacy_torch_file.h"
#include "trainer/ddp/snapshot/pickle.h"
#include "trainer/ddp/snapshot/weights_in_pickle.h"

using namespace ddprun;
using namespace ddprun::fuzz;

namespace {

// As one who knows nothing of nodes that are used twice.
struct Walk {
  const Pickle& pickle;
  std::size_t nodes = 0;

  void visit(NodeId id, std::size_t depth) {
    promise(id < pickle.nodes.size(), "a node is there");
    promise(depth <= kPickleDepthMax && ++nodes <= kPickleNodesMax, "a walk is neither too deep nor too long");
    const PickleNode& node = pickle[id];
    promise(!std::holds_alternative<PickleName>(node) && !std::holds_alternative<StorageId>(node),
            "what is met is a value");
    if (const auto* tuple = std::get_if<PickleTuple>(&node))
      for (const NodeId item : tuple->items) visit(item, depth + 1);
    if (const auto* list = std::get_if<PickleList>(&node))
      for (const NodeId item : list->items) visit(item, depth + 1);
    if (const auto* dict = std::get_if<PickleDict>(&node))
      for (const auto& [key, value] : dict->items) {
        visit(key, depth + 1);
        visit(value, depth + 1);
      }
    if (const auto* id_of_tensor = std::get_if<TensorId>(&node))
      promise(id_of_tensor->index < pickle.tensors.size(), "a tensor is there");
  }
};

void read_values(std::string_view bytes) {
  const Pickle pickle = read_pickle(bytes);
  Walk{pickle}.visit(pickle.root, 1);
  for (const PickleTensor& tensor : pickle.tensors) {
    promise(tensor.storage < pickle.storages.size(), "a tensor has a storage");
    promise(tensor.size.size() == tensor.stride.size(), "and as many strides as sizes");
  }
}

void find_all(const Pickle& pickle) {
  for (const FoundTensor& found : find_weights(pickle).tensors)
    promise(found.tensor < pickle.tensors.size(), "a tensor that is found is there");
}

// As weights are read, of which less is demanded.
void read_weights(std::string_view bytes) try {
  looks_like_legacy_torch_file(bytes) ? find_all(read_legacy_torch_file(bytes).pickle)
                                      : find_all(read_object_pickle(bytes));
} catch (const Malformed&) {
}

}  // namespace

DDPRUN_FUZZER(torch_file) try {
  const std::string text = fuzz::text_of(data, size);
  if (!text.starts_with("PK")) {
    read_weights(text);
    read_values(text);
    return 0;
  }
  const Archive archive(text);
  std::size_t total = 0;
  for (const Archive::Record& record : archive.records()) {
    promise(record.bytes.data() >= text.data() && record.bytes.data() + record.bytes.size() <= text.data() + size,
            "a record lies in its file");
    total += record.bytes.size();
  }
  promise(total < size, "all records together are smaller than their file");
  if (const auto* pickle = archive.find("data.pkl")) {
    read_weights(pickle->bytes);
    read_values(pickle->bytes);
  }
  return 0;
} catch (const Malformed&) {  // one sentence for a person
  return 0;
}
