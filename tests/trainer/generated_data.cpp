#include "tests/trainer/generated_data.h"

#include <array>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include "ddprun/sample_rng.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

constexpr int kClasses = 10;

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) throw std::runtime_error(path);
}

// The rows of a class are bright, by channel others; the rest is dark; all of it with noise.
std::string image(int label, int channels, int side, SampleRng& rng) {
  std::string pixels;
  for (int channel = 0; channel < channels; ++channel)
    for (int y = 0; y < side; ++y)
      for (int x = 0; x < side; ++x) {
        const bool is_bright = y * kClasses / side == (label + 3 * channel) % kClasses;
        pixels += static_cast<char>((is_bright ? 180 : 20) + rng.below(60));
      }
  return pixels;
}

// Label and image, one after the other.
std::string records(int count, std::uint64_t seed, int part) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    SampleRng rng(seed, part, i);
    const int label = static_cast<int>(rng.below(kClasses));
    bytes += static_cast<char>(label) + image(label, 3, 32, rng);
  }
  return bytes;
}

std::string idx_header(const std::vector<int>& shape) {
  std::string header{0, 0, 8, static_cast<char>(shape.size())};
  for (const int size : shape)
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(size >> shift);
  return header;
}

void make_idx(const fs::path& folder, const std::string& prefix, int count, std::uint64_t seed, int part, int side) {
  std::string images = idx_header({count, side, side}), labels = idx_header({count});
  for (int i = 0; i < count; ++i) {
    SampleRng rng(seed, part, i);
    const int label = static_cast<int>(rng.below(kClasses));
    labels += static_cast<char>(label);
    images += image(label, 1, side, rng);
  }
  write(folder / (prefix + "-images-idx3-ubyte"), images);
  write(folder / (prefix + "-labels-idx1-ubyte"), labels);
}

// A pickle of protocol 2, as Python 2 has written CIFAR-10's.
std::string python_batch(const std::string& records) {
  constexpr std::size_t kImage = 3072;
  std::string labels, pixels;
  for (std::size_t at = 0; at < records.size(); at += 1 + kImage) {
    labels += std::string("K") + records[at];
    pixels += records.substr(at + 1, kImage);
  }
  const auto number = [](std::size_t value) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  const auto text = [](const std::string& value) {
    return "U" + std::string(1, static_cast<char>(value.size())) + value;
  };
  return "\x80\x02}q\x01(" + text("batch_label") + "q\x02" + text("a batch") + text("labels") + "]q\x03(" + labels +
         "e" + text("data") + "cnumpy.core.multiarray\n_reconstruct\nq\x04" + "cnumpy\nndarray\nq\x05" +
         std::string("K\x00\x85", 3) + text("b") + "\x87R(K\x01J" + number(pixels.size() / kImage) + "J" +
         number(kImage) + "\x86" + "cnumpy\ndtype\nq\x06" + text("u1") + std::string("K\x00K\x01\x87R(K\x03", 9) +
         text("|") + std::string("NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T", 19) + number(pixels.size()) +
         pixels + "tbu.";
}

}  // namespace

void make_cifar10_python(const fs::path& folder, int train, int test, std::uint64_t seed) {
  fs::create_directories(folder);
  write(folder / "data_batch_1", python_batch(records(train, seed, 1)));
  write(folder / "test_batch", python_batch(records(test, seed, 0)));
}

void make_cifar10(const fs::path& folder, int train, int test, std::uint64_t seed, int files) {
  fs::create_directories(folder);
  for (int file = 1; file <= files; ++file) {
    const int count = train * file / files - train * (file - 1) / files;
    write(folder / ("data_batch_" + std::to_string(file) + ".bin"), records(count, seed, file));
  }
  write(folder / "test_batch.bin", records(test, seed, 0));
}

void make_mnist(const fs::path& folder, int train, int test, std::uint64_t seed, int side) {
  fs::create_directories(folder);
  make_idx(folder, "train", train, seed, 1, side);
  make_idx(folder, "t10k", test, seed, 0, side);
}

std::string generated_text(int characters, std::uint64_t seed) {
  constexpr std::array kWords{"the", "river", "rises", "at", "noon", "and",
                              "a",   "train", "rolls", "on", "past", "mills"};
  SampleRng rng(seed, 0, 0);
  std::string text;
  while (text.size() < static_cast<std::size_t>(characters)) {
    text += kWords[static_cast<std::size_t>(rng.below(kWords.size()))];
    text += rng.below(8) == 0 ? ".\n" : " ";
  }
  text.resize(static_cast<std::size_t>(characters));
  return text;
}

void make_text(const fs::path& file, int characters, std::uint64_t seed) {
  write(file, generated_text(characters, seed));
}

std::vector<std::int64_t> up_to(std::int64_t n) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(n));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

}  // namespace ddprun::test
