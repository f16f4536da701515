// Requests from a seed, for tests that compare two ways of doing the same.
#pragma once
#include <random>
#include <string>

#include "rendezvous/store/protocol.h"

namespace ddprun::test {

class RandomRequests {
 public:
  explicit RandomRequests(std::uint64_t seed) : random_(seed) {}

  // Few names, so that requests meet. Any op but validate.
  rendezvous::Request next() {
    rendezvous::Request request{static_cast<rendezvous::Op>(1 + below(rendezvous::kOpCount - 1))};
    const rendezvous::Shape& shape = shape_of(request.op);
    const std::size_t items = shape.counted ? below(4) : shape.item.empty() ? 0 : 1;
    for (std::size_t i = 0; i < items; ++i)
      for (const char part : shape.item)
        (part == 'k' ? request.keys : request.values).push_back(part == 'k' ? name() : value());
    if (shape.number_size == 8)
      request.number = static_cast<std::int64_t>(below(4)) - (request.op == rendezvous::Op::add ? 2 : 0);
    if (shape.number_size == 4) request.number = static_cast<std::int64_t>(random_() & 0xFFFFFFFF);
    return request;
  }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::string bytes(std::size_t size) {
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(random_());
    return out;
  }

 private:
  std::string name() { return std::string(1, static_cast<char>('a' + below(4))); }
  std::string value() { return below(2) ? std::to_string(below(5)) : bytes(below(3) * below(20)); }

  std::mt19937_64 random_;
};

}  // namespace ddprun::test
