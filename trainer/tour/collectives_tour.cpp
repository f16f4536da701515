#include <torch/torch.h>

#include <cmath>

#include "ddprun/collectives.h"
#include "trainer/tour/tour_context.h"

namespace ddprun::train {
namespace {

using Json = nlohmann::json;
using Tensors = std::vector<at::Tensor>;

class Collectives {
 public:
  explicit Collectives(TourContext& context) : context_(context), me_(context.rank()), world_(context.world()) {}

  void show_all() {
    identities();
    reductions();
    bit_reductions();
    copies();
    exchanges();
    messages();
    barriers();
    objects();
    means();
  }

 private:
  at::Tensor tensor(const std::vector<double>& values) const {
    return torch::tensor(values, torch::device(context_.device).dtype(torch::kDouble));
  }
  std::vector<int> ranks() const {
    std::vector<int> all;
    for (int rank = 0; rank < world_; ++rank) all.push_back(rank);
    return all;
  }
  template <class Make>
  Tensors of_all(const Make& make) const {
    Tensors all;
    for (const int rank : ranks()) all.push_back(make(rank));
    return all;
  }
  at::Tensor own(int rank) const { return tensor({rank + 1.0, 10.0 * (rank + 1)}); }
  // Length differs by rank, three elements at most.
  at::Tensor uneven(int rank) const {
    return tensor(std::vector<double>(static_cast<std::size_t>(rank % 3 + 1), rank));
  }

  void show(const std::string& name, const std::string& what, const std::string& before, const std::string& after,
            const std::string& expected) {
    context_.show(name, what, {before, after, expected});
  }

  void identities() {
    const auto said = [](int rank, int world) {
      return "rank " + std::to_string(rank) + " of " + std::to_string(world);
    };
    show("rank(), world_size(), local_rank(), local_world_size()", "who each process is.", "",
         said(ddprun::rank(), ddprun::world_size()) + ", here " + said(local_rank(), local_world_size()) +
             (is_main_process() ? ", the main process" : ""),
         said(me_, world_) + ", here " + said(context_.group.local_rank(), context_.group.local_world_size()) +
             (me_ == 0 ? ", the main process" : ""));
  }

  void reductions() {
    const at::Tensor all = torch::stack(of_all([&](int r) { return own(r); })), sum = all.sum(0);
    const std::vector<std::tuple<ReduceOp, std::string, std::string, at::Tensor>> cases{
        {ReduceOp::sum, "sum", "sum", sum},
        {ReduceOp::product, "product", "product", all.prod(0)},
        {ReduceOp::min, "min", "smallest", own(0)},
        {ReduceOp::max, "max", "largest", own(world_ - 1)},
        {ReduceOp::avg, "avg", "mean", sum / world_}};
    for (const auto& [op, name, result, expected] : cases) {
      const at::Tensor mine = own(me_);
      all_reduce(mine, op, context_.group);
      show("all_reduce(" + name + ")", "every rank's tensor becomes the " + result + " of all.", text_of(own(me_)),
           text_of(mine), text_of(expected));
    }
    const at::Tensor mine = own(me_);
    reduce(mine, /*root=*/0, ReduceOp::sum, context_.group);
    show("reduce(sum) to rank 0", "the same for one rank; the others' tensors stay.", text_of(own(me_)), text_of(mine),
         text_of(me_ == 0 ? sum : own(me_)));
  }

  void bit_reductions() {
    if (context_.device.is_cuda()) return context_.say("all_reduce(band, bor, bxor): NCCL has none.\n");
    std::int64_t all_and = -1, all_or = 0, all_xor = 0;
    const auto bits = [](int rank) { return std::int64_t{4} | (rank + 1); };
    for (const int rank : ranks()) all_and &= bits(rank), all_or |= bits(rank), all_xor ^= bits(rank);
    const std::vector<std::tuple<ReduceOp, std::string, std::int64_t>> cases{
        {ReduceOp::band, "band", all_and}, {ReduceOp::bor, "bor", all_or}, {ReduceOp::bxor, "bxor", all_xor}};
    for (const auto& [op, name, expected] : cases) {
      const at::Tensor mine = torch::tensor({bits(me_)});
      all_reduce(mine, op, context_.group);
      show("all_reduce(" + name + ")", "bit by bit, of integers.", std::to_string(bits(me_)),
           std::to_string(mine.item<std::int64_t>()), std::to_string(expected));
    }
  }

  void copies() {
    const int root = world_ - 1;
    const at::Tensor mine = own(me_);
    broadcast(mine, root, context_.group);
    show("broadcast from rank " + std::to_string(root), "every rank's tensor becomes that rank's.", text_of(own(me_)),
         text_of(mine), text_of(own(root)));

    const auto everybody = text_of(of_all([&](int r) { return uneven(r); }));
    show("all_gather", "every rank gets all tensors; their shapes may differ.", text_of(uneven(me_)),
         text_of(all_gather(uneven(me_), context_.group)), everybody);
    show("all_gather_stacked", "the same as one tensor, where shapes are equal.", text_of(own(me_)),
         text_of(all_gather_stacked(own(me_), context_.group)),
         text_of(torch::stack(of_all([&](int r) { return own(r); }))));
    show("gather to rank 0", "one rank gets all tensors.", text_of(uneven(me_)),
         text_of(gather(uneven(me_), 0, context_.group)), me_ == 0 ? everybody : text_of(Tensors{}));

    const Tensors shares = me_ == 0 ? of_all([&](int r) { return tensor({10.0 * r, 10.0 * r + 1}); }) : Tensors{};
    show("scatter from rank 0", "one rank distributes its tensors.", text_of(shares),
         text_of(scatter(shares, 0, context_.group)), text_of(tensor({10.0 * me_, 10.0 * me_ + 1})));
  }

  void exchanges() {
    const auto part = [&](int from, int to) { return tensor({100.0 * to + from + 1}); };
    const Tensors parts = of_all([&](int to) { return part(me_, to); });
    const Tensors for_me = of_all([&](int from) { return part(from, me_); });
    show("reduce_scatter(sum)", "each rank gets the sum of the parts that are for it.", text_of(parts),
         text_of(reduce_scatter(parts, ReduceOp::sum, context_.group)), text_of(torch::stack(for_me).sum(0)));
    show("all_to_all", "each rank sends every rank its part.", text_of(parts),
         text_of(all_to_all(parts, context_.group)), text_of(for_me));

    const int next = (me_ + 1) % world_, before = (me_ + world_ - 1) % world_;
    const at::Tensor received = torch::zeros_like(own(me_));
    sendrecv(own(me_), next, received, before, /*tag=*/0, context_.group);
    show("sendrecv around a ring", "each rank sends to the next one and gets from the one before.", text_of(own(me_)),
         text_of(received), text_of(own(before)));
  }

  // 100 is passed from rank to rank, and each adds 1.
  void messages() {
    if (world_ == 1) return context_.say("send, recv: with one rank there is nobody to send to.\n");
    const at::Tensor passed = tensor({100});
    const std::string before = me_ == 0 ? text_of(passed) : "(nothing)";
    if (me_ > 0) {
      recv(passed, me_ - 1, /*tag=*/0, context_.group);
      passed.add_(1);
    }
    if (me_ + 1 < world_) send(passed, me_ + 1, /*tag=*/0, context_.group);
    show("send, recv", "a message goes from rank to rank, and each adds 1.", before, text_of(passed),
         text_of(tensor({100.0 + me_})));
  }

  // The group's store counts the ranks that have arrived: any number before the barrier, all after it.
  void barriers() {
    const auto ranks_arrived = [&](const std::string& key, const auto& wait) {
      context_.group.store()->add(key, 1);
      wait();
      return counted(static_cast<std::size_t>(context_.group.store()->add(key, 0)), "rank") + " here";
    };
    const std::string all = counted(static_cast<std::size_t>(world_), "rank") + " here";
    show("barrier", "no rank continues before all have arrived.", "it has arrived",
         ranks_arrived("tour/barrier", [&] { barrier(context_.group); }), all);
    show("synchronize", "the same of the default group, and nothing where there is none.", "it has arrived",
         ranks_arrived("tour/synchronize", [] { synchronize(); }), all);
  }

  static Json object_of(int rank) { return {{"rank", rank}, {"loss", rank + 0.5}}; }

  void objects() {
    const std::string mine = object_of(me_).dump(), nothing = "(nothing)";
    Json everybody = Json::array();
    for (const int rank : ranks()) everybody.push_back(object_of(rank));
    show("all_gather_object", "as all_gather, of anything that is JSON.", mine,
         Json(all_gather_object(object_of(me_), context_.group)).dump(), everybody.dump());
    show("gather_object to rank 0", "as gather.", mine, Json(gather_object(object_of(me_), 0, context_.group)).dump(),
         me_ == 0 ? everybody.dump() : "[]");
    show("broadcast_object from rank 0", "as broadcast; what the others give is ignored.", mine,
         broadcast_object(object_of(me_), 0, context_.group).dump(), object_of(0).dump());
    const auto dealt = me_ == 0 ? everybody.get<std::vector<Json>>() : std::vector<Json>{};
    show("scatter_object from rank 0", "as scatter.", me_ == 0 ? everybody.dump() : nothing,
         scatter_object(dealt, 0, context_.group).dump(), mine);
    if (world_ == 1) return;
    Json passed = Json::array();
    if (me_ > 0) passed = recv_object(me_ - 1, /*tag=*/1, context_.group);
    passed.push_back(me_);
    if (me_ + 1 < world_) send_object(passed, me_ + 1, /*tag=*/1, context_.group);
    Json ranks_so_far = Json::array();
    for (int rank = 0; rank <= me_; ++rank) ranks_so_far.push_back(rank);
    show("send_object, recv_object", "a list goes from rank to rank, and each adds itself.", me_ == 0 ? "[]" : nothing,
         passed.dump(), ranks_so_far.dump());
  }

  void means() {
    const auto text = [](const std::map<std::string, double>& values) { return Json(values).dump(); };
    const auto values = [](double rank) {
      return std::map<std::string, double>{{"accuracy", rank}, {"loss", 2 * rank + 1}};
    };
    const double mean = (world_ - 1) / 2.0;
    show("reduce_dict", "every rank gets the mean of each value.", text(values(me_)),
         text(reduce_dict(values(me_), /*average=*/true, context_.group)), text(values(mean)));
    const std::map<std::string, at::Tensor> tensors{{"correct", own(me_)}};
    show("reduce_dict of tensors, as sums", "the same of tensors, here without the division.",
         "correct " + text_of(own(me_)),
         "correct " + text_of(reduce_dict(tensors, /*average=*/false, context_.group).at("correct")),
         "correct " + text_of(torch::stack(of_all([&](int r) { return own(r); })).sum(0)));
  }

  TourContext& context_;
  const int me_, world_;
};

}  // namespace

void show_collectives(TourContext& context) {
  Collectives(context).show_all();
  context.say(std::to_string(context.shown()) + " operations shown, " +
              (context.errors() ? std::to_string(context.errors()) + " of them WRONG." : "all of them right."));
}

}  // namespace ddprun::train
