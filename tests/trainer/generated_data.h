// Small data sets on disk, in the containers of the real ones, for tests that need files.
//
// All images are such that they can be learnt: the classes of ten differ in where they are bright. Equal arguments give
// equal files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::test {

// CIFAR-10's: `train` images in data_batch_1.bin and, from 2 files on, evenly in as many; `test` in test_batch.bin.
void make_cifar10(const std::filesystem::path& folder, int train, int test, std::uint64_t seed, int files = 1);

// The same images as make_cifar10's in one file to train on, in CIFAR-10's Python version.
void make_cifar10_python(const std::filesystem::path& folder, int train, int test, std::uint64_t seed);

// MNIST's four IDX files, not packed, of images of `side` by `side`.
void make_mnist(const std::filesystem::path& folder, int train, int test, std::uint64_t seed, int side = 28);

// Sentences of a few words, `characters` of them in all, in ASCII.
std::string generated_text(int characters, std::uint64_t seed);
void make_text(const std::filesystem::path& file, int characters, std::uint64_t seed);

// The indices 0 to n - 1.
std::vector<std::int64_t> up_to(std::int64_t n);

}  // namespace ddprun::test
