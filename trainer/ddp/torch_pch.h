// LibTorch's headers cost 20 s a file; compiled once for the trainer and its tests they cost a third of that.
#pragma once
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
