#include "trainer/ddp/collectives/reduce_wire.h"

#include <torch/torch.h>

#include <array>
#include <optional>

namespace ddprun {
namespace {

c10d::ReduceOp to_c10d(ReduceOp op) {
  using To = c10d::ReduceOp;
  constexpr std::array ops{To::SUM, To::PRODUCT, To::MIN, To::MAX, To::AVG, To::BAND, To::BOR, To::BXOR};
  return ops.at(static_cast<std::size_t>(op));
}

bool is_bitwise(ReduceOp op) { return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor; }

// false and true are sent as 0 and 1; the result is 0 or 1 again.
ReduceOp of_bool(ReduceOp op) {
  if (op == ReduceOp::sum || op == ReduceOp::bor) return ReduceOp::max;
  if (op == ReduceOp::product || op == ReduceOp::band) return ReduceOp::min;
  return op;
}

std::optional<at::ScalarType> wire_integer(at::ScalarType type) {
  switch (type) {
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong:
      return type;
    case at::kShort:
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
      return at::kLong;
    default:
      return std::nullopt;
  }
}

bool is_added_float(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
}

Wire wire_of(at::ScalarType type, ReduceOp op, bool nccl) {
  Wire wire{.type = type, .op = op};
  bool fits = false;
  if (type == at::kBool) {
    wire.type = at::kByte;
    wire.op = of_bool(op);
    fits = op != ReduceOp::avg && !(nccl && op == ReduceOp::bxor);
  } else if (at::isComplexType(type)) {
    wire.type = c10::toRealValueType(type);
    wire.complex = true;
    fits = is_added_float(wire.type) && (op == ReduceOp::sum || op == ReduceOp::avg);
  } else if (const auto integer = wire_integer(type)) {
    wire.type = *integer;
    fits = op != ReduceOp::avg && !(nccl && is_bitwise(op));
  } else {
    fits = is_added_float(type) && !is_bitwise(op);
  }
  if (!fits) wire.problem = std::string(nccl ? "nccl" : "gloo") + " has no " + name_of(op) + " of " + toString(type);
  return wire;
}

}  // namespace

const char* name_of(ReduceOp op) {
  constexpr std::array names{"sum", "product", "min", "max", "avg", "band", "bor", "bxor"};
  return names.at(static_cast<std::size_t>(op));
}

Wire wire_for(const at::Tensor& tensor, ReduceOp op) {
  return tensor.defined() ? wire_of(tensor.scalar_type(), op, tensor.is_cuda()) : Wire{};
}

at::Tensor to_wire(const at::Tensor& tensor, const Wire& wire) {
  at::Tensor own = tensor.detach().resolve_conj().resolve_neg();
  if (wire.complex) own = at::view_as_real(own);
  return own.to(wire.type).contiguous().view({-1});
}

void from_wire(const at::Tensor& tensor, const at::Tensor& reduced, const Wire& wire) {
  if (reduced.is_alias_of(tensor)) return;
  auto sizes = tensor.sizes().vec();
  if (wire.complex) sizes.push_back(2);
  const at::Tensor shaped = reduced.view(sizes);
  tensor.detach().copy_(wire.complex ? at::view_as_complex(shaped) : shaped);
}

bool divides_after(const Wire& wire, const at::Tensor& tensor) { return wire.op == ReduceOp::avg && !tensor.is_cuda(); }

c10d::ReduceOp backend_op(const Wire& wire, const at::Tensor& tensor) {
  return to_c10d(divides_after(wire, tensor) ? ReduceOp::sum : wire.op);
}

}  // namespace ddprun
