#include "trainer/data/cifar10_pickle.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "rendezvous/base/spelling.h"
#include "trainer/data/data_file.h"

namespace ddprun::train {
namespace {

constexpr std::int64_t kImage = std::int64_t{3} * 32 * 32, kClasses10 = 10;
constexpr int kOperationsMax = 2'500'000;  // a file of 10,000 images has about 50,000
constexpr std::uint8_t kProtocolMax = 4;

using Id = std::size_t;
struct Nothing {};  // None, and what only describes the array's type
struct Sequence {
  std::vector<Id> items;  // of a tuple or a list
};
struct Mapping {
  std::vector<std::pair<Id, Id>> items;
};
struct Callable {
  std::string name;
};
struct Array {
  std::vector<std::int64_t> shape;
  std::string_view bytes;
};
using PickleValue = std::variant<Nothing, std::int64_t, std::string_view, Sequence, Mapping, Callable, Array>;

// What is wrong, as the rest of a sentence about the file.
struct Trouble {
  std::string why;
};
[[noreturn]] void trouble(const std::string& why) { throw Trouble{why}; }

// Executes the pickle's operations one by one on a stack of values. Each makes one value at most, and their number is
// limited, so memory is bounded.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  const PickleValue& run() {
    int operations = 0;
    while (step(number<std::uint8_t>()))
      if (++operations > kOperationsMax) trouble("it has more values than files of CIFAR-10 have");
    return values_[pop()];
  }
  const PickleValue& operator[](Id id) const { return values_[id]; }

 private:
  static constexpr Id kMark = SIZE_MAX;

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) trouble("it is cut short");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) trouble("it is cut short");
    const std::string_view text = take(end - at_);
    ++at_;
    return text;
  }
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  void push(PickleValue value) {
    values_.push_back(std::move(value));
    stack_.push_back(values_.size() - 1);
  }
  Id pop() {
    if (stack_.empty() || stack_.back() == kMark) trouble("its stack has no value");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Id top() {
    stack_.push_back(pop());
    return stack_.back();
  }
  std::vector<Id> pop_many(std::size_t count) {
    std::vector<Id> ids(count);
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) *id = pop();
    return ids;
  }
  std::vector<Id> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) trouble("its stack has no mark");
    std::vector<Id> ids = pop_many(static_cast<std::size_t>(mark - stack_.rbegin()));
    stack_.pop_back();
    return ids;
  }
  template <class Type>
  Type& expect(Id id, const char* otherwise) {
    if (auto* value = std::get_if<Type>(&values_[id])) return *value;
    trouble(otherwise);
  }

  void remember(std::size_t place) { memo_[place] = top(); }
  void recall(std::size_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) trouble("it uses a value that it has not stored");
    stack_.push_back(found->second);
  }
  void append(const std::vector<Id>& items) {
    auto& list = expect<Sequence>(top(), "something that is no list gets elements").items;
    list.insert(list.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<Id>& pairs) {
    if (pairs.size() % 2) trouble("a dict gets a key without a value");
    auto& dict = expect<Mapping>(top(), "something that is no dict gets items").items;
    for (std::size_t i = 0; i < pairs.size(); i += 2) dict.emplace_back(pairs[i], pairs[i + 1]);
  }

  void push_callable(const std::string& name) {
    constexpr std::string_view kKnown[] = {"numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct",
                                           "numpy.ndarray", "numpy.dtype"};
    if (name == "_codecs.encode")
      trouble("Python 3 has written it with protocol 2 or lower, which is not read (save it with protocol 4)");
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      trouble("it calls " + visible(name) + ", which an array of bytes does not need");
    push(Callable{name});
  }
  // An array gets its shape and bytes afterwards, by build().
  void reduce() {
    const auto& arguments = expect<Sequence>(pop(), "a call has no arguments").items;
    const auto& called = expect<Callable>(pop(), "it calls something that is no function").name;
    if (called.ends_with("_reconstruct")) return push(Array{});
    const auto* type = arguments.empty() ? nullptr : std::get_if<std::string_view>(&values_[arguments[0]]);
    if (called != "numpy.dtype" || !type || *type != "u1") trouble("its array is not one of bytes");
    push(Nothing{});
  }
  // (version, shape, type, in Fortran's order, bytes)
  void build() {
    const Id state = pop();
    auto* array = std::get_if<Array>(&values_[top()]);
    if (!array) return;  // further attributes of the type
    const auto& parts = expect<Sequence>(state, "its array has no contents").items;
    if (parts.size() != 5) trouble("its array has no contents");
    array->shape.clear();
    const auto& shape = expect<Sequence>(parts[1], "its array has no shape").items;
    if (shape.size() != 2) trouble("its array has not two dimensions");
    for (const Id size : shape) array->shape.push_back(expect<std::int64_t>(size, "its array has no shape"));
    if (expect<std::int64_t>(parts[3], "its array has no order") != 0) trouble("its array is in Fortran's order");
    array->bytes = expect<std::string_view>(parts[4], "its array has no bytes");
  }

  bool step(std::uint8_t operation) {
    switch (operation) {
      case 0x80:
        if (number<std::uint8_t>() > kProtocolMax)
          trouble("it is a pickle of protocol 5, which is not read (save it with protocol 4 or lower)");
        return true;
      case 0x95:
        take(8);
        return true;  // a frame's length
      case '.':
        return false;
      case '(':
        stack_.push_back(kMark);
        return true;
      case '0':
        pop();
        return true;
      case 'N':
        return push(Nothing{}), true;
      case 0x88:
        return push(std::int64_t{1}), true;
      case 0x89:
        return push(std::int64_t{0}), true;
      case 'K':
        return push(std::int64_t{number<std::uint8_t>()}), true;
      case 'M':
        return push(std::int64_t{number<std::uint16_t>()}), true;
      case 'J':
        return push(std::int64_t{number<std::int32_t>()}), true;
      case 'U':
      case 'C':
      case 0x8c:
        return push(take(number<std::uint8_t>())), true;
      case 'T':
      case 'B':
      case 'X':
        return push(take(number<std::uint32_t>())), true;
      case 0x8d:
      case 0x8e:
        return push(take(number<std::uint64_t>())), true;
      case ')':
      case ']':
        return push(Sequence{}), true;
      case '}':
        return push(Mapping{}), true;
      case 't':
      case 'l':
        return push(Sequence{pop_to_mark()}), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return push(Sequence{pop_many(operation - 0x84U)}), true;
      case 'a':
        return append(pop_many(1)), true;
      case 'e':
        return append(pop_to_mark()), true;
      case 's':
        return set_items(pop_many(2)), true;
      case 'u':
        return set_items(pop_to_mark()), true;
      case 'q':
        return remember(number<std::uint8_t>()), true;
      case 'r':
        return remember(number<std::uint32_t>()), true;
      case 0x94:
        return remember(memo_.size()), true;
      case 'h':
        return recall(number<std::uint8_t>()), true;
      case 'j':
        return recall(number<std::uint32_t>()), true;
      case 'c': {
        const std::string module(line());
        return push_callable(module + "." + std::string(line())), true;
      }
      case 0x93: {
        const auto names = pop_many(2);
        return push_callable(std::string(expect<std::string_view>(names[0], "it calls something without a name")) +
                             "." +
                             std::string(expect<std::string_view>(names[1], "it calls something without a name"))),
               true;
      }
      case 'R':
        return reduce(), true;
      case 'b':
        return build(), true;
      default:
        trouble("it is not a pickle of the kind that CIFAR-10's files are");
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::deque<PickleValue> values_;
  std::vector<Id> stack_;
  std::map<std::size_t, Id> memo_;
};

template <class Type>
const Type& entry(const PickleMachine& pickle, const Mapping& dict, std::string_view key) {
  for (const auto& [name, value] : dict.items)
    if (const auto* text = std::get_if<std::string_view>(&pickle[name]); text && *text == key)
      if (const auto* found = std::get_if<Type>(&pickle[value])) return *found;
  trouble("it has no '" + std::string(key) + "' as CIFAR-10's files do");
}

void append_contents(Images& images, PickleMachine& pickle) {
  const auto* dict = std::get_if<Mapping>(&pickle.run());
  if (!dict) trouble("it holds no dict");
  const auto& data = entry<Array>(pickle, *dict, "data");
  const auto& labels = entry<Sequence>(pickle, *dict, "labels").items;
  const auto count = static_cast<std::int64_t>(labels.size());
  if (data.shape != std::vector<std::int64_t>{count, kImage} ||
      data.bytes.size() != static_cast<std::size_t>(count * kImage))
    trouble("its 'data' are not " + std::to_string(count) + " images of 3072 bytes, one for each of its labels");
  if (count == 0) trouble("it has no images");
  std::vector<std::int64_t> numbers;
  for (const Id label : labels) {
    const auto* number = std::get_if<std::int64_t>(&pickle[label]);
    if (!number || *number < 0 || *number >= kClasses10)
      trouble("label " + std::to_string(numbers.size()) + " is not a number from 0 to 9");
    numbers.push_back(*number);
  }
  images.pixels.insert(images.pixels.end(), data.bytes.begin(), data.bytes.end());
  images.labels.insert(images.labels.end(), numbers.begin(), numbers.end());
}

}  // namespace

void append_cifar10_pickle(Images& images, const std::vector<std::uint8_t>& bytes, const std::string& name) try {
  PickleMachine pickle({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  append_contents(images, pickle);
} catch (const Trouble& found) {
  throw malformed_data(name, found.why);
}

}  // namespace ddprun::train
