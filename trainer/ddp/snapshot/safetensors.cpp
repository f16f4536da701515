#include "trainer/ddp/snapshot/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/weights_match.h"

namespace ddprun {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kHeaderBytesMax = 100'000'000;  // the Rust reader's
constexpr std::size_t kDimsMax = 64;                  // LibTorch's iterators support no more
constexpr int kDepthMax = 3;                          // the depth of a number in a tensor's shape
constexpr const char* kMetadata = "__metadata__";

// LibTorch lacks the other types (4 and 6 bits, scales of 8 bits).
constexpr std::array<std::pair<std::string_view, std::size_t>, 16> kTypes{{{"F64", 8},
                                                                           {"F32", 4},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I64", 8},
                                                                           {"I32", 4},
                                                                           {"I16", 2},
                                                                           {"I8", 1},
                                                                           {"U64", 8},
                                                                           {"U32", 4},
                                                                           {"U16", 2},
                                                                           {"U8", 1},
                                                                           {"BOOL", 1},
                                                                           {"F8_E4M3", 1},
                                                                           {"F8_E5M2", 1},
                                                                           {"C64", 8}}};

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

std::uint64_t length_of(std::string_view file) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(file[i])} << (8 * i);
  return length;
}

std::string_view header_of(std::string_view file) {
  if (file.size() < kLengthBytes) refuse("it is cut short");
  const std::uint64_t length = length_of(file);
  if (length > kHeaderBytesMax) refuse("its header would be of " + std::to_string(length) + " bytes");
  if (length > file.size() - kLengthBytes) refuse("it is cut short");
  return file.substr(kLengthBytes, length);
}

Json json_of(std::string_view header) {
  if (header.empty() || header.front() != '{') refuse("its header is not a JSON object");
  std::set<std::string> names;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDepthMax) refuse("its header is nested too deeply");
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      refuse("its header has " + printable(parsed.get<std::string>()) + " twice");
    return true;
  };
  try {
    return Json::parse(header.begin(), header.end(), watch);
  } catch (const Json::exception&) {
    refuse("its header is not JSON");
  }
}

std::int64_t whole_number(const Json& value, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX) refuse(what + " is not a size");
  return value.get<std::int64_t>();
}

std::size_t bytes_of(const std::vector<std::int64_t>& shape, std::size_t element, const std::string& what) {
  bool empty = false;
  std::int64_t bytes = static_cast<std::int64_t>(element);
  for (const std::int64_t size : shape)  // strides are products of the sizes even if one is 0
    if (size == 0)
      empty = true;
    else if (__builtin_mul_overflow(bytes, size, &bytes))
      refuse(what + " is larger than any memory");
  return empty ? 0 : static_cast<std::size_t>(bytes);
}

SafeTensor tensor_of(const std::string& name, const Json& entry, std::size_t data_begin, std::size_t data_bytes) {
  const std::string what = "its tensor " + printable(name);
  const auto part = [&](const char* key, bool fits(const Json&)) -> const Json& {
    const auto it = entry.is_object() ? entry.find(key) : entry.end();
    if (it == entry.end() || !fits(*it)) refuse(what + " has no " + key);
    return *it;
  };
  const auto is_array = [](const Json& value) { return value.is_array(); };
  SafeTensor tensor{name, part("dtype", [](const Json& value) { return value.is_string(); }).get<std::string>(), {}};
  const std::size_t element = safetensors_element_bytes(tensor.dtype);
  if (element == 0) refuse(what + " has the unknown type " + printable(tensor.dtype));
  const Json& shape = part("shape", is_array);
  if (shape.size() > kDimsMax) refuse(what + " has " + std::to_string(shape.size()) + " dimensions");
  for (const Json& size : shape) tensor.shape.push_back(whole_number(size, what + "'s shape"));
  const Json& offsets = part("data_offsets", is_array);
  if (offsets.size() != 2) refuse(what + " has no data_offsets");
  const auto begin = static_cast<std::size_t>(whole_number(offsets[0], what + "'s place"));
  const auto end = static_cast<std::size_t>(whole_number(offsets[1], what + "'s place"));
  if (begin > end || end > data_bytes) refuse(what + " reaches outside the file, which is cut short or damaged");
  if (end - begin != bytes_of(tensor.shape, element, what))
    refuse(what + " has " + std::to_string(end - begin) + " bytes where its type and shape need others");
  tensor.begin = data_begin + begin;
  tensor.bytes = end - begin;
  return tensor;
}

void check_metadata(const Json& metadata) {
  if (!metadata.is_object()) refuse("its __metadata__ is not an object");
  for (const Json& value : metadata)
    if (!value.is_string()) refuse("its __metadata__ contains something other than strings");
}

std::vector<SafeTensor> parse(std::string_view file) {
  const std::string_view header = header_of(file);
  const Json json = json_of(header);
  const std::size_t data_begin = kLengthBytes + header.size();
  std::vector<SafeTensor> tensors;
  for (const auto& [name, entry] : json.items())
    if (name == kMetadata)
      check_metadata(entry);
    else
      tensors.push_back(tensor_of(name, entry, data_begin, file.size() - data_begin));
  std::stable_sort(tensors.begin(), tensors.end(), [](const SafeTensor& one, const SafeTensor& other) {
    return std::tie(one.begin, one.bytes) < std::tie(other.begin, other.bytes);
  });
  std::size_t at = data_begin;
  for (const auto& tensor : tensors) {
    if (tensor.begin != at)
      refuse("its tensor " + printable(tensor.name) +
             (tensor.begin < at ? " overlaps with the one before it" : " comes after a gap"));
    at += tensor.bytes;
  }
  if (at != file.size()) refuse("it has " + std::to_string(file.size() - at) + " bytes that belong to no tensor");
  return tensors;
}

}  // namespace

std::size_t safetensors_element_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kTypes)
    if (name == dtype) return bytes;
  return 0;
}

bool looks_like_safetensors(std::string_view file) {
  return file.size() > kLengthBytes && file[kLengthBytes] == '{' && length_of(file) <= kHeaderBytesMax;
}

std::vector<SafeTensor> parse_safetensors(std::string_view file, const std::string& name) {
  try {
    return parse(file);
  } catch (const std::runtime_error& error) {
    throw Error("cannot read " + name, error.what());
  }
}

std::string safetensors_header(const std::vector<SafeTensor>& tensors) {
  nlohmann::ordered_json json{{kMetadata, {{"format", "pt"}}}};
  std::size_t at = 0;
  for (const auto& tensor : tensors) {
    check(tensor.name != kMetadata && !json.contains(tensor.name), "each tensor of a safetensors file has a name");
    const std::size_t bytes = bytes_of(tensor.shape, safetensors_element_bytes(tensor.dtype), tensor.name);
    json[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string header = json.dump();
  header.append((kLengthBytes - header.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return length + header;
}

}  // namespace ddprun
