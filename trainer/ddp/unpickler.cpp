#include "trainer/ddp/unpickler.h"

#include <torch/torch.h>

#include <bit>
#include <cstring>
#include <map>
#include <stdexcept>
#include <variant>

namespace ddprun {
namespace {

using c10::IValue;
using Dict = c10::impl::GenericDict;
using List = c10::impl::GenericList;

// What stands on the pickle machine's stack: a mark, a name to be called, or a value. A tuple stays open until it is
// used, because that of a storage holds a name among its values.
struct Mark {};
struct Global {
  std::string name;
};
struct Item;
using OpenTuple = std::vector<Item>;
struct Item {
  std::variant<Mark, Global, IValue, OpenTuple> content;
};

const std::map<std::string, at::ScalarType> kStorageTypes{
    {"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},     {"torch.HalfStorage", at::kHalf},
    {"torch.LongStorage", at::kLong},   {"torch.BFloat16Storage", at::kBFloat16}, {"torch.IntStorage", at::kInt},
    {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},         {"torch.ByteStorage", at::kByte},
    {"torch.BoolStorage", at::kBool}};

constexpr const char* kOrderedDict = "collections.OrderedDict";
constexpr const char* kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr const char* kSize = "torch.Size";

bool is_known(const std::string& name) {
  return name == kOrderedDict || name == kRebuildTensor || name == kRebuildParameter || name == kSize ||
         kStorageTypes.count(name);
}

IValue value_of(const Item& item);

IValue closed(const OpenTuple& tuple) {
  std::vector<IValue> values;
  for (const auto& item : tuple) values.push_back(value_of(item));
  return c10::ivalue::Tuple::create(std::move(values));
}

IValue value_of(const Item& item) {
  if (const auto* value = std::get_if<IValue>(&item.content)) return *value;
  if (const auto* tuple = std::get_if<OpenTuple>(&item.content)) return closed(*tuple);
  throw std::runtime_error("a name or a mark stands where a value should");
}

class Unpickler {
 public:
  Unpickler(const std::string& pickle, const StorageReader& storage) : pickle_(pickle), read_storage_(storage) {}

  IValue run() {
    try {
      while (step(number<std::uint8_t>())) {
      }
      return value_of(pop());
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(error.what()) + " (its pickle, byte " + std::to_string(at_) + ")");
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& why) { throw std::runtime_error(why); }

  std::string bytes(std::size_t count) {
    if (count > pickle_.size() - at_) fail("it is cut short");
    at_ += count;
    return pickle_.substr(at_ - count, count);
  }
  std::string text_line() {
    const auto end = pickle_.find('\n', at_);
    if (end == std::string::npos) fail("it is cut short");
    const std::string line = bytes(end - at_);
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
    if (count > 8) fail("a whole number has more than 64 bits");
    const std::string digits = bytes(count);
    std::int64_t result = count && (digits.back() & 0x80) ? -1 : 0;
    std::memcpy(&result, digits.data(), count);
    return result;
  }
  double big_endian_double() { return std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>())); }

  void push(Item item) { stack_.push_back(std::move(item)); }
  void push(IValue value) { stack_.push_back({std::move(value)}); }
  Item& top() {
    if (stack_.empty()) fail("its stack is empty");
    return stack_.back();
  }
  Item pop() {
    Item result = std::move(top());
    stack_.pop_back();
    return result;
  }
  OpenTuple pop_to_mark() {
    std::size_t count = 0;
    while (count < stack_.size() && !std::holds_alternative<Mark>(stack_[stack_.size() - 1 - count].content)) ++count;
    OpenTuple items = pop_many(count);
    pop();
    return items;
  }
  OpenTuple pop_many(std::size_t count) {
    if (count > stack_.size()) fail("its stack is empty");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    OpenTuple items(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    return items;
  }

  void set_items(const OpenTuple& pairs) {
    const IValue dict = value_of(top());
    if (!dict.isGenericDict() || pairs.size() % 2) fail("something that is no dict gets items");
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      const IValue key = value_of(pairs[i]);
      if (!key.isString() && !key.isInt()) fail("a dict's key is neither text nor a whole number");
      dict.toGenericDict().insert_or_assign(key, value_of(pairs[i + 1]));
    }
  }
  void append(const OpenTuple& items) {
    const IValue list = value_of(top());
    if (!list.isList()) fail("something that is no list gets elements");
    for (const auto& item : items) list.toList().push_back(value_of(item));
  }

  void push_global() {
    const std::string module = text_line(), name = module + "." + text_line();
    if (!is_known(name)) fail("it wants to call " + name + ", which is not data");
    push(Item{Global{name}});
  }

  // ("storage", type, key, device, element count)
  at::Tensor storage(const Item& id) {
    const auto* tuple = std::get_if<OpenTuple>(&id.content);
    if (!tuple || tuple->size() != 5) fail("a storage is not described as one");
    const auto* type_name = std::get_if<Global>(&(*tuple)[1].content);
    const auto type = type_name ? kStorageTypes.find(type_name->name) : kStorageTypes.end();
    if (type == kStorageTypes.end()) fail("a storage has no type");
    const std::string key = value_of((*tuple)[2]).toStringRef();
    const std::int64_t count = value_of((*tuple)[4]).toInt();
    auto& loaded = storages_[key];
    if (!loaded.defined()) loaded = load_storage(key, type->second, count);
    if (loaded.scalar_type() != type->second || loaded.numel() != count) fail("a storage is described in two ways");
    return loaded;
  }
  at::Tensor load_storage(const std::string& key, at::ScalarType type, std::int64_t count) {
    auto [data, size] = read_storage_(key);
    if (count < 0 || size / at::elementSize(type) < static_cast<std::size_t>(count))
      fail("a storage is smaller than it should be");
    at::Storage memory(at::Storage::use_byte_size_t(), static_cast<std::int64_t>(size), std::move(data), nullptr,
                       /*resizable=*/false);
    return torch::empty({0}, type).set_(memory, 0, {count}, {1});
  }

  // (storage, offset, size, stride, ...)
  static at::Tensor rebuild_tensor(const std::vector<IValue>& arguments) {
    const at::Tensor memory = arguments.at(0).toTensor();
    const std::int64_t offset = arguments.at(1).toInt();
    const auto size = whole_numbers(arguments.at(2)), stride = whole_numbers(arguments.at(3));
    if (offset < 0 || size.size() != stride.size()) fail("a tensor's shape makes no sense");
    __int128 last = offset;
    bool empty = false;
    for (std::size_t i = 0; i < size.size(); ++i) {
      if (size[i] < 0 || stride[i] < 0) fail("a tensor's shape makes no sense");
      empty = empty || size[i] == 0;
      last += static_cast<__int128>(size[i] - 1) * stride[i];
    }
    if (!empty && last >= memory.numel()) fail("a tensor reaches outside its storage");
    return empty ? torch::empty(size, memory.scalar_type()) : memory.as_strided(size, stride, offset);
  }
  static std::vector<std::int64_t> whole_numbers(const IValue& tuple) {
    std::vector<std::int64_t> result;
    for (const auto& element : tuple.toTupleRef().elements()) result.push_back(element.toInt());
    return result;
  }

  void call() {
    const IValue arguments = value_of(pop());
    const Item callee = pop();
    const auto* global = std::get_if<Global>(&callee.content);
    if (!global || !arguments.isTuple()) fail("it calls something that has no name");
    const auto& values = arguments.toTupleRef().elements().vec();
    if (global->name == kOrderedDict) return push(IValue(Dict(c10::AnyType::get(), c10::AnyType::get())));
    if (global->name == kRebuildTensor) return push(IValue(rebuild_tensor(values)));
    if (global->name == kRebuildParameter || global->name == kSize) return push(values.at(0));
    fail("it calls " + global->name);
  }

  template <class Index>
  void remember() {
    memo_[number<Index>()] = top();
  }
  template <class Index>
  void recall() {
    push(memo_.at(number<Index>()));
  }

  // One operation; false for the last. Names and codes: CPython's pickle.py.
  bool step(std::uint8_t operation) {
    switch (operation) {
      // clang-format off
      case 0x80: number<std::uint8_t>(); break;                                       // PROTO
      case 'c': push_global(); break;                                                 // GLOBAL
      case 'q': remember<std::uint8_t>(); break;                                      // BINPUT
      case 'r': remember<std::uint32_t>(); break;                                     // LONG_BINPUT
      case 'h': recall<std::uint8_t>(); break;                                        // BINGET
      case 'j': recall<std::uint32_t>(); break;                                       // LONG_BINGET
      case '(': push(Item{Mark{}}); break;                                            // MARK
      case 't': push(Item{pop_to_mark()}); break;                                     // TUPLE
      case ')': push(Item{pop_many(0)}); break;                                       // EMPTY_TUPLE
      case 0x85: push(Item{pop_many(1)}); break;                                      // TUPLE1
      case 0x86: push(Item{pop_many(2)}); break;                                      // TUPLE2
      case 0x87: push(Item{pop_many(3)}); break;                                      // TUPLE3
      case '}': push(IValue(Dict(c10::AnyType::get(), c10::AnyType::get()))); break;  // EMPTY_DICT
      case ']': push(IValue(List(c10::AnyType::get()))); break;                       // EMPTY_LIST
      case 'a': append(pop_many(1)); break;                                           // APPEND
      case 'e': append(pop_to_mark()); break;                                         // APPENDS
      case 's': set_items(pop_many(2)); break;                                        // SETITEM
      case 'u': set_items(pop_to_mark()); break;                                      // SETITEMS
      case 'b': pop(); break;                                                         // BUILD
      case 'J': push(IValue(std::int64_t{number<std::int32_t>()})); break;            // BININT
      case 'K': push(IValue(std::int64_t{number<std::uint8_t>()})); break;            // BININT1
      case 'M': push(IValue(std::int64_t{number<std::uint16_t>()})); break;           // BININT2
      case 0x8a: push(IValue(long_number())); break;                                  // LONG1
      case 'G': push(IValue(big_endian_double())); break;                             // BINFLOAT
      case 'X': push(IValue(bytes(number<std::uint32_t>()))); break;                  // BINUNICODE
      case 'N': push(IValue()); break;                                                // NONE
      case 0x88: push(IValue(true)); break;                                           // NEWTRUE
      case 0x89: push(IValue(false)); break;                                          // NEWFALSE
      case 'Q': push(IValue(storage(pop()))); break;                                  // BINPERSID
      case 'R': call(); break;                                                        // REDUCE
      case '.': return false;                                                         // STOP
      // clang-format on
      default:
        fail("it uses the pickle operation " + std::to_string(operation) + ", which torch.save does not");
    }
    return true;
  }

  const std::string& pickle_;
  const StorageReader& read_storage_;
  std::size_t at_ = 0;
  std::vector<Item> stack_;
  std::map<std::uint32_t, Item> memo_;
  std::map<std::string, at::Tensor> storages_;
};

}  // namespace

IValue unpickle(const std::string& pickle, const StorageReader& storage) { return Unpickler(pickle, storage).run(); }

}  // namespace ddprun
