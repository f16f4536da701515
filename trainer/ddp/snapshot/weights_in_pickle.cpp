#include "trainer/ddp/snapshot/weights_in_pickle.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "trainer/ddp/snapshot/damaged.h"

namespace ddprun {
namespace {

// Under which checkpoints store the weights; of several the first, so averaged weights only if there are no others.
constexpr std::array kStateKeys{
    "MODEL_STATE", "model_state_dict", "state_dict",  "model",          "module",         "net",
    "network",     "weights",          "model_state", "net_state",      "net_state_dict", "params",
    "params_ema",  "state_dict_ema",   "model_ema",   "ema_state_dict", "ema_model",      "ema"};
constexpr std::size_t kWrappersMax = 4;         // dictionaries in dictionaries
constexpr std::size_t kModulesMax = 1'000'000;  // visited: a pickle's graph may share them
constexpr std::size_t kTensorNameMax = 4096;
constexpr std::string_view kTorchScript = "__torch__.";

using Items = std::vector<std::pair<NodeId, NodeId>>;
using Tensors = std::vector<FoundTensor>;

class Finder {
 public:
  explicit Finder(const Pickle& pickle) : pickle_(pickle) {}

  FoundWeights run() {
    FoundWeights found;
    search(pickle_.root, "", found);
    return found;
  }

 private:
  template <class T>
  const T* get(NodeId id) const {
    return id == PickleObject::kNone ? nullptr : std::get_if<T>(&pickle_[id]);
  }

  // Of a dict, or an object's attributes.
  const Items* items_of(NodeId id) const {
    if (const auto* dict = get<PickleDict>(id)) return &dict->items;
    const auto* object = get<PickleObject>(id);
    if (!object) return nullptr;
    if (!object->items.empty()) return &object->items;
    if (const auto* parts = get<PickleTuple>(object->state); parts && !parts->items.empty())
      return items_of_dict(parts->items[0]);  // with __slots__
    return items_of_dict(object->state);
  }
  const Items* items_of_dict(NodeId id) const {
    const auto* dict = get<PickleDict>(id);
    return dict ? &dict->items : nullptr;
  }
  NodeId value_of(const Items& items, std::string_view key) const {
    NodeId found = PickleObject::kNone;
    for (const auto& [name, value] : items)
      if (const auto* text = get<std::string>(name); text && *text == key) found = value;
    return found;
  }

  Tensors tensors_of(NodeId id) {
    Tensors found;
    const Items* items = items_of(id);
    if (!items) return found;
    if (is_script(id) || is_module(*items)) {
      add_module(id, "", 0, found);
      return found;
    }
    for (const auto& [key, value] : *items)
      if (const auto* name = get<std::string>(key)) add(*name, value, found);
    return found;
  }
  void add(const std::string& name, NodeId value, Tensors& found) const {
    const auto* tensor = get<TensorId>(value);
    if (!tensor || name.size() > kTensorNameMax) return;
    if (found.size() == kModulesMax) throw Malformed("it has too many named tensors");
    found.push_back({name, tensor->index});
  }
  bool is_script(NodeId id) const {
    const auto* object = get<PickleObject>(id);
    return object && object->type.starts_with(kTorchScript);
  }
  bool is_module(const Items& attributes) const { return value_of(attributes, "_modules") != PickleObject::kNone; }

  void add_module(NodeId id, const std::string& prefix, std::size_t depth, Tensors& found) {
    const Items* attributes = items_of(id);
    if (!attributes) return;
    if (depth > kPickleDepthMax || prefix.size() > kTensorNameMax || ++visited_ > kModulesMax)
      throw Malformed("its modules are too many or nested too deeply");
    if (is_script(id)) {
      add_attributes(*attributes, prefix, found);
      for (const auto& [key, value] : *attributes)
        if (const auto* name = get<std::string>(key); name && is_script(value))
          add_module(value, prefix + *name + ".", depth + 1, found);
      return;
    }
    if (const Items* parameters = items_of(value_of(*attributes, "_parameters")))
      add_attributes(*parameters, prefix, found);
    if (const Items* buffers = items_of(value_of(*attributes, "_buffers")))
      add_attributes(*buffers, prefix, found, elements_of(value_of(*attributes, "_non_persistent_buffers_set")));
    if (const Items* children = items_of(value_of(*attributes, "_modules")))
      for (const auto& [key, value] : *children)
        if (const auto* name = get<std::string>(key)) add_module(value, prefix + *name + ".", depth + 1, found);
  }
  void add_attributes(const Items& attributes, const std::string& prefix, Tensors& found,
                      const std::set<std::string>& except = {}) const {
    for (const auto& [key, value] : attributes)
      if (const auto* name = get<std::string>(key); name && !except.contains(*name)) add(prefix + *name, value, found);
  }
  // Of a set, by its own operations or as set([...]).
  std::set<std::string> elements_of(NodeId id) const {
    std::set<std::string> elements;
    const auto* object = get<PickleObject>(id);
    if (!object) return elements;
    const auto add = [&](NodeId element) {
      if (const auto* text = get<std::string>(element)) elements.insert(*text);
    };
    for (const auto& [element, again] : object->items) add(element);
    if (const auto* given = get<PickleTuple>(object->arguments); given && !given->items.empty())
      if (const auto* list = get<PickleList>(given->items[0]))
        for (const NodeId element : list->items) add(element);
    return elements;
  }

  // In the entries of usual names, then in the whole, then in the only other entry that has tensors.
  void search(NodeId id, const std::string& entry, FoundWeights& found, std::size_t depth = 0) {
    const Items* items = searched_.insert(id).second ? items_of(id) : nullptr;
    if (!items) return;
    const bool is_model = is_script(id) || is_module(*items);
    if (!is_model && depth < kWrappersMax)
      for (const char* key : kStateKeys) {
        const NodeId value = value_of(*items, key);
        if (value == PickleObject::kNone) continue;
        search(value, entry.empty() ? key : entry + "." + key, found, depth + 1);
        if (!found.tensors.empty()) return;
      }
    found.tensors = tensors_of(id);
    found.entry = entry;
    if (!found.tensors.empty() || depth > 0) return;
    found.candidates.clear();
    for (const auto& [key, value] : *items) {
      const auto* name = get<std::string>(key);
      if (!name) continue;
      found.entries.push_back(*name);
      if (!tensors_of(value).empty()) found.candidates.push_back(*name);
    }
    if (found.candidates.size() != 1) return;
    found.entry = found.candidates[0];
    found.tensors = tensors_of(value_of(*items, found.entry));
  }

  const Pickle& pickle_;
  std::size_t visited_ = 0;
  std::set<NodeId> searched_;
};

}  // namespace

FoundWeights find_weights(const Pickle& pickle) { return Finder(pickle).run(); }

}  // namespace ddprun
