// Reads the pickle of a torch.save() file into a graph of plain data. It knows the few names that tensors and state
// dicts need, rejects every other, and calls nothing.
//
// Known: dict, OrderedDict (read as a dict), list, tuple, str, int up to 64 bits, float, bool, None, torch.Size,
// tensors and parameters. An object's attributes (BUILD, such as state_dict()._metadata) are dropped. Throws Malformed
// (damaged.h) for malformed bytes; every length is checked, and the limits below bound the memory to about 1 GB.
//
// read_object_pickle() reads any other object, too, as its class's name, arguments and attributes, and still calls
// nothing: whole modules, TorchScript, hyperparameters.
//
// Pure. A value that is used in several places is one node, so a small pickle gives a small graph; traversed as a tree,
// it has at most kPickleNodesMax nodes, fewer for a small one, and is never deeper than kPickleDepthMax.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

constexpr std::size_t kPickleNodesMax = 4 << 20;   // 100,000 tensors with optimizer state have 3 million
constexpr std::size_t kPickleDepthMax = 128;       // of nested values
constexpr std::size_t kPickleTextMax = 256 << 20;  // bytes of all strings, counting each use

enum class Element { f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean };
std::size_t bytes_of(Element type);

using NodeId = std::uint32_t;
struct PickleNone {};
struct PickleTuple {
  std::vector<NodeId> items;
};
struct PickleList {
  std::vector<NodeId> items;
};
struct PickleDict {
  std::vector<std::pair<NodeId, NodeId>> items;  // keys are strings or whole numbers; the last of equal ones counts
};
// The bytes that one or several tensors are views of.
struct PickleStorage {
  std::string key;  // its record's
  Element type = Element::f32;
  std::int64_t count = 0;
};
// Always within its storage.
struct PickleTensor {
  std::size_t storage = 0;  // in Pickle::storages
  std::int64_t offset = 0;
  std::vector<std::int64_t> size, stride;
};
struct TensorId {
  std::size_t index = 0;  // in Pickle::tensors
};
// A callable name, or its result that is not a value: in read_pickle() used only while the pickle is read.
struct PickleName {
  std::size_t known = 0;
  std::string name = {};  // read_object_pickle() only, and only if it is not known
};
struct StorageId {
  std::size_t index = 0;
};

// An object that is not plain data, as it was pickled: nothing was called to make it. A set has its elements as keys.
struct PickleObject {
  static constexpr NodeId kNone = UINT32_MAX;
  std::string type;  // "torch.nn.modules.linear.Linear"; empty: unknown
  NodeId arguments = kNone, state = kNone;
  std::vector<std::pair<NodeId, NodeId>> items = {};  // of a subclass of dict
};

using PickleNode = std::variant<PickleNone, bool, std::int64_t, double, std::string, PickleTuple, PickleList,
                                PickleDict, TensorId, PickleName, StorageId, PickleObject>;

struct Pickle {
  std::deque<PickleNode> nodes;  // grows without copying
  std::vector<PickleTensor> tensors;
  std::vector<PickleStorage> storages;
  NodeId root = 0;

  const PickleNode& operator[](NodeId id) const { return nodes[id]; }
};

Pickle read_pickle(std::string_view bytes);

// The graph may have cycles and be of any depth. Dicts may have keys of any kind. `size`, if given: of the pickle,
// behind which there may be more.
Pickle read_object_pickle(std::string_view bytes, std::size_t* size = nullptr);

}  // namespace ddprun
