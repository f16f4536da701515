#include "trainer/ddp/torch_file.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <openssl/evp.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "rendezvous/error.h"
#include "trainer/ddp/unpickler.h"

namespace ddprun {
namespace {

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

constexpr const char* kDigestRecord = "ddprun.sha256";
constexpr const char* kByteOrder = "little";

// Over each record's name, size and bytes, so that nothing can move from one to the next.
class Digest {
 public:
  Digest() { check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has SHA-256"); }

  void add(const std::string& name, const void* data, std::size_t size) {
    const std::string head = name + '\n' + std::to_string(size) + '\n';
    EVP_DigestUpdate(context_.get(), head.data(), head.size());
    EVP_DigestUpdate(context_.get(), data, size);
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
  // What append throws must not pass through LibTorch's archive, and says more than its own complaint would.
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

// LibTorch's own MemoryReadAdapter reads beyond the end where a torn archive asks for it.
class Bytes final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit Bytes(const std::string& bytes) : bytes_(bytes) {}
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t at, void* to, size_t count, const char*) const override {
    if (at >= bytes_.size()) return 0;
    count = std::min(count, bytes_.size() - at);
    std::memcpy(to, bytes_.data() + at, count);
    return count;
  }

 private:
  const std::string& bytes_;
};

std::string record(PyTorchStreamReader& in, const std::string& name) {
  const auto [data, size] = in.getRecord(name);
  return std::string(static_cast<const char*>(data.get()), size);
}

// Records come in the order they were written in; LibTorch's own bookkeeping comes after the digest.
std::string check_digest(PyTorchStreamReader& in) {
  if (!in.hasRecord(kDigestRecord)) return "";
  Digest digest;
  for (const auto& name : in.getAllRecords()) {
    if (name == kDigestRecord) break;
    if (name.rfind('.', 0) == 0) continue;  // LibTorch's own: .format_version, .storage_alignment
    const auto [data, size] = in.getRecord(name);
    digest.add(name, data.get(), size);
  }
  const std::string hex = digest.hex();
  if (record(in, kDigestRecord) != hex) throw std::runtime_error("its content does not match its SHA-256");
  return hex;
}

// What a torn directory says of sizes would be allocated first.
void require_sizes_within(PyTorchStreamReader& in, std::size_t size) {
  for (const auto& name : in.getAllRecords())
    if (in.getRecordSize(name) > size) throw std::runtime_error("it is torn: a part of it is larger than the whole");
}

Unpacked unpack(const std::string& bytes) {
  PyTorchStreamReader in(std::make_shared<Bytes>(bytes));
  require_sizes_within(in, bytes.size());
  const std::string digest = check_digest(in);
  if (in.hasRecord("byteorder") && record(in, "byteorder") != kByteOrder)
    throw std::runtime_error("its byte order is not this machine's");
  return {unpickle(record(in, "data.pkl"), [&](const std::string& key) { return in.getRecord("data/" + key); }),
          digest};
}

}  // namespace

std::string pack_torch_file(const c10::IValue& value) {
  std::string bytes;
  write_torch_file(value,
                   [&](const void* data, std::size_t size) { bytes.append(static_cast<const char*>(data), size); });
  return bytes;
}

std::string write_torch_file(const c10::IValue& value, const std::function<void(const void*, std::size_t)>& append) {
  std::string pickle;
  std::size_t tensors = 0;
  torch::jit::Pickler pickler([&](const char* data, std::size_t size) { pickle.append(data, size); }, nullptr, nullptr,
                              nullptr, [&](const at::Tensor&) { return std::to_string(tensors++); },
                              /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  Writer out(append);
  std::size_t number = 0;
  for (const auto& tensor : pickler.tensorData()) {
    const auto data = torch::jit::getWriteableTensorData(tensor);
    out.record("data/" + std::to_string(number++), data.data(), data.sizeInBytes());
  }
  out.record("data.pkl", pickle.data(), pickle.size());
  out.record("byteorder", kByteOrder, std::string(kByteOrder).size());
  return out.finish();
}

Unpacked unpack_torch_file(const std::string& bytes, const std::string& name) {
  try {
    return unpack(bytes);
  } catch (const std::bad_alloc&) {
    throw NoMemory("cannot read " + name + ": there is no memory left for it");
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("allocate memory") != std::string::npos || text.find("enough memory") != std::string::npos)
      throw NoMemory("cannot read " + name + ": there is no memory left for it");
    throw Error("cannot read " + name, "it is torn or no file of torch.save (" + text.substr(0, text.find('\n')) + ")");
  } catch (const std::exception& error) {
    throw Error("cannot read " + name, error.what());
  }
}

}  // namespace ddprun
