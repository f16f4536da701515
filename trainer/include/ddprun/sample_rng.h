// The random numbers of one sample in one epoch: a crop, a flip, noise.
//
// They depend on (seed, epoch, index) only, so a sample gets the same transform whichever thread, rank or run loads it,
// and however often. Streams of different samples are independent.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#pragma GCC visibility push(default)
namespace ddprun {

// Mixes three numbers into one with the finaliser of splitmix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mixed_seed(std::uint64_t seed, std::int64_t epoch, std::int64_t number) {
  std::uint64_t mixed = 0;
  for (const std::uint64_t part : {seed, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(number)}) {
    mixed += part + 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
  }
  return mixed;
}

// xoshiro256++ (Blackman, Vigna 2019). Works with the standard library's distributions, whose numbers differ between
// standard libraries; those of uniform() and below() do not.
class SampleRng {
 public:
  using result_type = std::uint64_t;

  SampleRng(std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
    for (std::size_t i = 0; i < state_.size(); ++i)
      state_[i] = mixed_seed(mixed_seed(seed, epoch, index), static_cast<std::int64_t>(i), 0);
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // 0 <= x < 1, in steps of 2^-53.
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  // 0 .. n - 1, n from 1 to 2^32. Biased by less than n / 2^53.
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(uniform() * static_cast<double>(n)); }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace ddprun
#pragma GCC visibility pop
