// What one rank cannot do is an exception on all of them, with the same sentence: none waits for one that has left.
#pragma once
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

#include "ddprun/process_group.h"

namespace ddprun {

// The same sentence on all ranks: one of them is enough to say it.
class AgreedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Every rank does its part, or all ranks throw an AgreedError: what the first of them could not do. A collective.
void all_or_none(const ProcessGroup& group, const std::function<void()>& part);

// what(), without the lines that LibTorch adds for its developers.
std::string sentence_of(const std::exception& error);

}  // namespace ddprun
