#include "trainer/ddp/snapshot/torch_file.h"

#include <caffe2/serialize/inline_container.h>
#include <openssl/evp.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <array>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"
#include "trainer/ddp/snapshot/archive.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/legacy_torch_file.h"
#include "trainer/ddp/snapshot/unpickler.h"

namespace ddprun {
namespace {

using caffe2::serialize::PyTorchStreamWriter;

constexpr const char* kDigestRecord = "ddprun.sha256";
constexpr std::string_view kByteOrder = "little";
constexpr const char* kNoMemoryInTorch = "allocate memory";  // part of its allocator's message

// Covers each record's name, size and bytes, so that no byte can move to another record.
class Digest {
 public:
  Digest() { check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has SHA-256"); }

  void add(const void* data, std::size_t size) { EVP_DigestUpdate(context_.get(), data, size); }
  void add(const std::string& name, const void* data, std::size_t size) {
    const std::string head = name + '\n' + std::to_string(size) + '\n';
    add(head.data(), head.size());
    add(data, size);
  }

  std::string hex() {
    std::array<unsigned char, 32> bytes;
    EVP_DigestFinal_ex(context_.get(), bytes.data(), nullptr);
    std::string result;
    for (const unsigned char byte : bytes) {
      result += "0123456789abcdef"[byte >> 4];
      result += "0123456789abcdef"[byte & 15];
    }
    return result;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

class Writer {
 public:
  using Append = std::function<void(const void* data, std::size_t size)>;
  explicit Writer(const Append& append) : append_(append) {}

  void record(const std::string& name, const void* data, std::size_t size) {
    digest_.add(name, data, size);
    out_.writeRecord(name, data, size);
    rethrow();
  }
  std::string finish() {
    const std::string hex = digest_.hex();
    out_.writeRecord(kDigestRecord, hex.data(), hex.size());
    out_.writeEndOfFile();
    rethrow();
    return hex;
  }

 private:
  // append's exceptions must not pass through LibTorch's archive, and say more than its own error.
  std::size_t take(const void* data, std::size_t size) {
    try {
      if (!failure_) append_(data, size);
    } catch (...) {
      failure_ = std::current_exception();
    }
    return size;
  }
  void rethrow() {
    if (failure_) std::rethrow_exception(failure_);
  }

  const Append& append_;
  std::exception_ptr failure_;
  Digest digest_;
  PyTorchStreamWriter out_{[this](const void* data, std::size_t size) { return take(data, size); }};
};

// Records are in the order of writing; LibTorch's own bookkeeping follows the digest.
std::string check_digest(const Archive& archive) {
  const auto* expected = archive.find(kDigestRecord);
  if (!expected) return "";
  Digest digest;
  for (const auto& [name, bytes] : archive.records()) {
    if (name == kDigestRecord) break;
    if (!name.starts_with('.'))  // LibTorch's own: .format_version, .storage_alignment
      digest.add(std::string(name), bytes.data(), bytes.size());
  }
  const std::string hex = digest.hex();
  if (expected->bytes != hex) throw Malformed("its content does not match its SHA-256");
  return hex;
}

std::string_view record(const Archive& archive, const std::string& name) {
  if (const auto* found = archive.find(name)) return found->bytes;
  throw Malformed("it is damaged, or not a file of torch.save (it has no " + visible(name) + ")");
}

void check_byte_order(const Archive& archive, const std::string& name) {
  if (const auto* order = archive.find("byteorder"); order && order->bytes != kByteOrder)
    throw Error("cannot read " + name, "its byte order is not this machine's");
}

Unpacked unpack(const std::string& bytes, const std::string& name) {
  const Archive archive(bytes);
  const std::string digest = check_digest(archive);
  check_byte_order(archive, name);
  const Pickle pickle = read_pickle(record(archive, "data.pkl"));
  return {to_ivalue(pickle, [&](const std::string& key) { return record(archive, "data/" + key); }), digest};
}

// Calls `read`; what is wrong with the bytes becomes a DamagedFile.
template <class Read>
auto with_name(const std::string& name, const Read& read) try {
  return read();
} catch (const Malformed& error) {
  throw DamagedFile("cannot read " + name, error.what());
} catch (const std::bad_alloc&) {
  throw NoMemory(name);
} catch (const c10::Error& error) {
  if (std::string(error.what_without_backtrace()).find(kNoMemoryInTorch) != std::string::npos) throw NoMemory(name);
  throw;
}

PickleTensors open_archive(std::string_view bytes, const std::string& name) {
  const auto archive = std::make_shared<const Archive>(bytes, Archive::Compressed::left_out);
  check_digest(*archive);
  check_byte_order(*archive, name);
  Pickle pickle = read_object_pickle(record(*archive, "data.pkl"));
  return {std::move(pickle), [archive](const std::string& key) { return record(*archive, "data/" + key); }};
}

PickleTensors open_legacy(std::string_view bytes) {
  LegacyTorchFile file = read_legacy_torch_file(bytes);
  return {std::move(file.pickle), [storages = std::move(file.storages)](const std::string& key) {
            const auto found = storages.find(key);
            if (found == storages.end()) throw Malformed("it lacks a storage");
            return found->second;
          }};
}

}  // namespace

std::string pack_torch_file(const c10::IValue& value) {
  std::string bytes;
  write_torch_file(value,
                   [&](const void* data, std::size_t size) { bytes.append(static_cast<const char*>(data), size); });
  return bytes;
}

std::string sha256_of(std::string_view bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

Pickled pickle_of(const c10::IValue& value) {
  Pickled result;
  std::size_t count = 0;
  torch::jit::Pickler pickler([&](const char* data, std::size_t size) { result.bytes.append(data, size); }, nullptr,
                              nullptr, nullptr, [&](const at::Tensor&) { return std::to_string(count++); },
                              /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  result.tensors = pickler.tensorData();
  return result;
}

std::string write_torch_file(const c10::IValue& value, const std::function<void(const void*, std::size_t)>& append) {
  const auto [pickle, tensors] = pickle_of(value);
  Writer out(append);
  std::size_t number = 0;
  for (const auto& tensor : tensors) {
    const auto data = torch::jit::getWriteableTensorData(tensor);
    out.record("data/" + std::to_string(number++), data.data(), data.sizeInBytes());
  }
  out.record("data.pkl", pickle.data(), pickle.size());
  out.record("byteorder", kByteOrder.data(), kByteOrder.size());
  return out.finish();
}

Unpacked unpack_torch_file(const std::string& bytes, const std::string& name) {
  return with_name(name, [&] { return unpack(bytes, name); });
}

PickleTensors read_torch_objects(std::string_view bytes, const std::string& name) {
  return with_name(
      name, [&] { return looks_like_legacy_torch_file(bytes) ? open_legacy(bytes) : open_archive(bytes, name); });
}

}  // namespace ddprun
