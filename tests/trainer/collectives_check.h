// Every collective against a dumb twin that sees all ranks' tensors at once, on whatever device the group computes.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/collectives.h"

namespace ddprun::test {

inline const std::vector<at::ScalarType> kTypes{at::kFloat, at::kDouble,       at::kHalf,          at::kBFloat16,
                                                at::kChar,  at::kShort,        at::kInt,           at::kLong,
                                                at::kByte,  at::kUInt16,       at::kUInt32,        at::kUInt64,
                                                at::kBool,  at::kComplexFloat, at::kComplexDouble, at::kFloat8_e4m3fn};
inline const std::vector<std::pair<ReduceOp, std::string>> kOps{
    {ReduceOp::sum, "sum"}, {ReduceOp::product, "product"}, {ReduceOp::min, "min"}, {ReduceOp::max, "max"},
    {ReduceOp::avg, "avg"}, {ReduceOp::band, "band"},       {ReduceOp::bor, "bor"}, {ReduceOp::bxor, "bxor"}};

// What is found in a thread; looked at when all of them are done.
class Findings {
 public:
  void expect(bool holds, const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++checked_;
    if (!holds) wrong_.insert(what);
  }
  // A line for each; "" if all holds.
  std::string wrong() const {
    std::string all;
    for (const auto& what : wrong_) all += what + "\n";
    return checked_ > 0 ? all : "nothing was checked\n";
  }

 private:
  std::mutex mutex_;
  std::set<std::string> wrong_;
  int checked_ = 0;
};

// Values whose sums, products and quarters are exact in every type, and in integers now and then too large for it.
at::Tensor values(at::ScalarType type, at::IntArrayRef sizes, int rank);

// The same type, shape and numbers, wherever they are.
bool alike(const at::Tensor& a, const at::Tensor& b);

// The sentence with which an operation is refused; "" where it is not.
std::string refusal(const std::function<void()>& call);

// How a backend answers, by type and operation: "" or a sentence without the call and its shape.
using Table = std::map<std::pair<int, int>, std::string>;

// In memory: floats alone have all of them where calls take long.
enum class Layouts { all, of_floats };

// Reductions of every type by every operation, in every layout; and all that only moves tensors. Each rank calls them.
void reduce_everything(const ProcessGroup& group, Findings& findings, Table* table, Layouts layouts = Layouts::all);
void move_everything(const ProcessGroup& group, Findings& findings, Layouts layouts = Layouts::all);

}  // namespace ddprun::test
