// Turns a failure on one rank into the same exception on all ranks, so that none waits for a rank that has left.
#pragma once
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

#include "ddprun/process_group.h"

namespace ddprun {

// Has the same sentence on all ranks, so only one of them needs to print it.
class AgreedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The same of a UsageError: no restart helps.
class AgreedUsageError : public AgreedError {
 public:
  using AgreedError::AgreedError;
};

// Every rank runs its part; if any fails, all throw an AgreedError with the lowest failing rank's reason. A collective.
void all_or_none(const ProcessGroup& group, const std::function<void()>& part);

// what(), without the lines that LibTorch adds for its developers.
std::string sentence_of(const std::exception& error);

}  // namespace ddprun
