#include "tests/trainer/collectives_check.h"

#include <torch/torch.h>

#include <algorithm>
#include <complex>

namespace ddprun::test {
namespace {

using Tensors = std::vector<at::Tensor>;

enum class Layout { plain, transposed, sliced };

std::vector<Layout> layouts_of(at::ScalarType type, Layouts layouts) {
  if (layouts == Layouts::all || type == at::kFloat) return {Layout::plain, Layout::transposed, Layout::sliced};
  return {Layout::plain};
}

}  // namespace

at::Tensor values(at::ScalarType type, at::IntArrayRef sizes, int rank) {
  constexpr double kFractions[]{-2, 3, 0.5, 1, -1, 2};
  const auto count = c10::multiply_integers(sizes);
  if (at::isComplexType(type)) {
    const auto part = at::toRealValueType(type);
    return at::complex(values(part, sizes, rank), values(part, sizes, rank + 3));
  }
  if (at::isFloatingType(type)) {
    std::vector<double> elements;
    for (std::int64_t i = 0; i < count; ++i) elements.push_back(kFractions[(i + 4 * rank + i * rank) % 6]);
    return torch::tensor(elements, torch::kFloat64).to(type).view(sizes);
  }
  const std::int64_t unit = type == at::kBool ? 1 : type == at::kShort || type == at::kUInt16 ? 301 : 7;
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = (i * 5 + rank * 3 + i * rank) % 13;
    elements.push_back((type == at::kBool ? value % 2 : c10::isSignedType(type) ? value - 6 : value) * unit);
  }
  return torch::tensor(elements, torch::kInt64).to(type).view(sizes);
}

namespace {

// The same elements at other places in memory.
at::Tensor laid_out(const at::Tensor& tensor, Layout layout) {
  if (layout == Layout::plain || tensor.dim() < 2) return tensor.clone();
  if (layout == Layout::transposed) return tensor.transpose(0, 1).clone(at::MemoryFormat::Contiguous).transpose(0, 1);
  auto sizes = tensor.sizes().vec();
  sizes[1] *= 2;
  const auto wide = torch::zeros(sizes, tensor.options());
  auto every_second = wide.slice(1, 0, sizes[1], 2);
  every_second.copy_(tensor);
  return every_second;
}

// What lies between the elements of a sliced one.
at::Tensor gaps_of(const at::Tensor& sliced) {
  auto sizes = sliced.sizes().vec(), strides = sliced.strides().vec();
  return sliced.as_strided(sizes, strides, sliced.storage_offset() + 1);
}

}  // namespace

bool alike(const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor a = first.cpu(), b = second.cpu();
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto bits = [](const at::Tensor& t) {
    return t.numel() == 0 ? at::zeros({0}, at::kByte) : t.resolve_conj().contiguous().view({-1}).view(at::kByte);
  };
  return at::equal(bits(a), bits(b)) ||
         (at::isFloatingType(a.scalar_type()) && a.element_size() > 1 && at::equal(a, b)) ||
         (a.is_complex() && at::equal(a, b));
}

namespace {

template <class T>
T fold(ReduceOp op, const std::vector<T>& all) {
  T result = all[0];
  for (std::size_t i = 1; i < all.size(); ++i) {
    const T value = all[i];
    if (op == ReduceOp::sum || op == ReduceOp::avg) result += value;
    if (op == ReduceOp::product) result *= value;
    if constexpr (!std::is_same_v<T, std::complex<double>>) {
      if (op == ReduceOp::min) result = std::min(result, value);
      if (op == ReduceOp::max) result = std::max(result, value);
    }
    if constexpr (std::is_integral_v<T>) {
      if (op == ReduceOp::band) result &= value;
      if (op == ReduceOp::bor) result |= value;
      if (op == ReduceOp::bxor) result ^= value;
    }
  }
  if (op == ReduceOp::avg) result /= static_cast<T>(static_cast<double>(all.size()));
  return result;
}

template <class T>
at::Tensor fold_as(ReduceOp op, const Tensors& all, at::ScalarType wide) {
  Tensors flat;
  for (const auto& tensor : all) flat.push_back(tensor.to(wide).contiguous().view({-1}));
  auto result = torch::empty_like(flat[0]);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    std::vector<T> at_i;
    for (const auto& tensor : flat) at_i.push_back(static_cast<const T*>(tensor.const_data_ptr())[i]);
    static_cast<T*>(result.data_ptr())[i] = fold(op, at_i);
  }
  const auto type = all[0].scalar_type();
  // true is whatever is not 0, and a sum of two trues is true.
  return (type == at::kBool ? result.ne(0) : result.to(type)).view(all[0].sizes());
}

at::Tensor reduced(ReduceOp op, const Tensors& all) {
  const auto type = all[0].scalar_type();
  if (at::isComplexType(type)) return fold_as<std::complex<double>>(op, all, at::kComplexDouble);
  if (at::isFloatingType(type)) return fold_as<double>(op, all, at::kDouble);
  return fold_as<std::int64_t>(op, all, at::kLong);
}

Tensors of_all_ranks(at::ScalarType type, at::IntArrayRef sizes, int world) {
  Tensors all;
  for (int rank = 0; rank < world; ++rank) all.push_back(values(type, sizes, rank));
  return all;
}

std::string after_colon(const std::string& text) { return text.empty() ? "" : text.substr(text.find(": ") + 2); }

}  // namespace

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const PeerLost&) {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  }
}

void reduce_everything(const ProcessGroup& group, Findings& findings, Table* table, Layouts layouts) {
  const int world = group.world_size(), me = group.rank(), root = world - 1;
  for (const auto type : kTypes) {
    const auto all = of_all_ranks(type, {3, 4}, world);
    for (const auto& [op_of_table, op_name] : kOps)
      for (const auto layout : layouts_of(type, layouts)) {
        const auto op = op_of_table;  // no structured binding: lambdas take it
        const std::string name = std::string(toString(type)) + " " + op_name + " on " + std::to_string(world) +
                                 " ranks, layout " + std::to_string(static_cast<int>(layout));
        const auto here = [&](const at::Tensor& tensor) { return laid_out(tensor.to(group.device()), layout); };
        const auto own = here(all[static_cast<std::size_t>(me)]), same = own.clone();
        std::string refused = refusal([&] { all_reduce(own, op, group); });
        findings.expect(refused.empty() ? alike(own, reduced(op, all)) : alike(own, same), "all_reduce " + name);
        if (layout == Layout::sliced) findings.expect(gaps_of(own).cpu().ne(0).sum().item<int>() == 0, "gaps " + name);
        if (table) (*table)[{static_cast<int>(type), static_cast<int>(op)}] = after_colon(refused);

        const auto at_root = here(all[static_cast<std::size_t>(me)]);
        const std::string again = refusal([&] { reduce(at_root, root, op, group); });
        findings.expect(alike(at_root, refused.empty() && me == root ? reduced(op, all) : same), "reduce " + name);
        findings.expect(after_colon(again) == after_colon(refused), "reduce's refusal " + name);

        Tensors parts;  // each rank's share has a shape of its own
        for (int to = 0; to < world; ++to) parts.push_back(here(values(type, {to + 1, 3}, me + to)));
        at::Tensor share;
        const std::string reduce_scatter_refusal = refusal([&] { share = reduce_scatter(parts, op, group); });
        findings.expect(after_colon(reduce_scatter_refusal) == after_colon(refused),
                        "reduce_scatter's refusal " + name);
        if (!refused.empty()) continue;
        Tensors mine;
        for (int from = 0; from < world; ++from) mine.push_back(values(type, {me + 1, 3}, from + me));
        findings.expect(alike(share, reduced(op, mine)), "reduce_scatter " + name);
      }
  }
}

namespace {

// Shapes that differ from rank to rank, one of them without elements and one without dimensions.
std::vector<std::int64_t> uneven_shape(int rank) {
  const std::vector<std::vector<std::int64_t>> shapes{{2, 3}, {0, 3}, {}, {5, 1}};
  return shapes[static_cast<std::size_t>(rank) % shapes.size()];
}

}  // namespace

void move_everything(const ProcessGroup& group, Findings& findings, Layouts layouts) {
  const int world = group.world_size(), me = group.rank(), root = world / 2;
  const auto next = (me + 1) % world, before = (me + world - 1) % world;
  const auto at = [](const Tensors& all, int rank) { return all[static_cast<std::size_t>(rank)]; };
  for (const auto type : kTypes)
    for (const auto layout : layouts_of(type, layouts)) {
      const std::string name = std::string(toString(type)) + " on " + std::to_string(world) + " ranks, layout " +
                               std::to_string(static_cast<int>(layout));
      const auto all = of_all_ranks(type, {3, 4}, world);
      const auto here = [&](const at::Tensor& tensor) { return laid_out(tensor.to(group.device()), layout); };
      const auto own = here(at(all, me));
      const auto blank = [&] { return laid_out(torch::zeros({3, 4}, own.options()), layout); };
      const auto expect_all = [&](const Tensors& got, const Tensors& expected, const std::string& what) {
        findings.expect(got.size() == expected.size(), what + " count " + name);
        for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i)
          findings.expect(alike(got[i], expected[i]), what + " " + name);
      };

      const auto copy = own.clone(at::MemoryFormat::Preserve);
      broadcast(copy, root, group);
      findings.expect(alike(copy, at(all, root)), "broadcast " + name);
      expect_all(all_gather(own, group), all, "all_gather");
      findings.expect(alike(all_gather_stacked(own, group), torch::stack(all)), "all_gather_stacked " + name);
      expect_all(gather(own, root, group), me == root ? all : Tensors{}, "gather");
      Tensors laid;
      for (const auto& tensor : all) laid.push_back(here(tensor));
      findings.expect(alike(scatter(me == root ? laid : Tensors{}, root, group), at(all, me)), "scatter " + name);

      const auto received = blank();
      sendrecv(own, next, received, before, 0, group);
      findings.expect(alike(received, at(all, before)), "sendrecv " + name);
      if (world > 1) {
        const auto message = blank();
        if (me == 0) send(own, world - 1, 3, group);
        if (me == world - 1) {
          findings.expect(recv(message, 0, 3, group) == 0, "recv's sender " + name);
          findings.expect(alike(message, all[0]), "recv " + name);
        }
      }

      Tensors uneven, to_each, from_each;
      for (int rank = 0; rank < world; ++rank) {
        uneven.push_back(values(type, uneven_shape(rank), rank).to(group.device()));
        to_each.push_back(here(values(type, uneven_shape(me + rank), me + 2 * rank)));
        from_each.push_back(values(type, uneven_shape(me + rank), rank + 2 * me));
      }
      const auto mine = here(at(uneven, me));
      expect_all(all_gather(mine, group), uneven, "uneven all_gather");
      expect_all(gather(mine, root, group), me == root ? uneven : Tensors{}, "uneven gather");
      findings.expect(alike(scatter(me == root ? uneven : Tensors{}, root, group), mine), "uneven scatter " + name);
      expect_all(all_to_all(to_each, group), from_each, "all_to_all");
    }
}

}  // namespace ddprun::test
