#include "trainer/ddp/snapshot/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "rendezvous/base/spelling.h"
#include "trainer/ddp/snapshot/damaged.h"

namespace ddprun {
namespace {

constexpr std::size_t kDimensionsMax = 64;    // PyTorch's own
constexpr std::size_t kTensorsMax = 1 << 20;  // each takes LibTorch some hundred bytes
constexpr std::size_t kUsesMin = 1 << 16,
                      kUsesPerByteMax = 16;            // of nodes; what torch.save writes has less than 1 per byte
constexpr std::uint64_t kExpandedBytesMax = 64 << 20;  // of a tensor whose elements overlap

struct StorageKind {
  std::string_view name;
  Element type;
  std::size_t bytes;
};

constexpr std::array<StorageKind, 10> kStorageKinds{{{"torch.FloatStorage", Element::f32, 4},
                                                     {"torch.DoubleStorage", Element::f64, 8},
                                                     {"torch.HalfStorage", Element::f16, 2},
                                                     {"torch.BFloat16Storage", Element::bf16, 2},
                                                     {"torch.LongStorage", Element::i64, 8},
                                                     {"torch.IntStorage", Element::i32, 4},
                                                     {"torch.ShortStorage", Element::i16, 2},
                                                     {"torch.CharStorage", Element::i8, 1},
                                                     {"torch.ByteStorage", Element::u8, 1},
                                                     {"torch.BoolStorage", Element::boolean, 1}}};

// These follow the numbers of the storages.
constexpr std::size_t kOrderedDict = kStorageKinds.size(), kRebuildTensor = kOrderedDict + 1,
                      kRebuildParameter = kOrderedDict + 2, kSize = kOrderedDict + 3;
constexpr std::array<std::string_view, 4> kCallables{"collections.OrderedDict", "torch._utils._rebuild_tensor_v2",
                                                     "torch._utils._rebuild_parameter", "torch.Size"};
// Other names of the same, in files that read_pickle() need not read: of PyTorch 0.1 to 0.3, and of subclasses of
// tensors.
constexpr std::array<std::pair<std::string_view, std::size_t>, 6> kSynonyms{
    {{"torch._utils._rebuild_tensor", kRebuildTensor},
     {"torch._utils._rebuild_parameter_with_state", kRebuildParameter},
     {"torch.nn.parameter.Parameter", kRebuildParameter},
     {"torch.nn.parameter.Buffer", kRebuildParameter},
     {"torch.autograd.variable.Variable", kRebuildParameter},
     {"torch.nn.parameter.UninitializedParameter", kRebuildParameter}}};
constexpr std::string_view kOfCuda = "torch.cuda.", kOfType = "torch._tensor._rebuild_from_type_v2";
constexpr std::size_t kUnknown = SIZE_MAX;

std::optional<std::size_t> find_known(const std::string& name) {
  for (std::size_t i = 0; i < kStorageKinds.size(); ++i)
    if (kStorageKinds[i].name == name) return i;
  for (std::size_t i = 0; i < kCallables.size(); ++i)
    if (kCallables[i] == name) return kOrderedDict + i;
  return std::nullopt;
}

std::size_t find_any(const std::string& name) {
  for (const auto& [synonym, known] : kSynonyms)
    if (synonym == name) return known;
  return find_known(name.starts_with(kOfCuda) ? "torch." + name.substr(kOfCuda.size()) : name).value_or(kUnknown);
}

[[noreturn]] void malformed(const std::string& why) { throw Malformed(why); }

// The pickle machine: executes operations one by one on a stack of values.
class Machine {
 public:
  enum class Objects { refused, kept };
  explicit Machine(std::string_view bytes, Objects objects) : bytes_(bytes), keeps_(objects == Objects::kept) {}

  std::size_t size() const { return at_; }
  Pickle run() {
    try {
      while (step(number<std::uint8_t>())) {
      }
      out_.root = pop();
    } catch (const Malformed& error) {
      malformed(std::string(error.what()) + " (its pickle, byte " + std::to_string(at_) + ")");
    }
    return std::move(out_);
  }

 private:
  static constexpr NodeId kMark = UINT32_MAX;

  std::string_view bytes(std::size_t count) {
    if (count > bytes_.size() - at_) malformed("it is cut short");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::string_view text_line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) malformed("it is cut short");
    const std::string_view line = bytes(end - at_);
    ++at_;
    return line;
  }
  template <class T>
  T number() {
    T result;
    std::memcpy(&result, bytes(sizeof result).data(), sizeof result);
    return result;
  }
  std::int64_t long_number() {
    const auto count = number<std::uint8_t>();
    return long_number(count);
  }
  std::int64_t long_number(std::size_t count) {
    const std::string_view all = bytes(count), digits = all.substr(0, 8);
    if (count > 8 && !keeps_) malformed("a whole number has more than 64 bits");
    count = digits.size();
    std::int64_t result = count && (digits.back() & 0x80) ? -1 : 0;
    std::memcpy(&result, digits.data(), count);
    return result;
  }
  double big_endian_double() { return std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>())); }

  void push(NodeId id) { stack_.push_back(id); }
  void push_new(PickleNode node) {
    if (out_.nodes.size() == kPickleNodesMax)
      malformed("it has more than " + std::to_string(kPickleNodesMax) + " values");
    out_.nodes.push_back(std::move(node));
    push(static_cast<NodeId>(out_.nodes.size() - 1));
  }
  NodeId top() const {
    if (stack_.empty() || stack_.back() == kMark) malformed("its stack has no value");
    return stack_.back();
  }
  NodeId pop() {
    const NodeId id = top();
    stack_.pop_back();
    return id;
  }
  std::vector<NodeId> pop_many(std::size_t count) {
    if (count > stack_.size()) malformed("its stack has no value");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<NodeId> ids(first, stack_.end());
    if (std::find(ids.begin(), ids.end(), kMark) != ids.end()) malformed("its stack has no value");
    stack_.erase(first, stack_.end());
    return ids;
  }
  std::vector<NodeId> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) malformed("its stack has no mark");
    std::vector<NodeId> ids = pop_many(static_cast<std::size_t>(mark - stack_.rbegin()));
    stack_.pop_back();
    return ids;
  }
  template <class T>
  T* get(NodeId id) {
    return std::get_if<T>(&out_.nodes[id]);
  }
  template <class T>
  T& expect(NodeId id, const char* otherwise) {
    if (T* value = get<T>(id)) return *value;
    malformed(otherwise);
  }

  void set_items(const std::vector<NodeId>& pairs) {
    if (auto* object = get<PickleObject>(top())) {
      for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) object->items.emplace_back(pairs[i], pairs[i + 1]);
      return;
    }
    auto& dict = expect<PickleDict>(top(), "something that is not a dict gets items");
    if (pairs.size() % 2) malformed("a dict gets a key without a value");
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      if (!keeps_ && !get<std::string>(pairs[i]) && !get<std::int64_t>(pairs[i]))
        malformed("a dict's key is neither text nor a whole number");
      dict.items.emplace_back(pairs[i], pairs[i + 1]);
    }
  }
  void append(const std::vector<NodeId>& items) {
    if (get<PickleObject>(top())) return;  // a subclass of list
    auto& list = expect<PickleList>(top(), "something that is not a list gets elements");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }

  void push_name() {
    const std::string module(text_line());
    push_name(module + "." + std::string(text_line()));
  }
  void push_name(const std::string& name) {
    if (keeps_) {
      const std::size_t known = find_any(name);
      return push_new(PickleName{known, known == kUnknown ? name : ""});
    }
    const auto known = find_known(name);
    if (!known) malformed("it calls " + visible(name) + ", which is not data");
    push_new(PickleName{*known});
  }

  // What read_pickle() refuses: ("module", class, file, source), storages of other types, and views of storages.
  bool push_other_storage(const PickleTuple& parts) {
    const auto* kind = parts.items.empty() ? nullptr : get<std::string>(parts.items[0]);
    if (kind && *kind == "module" && parts.items.size() > 1) return push(parts.items[1]), true;
    const bool is_view = parts.items.size() == 6 && !get<PickleNone>(parts.items[5]);
    const auto* type = parts.items.size() > 1 ? get<PickleName>(parts.items[1]) : nullptr;
    if (kind && *kind == "storage" && !is_view && type && type->known < kStorageKinds.size()) return false;
    return push_new(PickleObject{}), true;
  }

  // ("storage", type, key, device, element count), and before PyTorch 1.6 a view
  void push_storage(NodeId description) {
    const auto* parts = get<PickleTuple>(description);
    if (parts && keeps_ && push_other_storage(*parts)) return;
    if (!parts || parts->items.size() < 5 || parts->items.size() > (keeps_ ? 6 : 5))
      malformed("a storage's description is invalid");
    const auto& type = expect<PickleName>(parts->items[1], "a storage has no type");
    if (type.known >= kStorageKinds.size()) malformed("a storage has no type");
    const auto& key = expect<std::string>(parts->items[2], "a storage has no key");
    const auto count = expect<std::int64_t>(parts->items[4], "a storage has no size");
    const StorageKind& kind = kStorageKinds[type.known];
    if (count < 0 || static_cast<std::uint64_t>(count) > UINT64_MAX / 2 / kind.bytes)
      malformed("a storage has no size");
    const auto [found, is_new] = storages_.emplace(key, out_.storages.size());
    if (is_new) out_.storages.push_back({key, kind.type, count});
    const PickleStorage& storage = out_.storages[found->second];
    if (storage.type != kind.type || storage.count != count) malformed("a storage is described in two ways");
    push_new(StorageId{found->second});
  }

  // (storage, offset, size, stride, ...)
  void push_tensor(const std::vector<NodeId>& arguments) {
    if (arguments.size() < 4) malformed("a tensor's description is invalid");
    if (get<PickleObject>(arguments[0])) return push_new(PickleObject{});
    const auto& memory = expect<StorageId>(arguments[0], "a tensor has no storage");
    PickleTensor tensor{memory.index, expect<std::int64_t>(arguments[1], "a tensor has no place in its storage"),
                        whole_numbers(arguments[2]), whole_numbers(arguments[3])};
    require_inside(tensor, out_.storages[memory.index]);
    if (out_.tensors.size() == kTensorsMax) malformed("it has more than " + std::to_string(kTensorsMax) + " tensors");
    out_.tensors.push_back(std::move(tensor));
    push_new(TensorId{out_.tensors.size() - 1});
  }
  static void require_inside(const PickleTensor& tensor, const PickleStorage& storage) {
    if (tensor.offset < 0 || tensor.size.size() != tensor.stride.size()) malformed("a tensor's shape makes no sense");
    const bool empty = std::count(tensor.size.begin(), tensor.size.end(), 0) > 0;
    const auto room =
        std::max<std::uint64_t>(static_cast<std::uint64_t>(storage.count) * bytes_of(storage.type), kExpandedBytesMax);
    __int128 last = tensor.offset;
    unsigned __int128 bytes = bytes_of(storage.type);  // an empty one counts like a nonempty one
    for (std::size_t i = 0; i < tensor.size.size(); ++i) {
      const std::int64_t size = tensor.size[i], stride = tensor.stride[i];
      if (size < 0 || stride < 0) malformed("a tensor's shape makes no sense");
      bytes *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
      if (bytes > room) malformed("a tensor is larger than its storage");
      last += static_cast<__int128>(size - 1) * stride;
    }
    if (!empty && last >= storage.count) malformed("a tensor reaches outside its storage");
  }
  std::vector<std::int64_t> whole_numbers(NodeId tuple) {
    const auto& items = expect<PickleTuple>(tuple, "a tensor's shape makes no sense").items;
    if (items.size() > kDimensionsMax)
      malformed("a tensor has more than " + std::to_string(kDimensionsMax) + " dimensions");
    std::vector<std::int64_t> result;
    for (const NodeId id : items) result.push_back(expect<std::int64_t>(id, "a tensor's shape makes no sense"));
    return result;
  }

  void call() {
    const NodeId given = pop(), callee = pop();
    call(callee, given);
  }
  void call(NodeId callee, NodeId given) {
    const auto* name = get<PickleName>(callee);
    const auto* arguments = get<PickleTuple>(given);
    if (keeps_ && (!name || !arguments || name->known == kUnknown || name->known < kStorageKinds.size()))
      return push_object(callee, given);
    if (!name || !arguments) malformed("it calls something that has no name");
    if (name->known == kOrderedDict) return push_new(PickleDict{});
    if (name->known == kRebuildTensor) return push_tensor(arguments->items);
    if (name->known != kRebuildParameter && name->known != kSize) malformed("it calls a type of storage");
    if (arguments->items.empty()) malformed("it calls something with too few arguments");
    push(arguments->items[0]);
  }
  void push_object(NodeId callee, NodeId given) {
    const auto* name = get<PickleName>(callee);
    const auto* arguments = get<PickleTuple>(given);
    // (function, type, arguments, state)
    if (name && name->name == kOfType && arguments && arguments->items.size() > 2 &&
        get<PickleName>(arguments->items[0]) && get<PickleName>(arguments->items[0])->known == kRebuildTensor)
      return call(arguments->items[0], arguments->items[2]);
    push_new(PickleObject{name ? name->name : "", given});
  }
  void build() {
    const NodeId state = pop();
    if (!keeps_) return;
    if (auto* object = get<PickleObject>(top())) object->state = state;
  }

  template <class Index>
  void remember() {
    memo_[number<Index>()] = top();
  }
  template <class Index>
  void recall() {
    const auto found = memo_.find(number<Index>());
    if (found == memo_.end()) malformed("it reads a memo entry that was never written");
    push(found->second);
  }

  // Executes one operation; false for the last. Names and codes: CPython's pickle.py.
  bool step(std::uint8_t operation) {
    switch (operation) {
      // clang-format off
      case 0x80: number<std::uint8_t>(); break;                           // PROTO
      case 'c': push_name(); break;                                       // GLOBAL
      case 'q': remember<std::uint8_t>(); break;                          // BINPUT
      case 'r': remember<std::uint32_t>(); break;                         // LONG_BINPUT
      case 'h': recall<std::uint8_t>(); break;                            // BINGET
      case 'j': recall<std::uint32_t>(); break;                           // LONG_BINGET
      case '(': push(kMark); break;                                       // MARK
      case 't': push_new(PickleTuple{pop_to_mark()}); break;              // TUPLE
      case ')': push_new(PickleTuple{}); break;                           // EMPTY_TUPLE
      case 0x85: push_new(PickleTuple{pop_many(1)}); break;               // TUPLE1
      case 0x86: push_new(PickleTuple{pop_many(2)}); break;               // TUPLE2
      case 0x87: push_new(PickleTuple{pop_many(3)}); break;               // TUPLE3
      case '}': push_new(PickleDict{}); break;                            // EMPTY_DICT
      case ']': push_new(PickleList{}); break;                            // EMPTY_LIST
      case 'a': append(pop_many(1)); break;                               // APPEND
      case 'e': append(pop_to_mark()); break;                             // APPENDS
      case 's': set_items(pop_many(2)); break;                            // SETITEM
      case 'u': set_items(pop_to_mark()); break;                          // SETITEMS
      case 'b': build(); break;                                           // BUILD
      case 'J': push_new(std::int64_t{number<std::int32_t>()}); break;    // BININT
      case 'K': push_new(std::int64_t{number<std::uint8_t>()}); break;    // BININT1
      case 'M': push_new(std::int64_t{number<std::uint16_t>()}); break;   // BININT2
      case 0x8a: push_new(long_number()); break;                          // LONG1
      case 'G': push_new(big_endian_double()); break;                     // BINFLOAT
      case 'X': push_new(std::string(bytes(number<std::uint32_t>()))); break;  // BINUNICODE
      case 'N': push_new(PickleNone{}); break;                            // NONE
      case 0x88: push_new(true); break;                                   // NEWTRUE
      case 0x89: push_new(false); break;                                  // NEWFALSE
      case 'Q': push_storage(pop()); break;                               // BINPERSID
      case 'R': call(); break;                                            // REDUCE
      case '.': return false;                                             // STOP
      // clang-format on
      default:
        if (keeps_ && step_of_objects(operation)) break;
        malformed("it uses the pickle operation " + std::to_string(operation) + ", which torch.save does not");
    }
    return true;
  }

  template <class Size>
  std::string text() {
    const auto size = number<Size>();
    return std::string(bytes(size));
  }
  void new_object(std::size_t arguments) {
    const std::vector<NodeId> ids = pop_many(1 + arguments);  // the class, its arguments, and maybe named ones
    const auto* name = get<PickleName>(ids[0]);
    if (name && name->known == kOrderedDict) return push_new(PickleDict{});
    push_object(ids[0], ids[1]);
  }
  void add_to_set(const std::vector<NodeId>& items) {
    auto& set = expect<PickleObject>(top(), "something that is not a set gets elements");
    for (const NodeId id : items) set.items.emplace_back(id, id);
  }
  void push_dict(const std::vector<NodeId>& pairs) {
    push_new(PickleDict{});
    set_items(pairs);
  }
  void push_frozen_set(const std::vector<NodeId>& items) {
    push_new(PickleObject{});
    add_to_set(items);
  }
  void push_name_of_stack() {
    const std::vector<NodeId> parts = pop_many(2);
    push_name(expect<std::string>(parts[0], "a name is not text") + "." +
              expect<std::string>(parts[1], "a name is not text"));
  }
  void drop() {
    if (stack_.empty()) malformed("its stack has no value");
    stack_.pop_back();
  }

  // Those of Python's own types and of later protocols.
  bool step_of_objects(std::uint8_t operation) {
    switch (operation) {
      // clang-format off
      case 0x81: new_object(1); break;                                    // NEWOBJ
      case 0x92: new_object(2); break;                                    // NEWOBJ_EX
      case 0x93: push_name_of_stack(); break;                             // STACK_GLOBAL
      case 0x94: memo_[static_cast<std::uint32_t>(memo_.size())] = top(); break;  // MEMOIZE
      case 0x95: number<std::uint64_t>(); break;                          // FRAME
      case 'U': case 'C': case 0x8c: push_new(text<std::uint8_t>()); break;   // SHORT_BINSTRING, _BINBYTES, _BINUNICODE
      case 'T': case 'B': push_new(text<std::uint32_t>()); break;         // BINSTRING, BINBYTES
      case 0x8d: case 0x8e: case 0x96: push_new(text<std::uint64_t>()); break;  // BINUNICODE8, BINBYTES8, BYTEARRAY8
      case 0x8b: push_new(long_number(number<std::uint32_t>())); break;   // LONG4
      case 0x8f: push_new(PickleObject{}); break;                         // EMPTY_SET
      case 0x90: add_to_set(pop_to_mark()); break;                        // ADDITEMS
      case 0x91: push_frozen_set(pop_to_mark()); break;                   // FROZENSET
      case 'd': push_dict(pop_to_mark()); break;                          // DICT
      case 'l': push_new(PickleList{pop_to_mark()}); break;               // LIST
      case '0': drop(); break;                                            // POP
      case '1': pop_to_mark(); break;                                     // POP_MARK
      case '2': push(top()); break;                                       // DUP
      // clang-format on
      default:
        return false;
    }
    return true;
  }

  std::string_view bytes_;
  const bool keeps_;
  std::size_t at_ = 0;
  std::vector<NodeId> stack_;
  std::map<std::uint32_t, NodeId> memo_;
  std::map<std::string, std::size_t> storages_;
  Pickle out_;
};

// The size of the tree below a node, counting each use of a node.
struct Extent {
  std::uint64_t nodes = 0, text = 0, depth = 0;
};

// Traverses the graph once, without recursion, and computes the size of its tree.
class TreeSizeCheck {
 public:
  TreeSizeCheck(const Pickle& pickle, std::size_t nodes_max)
      : pickle_(pickle), nodes_max_(nodes_max), seen_(pickle.nodes.size()) {}

  void run() {
    enter(pickle_.root);
    while (!path_.empty()) {
      Open& open = path_.back();
      if (open.next == open.children.size())
        leave();
      else
        visit(open.children[open.next++]);
    }
  }

 private:
  enum class State : std::uint8_t { unseen, open, done };
  struct Seen {
    State state = State::unseen;
    Extent extent = {};
  };
  struct Open {
    NodeId id;
    std::vector<NodeId> children;
    std::size_t next = 0;
  };

  std::vector<NodeId> children_of(NodeId id) const {
    const PickleNode& node = pickle_[id];
    if (std::holds_alternative<PickleName>(node) || std::holds_alternative<StorageId>(node))
      malformed("a name or a storage is in the place of a value");
    if (const auto* tuple = std::get_if<PickleTuple>(&node)) return tuple->items;
    if (const auto* list = std::get_if<PickleList>(&node)) return list->items;
    std::vector<NodeId> result;
    if (const auto* dict = std::get_if<PickleDict>(&node))
      for (const auto& [key, value] : dict->items) result.insert(result.end(), {key, value});
    return result;
  }
  void enter(NodeId id) {
    if (path_.size() == kPickleDepthMax)
      malformed("its values are nested more than " + std::to_string(kPickleDepthMax) + " deep");
    const auto* text = std::get_if<std::string>(&pickle_[id]);
    seen_[id] = {State::open, {1, text ? text->size() : 0, 1}};
    path_.push_back({id, children_of(id)});
  }
  void visit(NodeId id) {
    if (seen_[id].state == State::unseen) return enter(id);
    if (seen_[id].state == State::open) malformed("a value contains itself");
    add(seen_[id].extent);
  }
  void leave() {
    Seen& seen = seen_[path_.back().id];
    seen.state = State::done;
    path_.pop_back();
    if (!path_.empty()) add(seen.extent);
  }
  // Adds a child's to its parent's.
  void add(const Extent& child) {
    Extent& sum = seen_[path_.back().id].extent;
    sum.nodes += child.nodes;
    sum.text += child.text;
    sum.depth = std::max(sum.depth, child.depth + 1);
    if (sum.nodes > nodes_max_ || sum.text > kPickleTextMax || path_.size() + sum.depth - 1 > kPickleDepthMax)
      malformed("its values, counted at each use, are too many or nested too deeply");
  }

  const Pickle& pickle_;
  const std::size_t nodes_max_;
  std::vector<Seen> seen_;
  std::vector<Open> path_;
};

}  // namespace

std::size_t bytes_of(Element type) {
  const auto kind = std::find_if(kStorageKinds.begin(), kStorageKinds.end(),
                                 [&](const StorageKind& candidate) { return candidate.type == type; });
  return kind->bytes;
}

Pickle read_pickle(std::string_view bytes) {
  Pickle pickle = Machine(bytes, Machine::Objects::refused).run();
  TreeSizeCheck(pickle, std::min(kPickleNodesMax, kUsesMin + kUsesPerByteMax * bytes.size())).run();
  return pickle;
}

Pickle read_object_pickle(std::string_view bytes, std::size_t* size) {
  Machine machine(bytes, Machine::Objects::kept);
  Pickle pickle = machine.run();
  if (size) *size = machine.size();
  return pickle;
}

}  // namespace ddprun
