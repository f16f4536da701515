// A small GPT as GPT-2, minGPT and nanoGPT build it, under minGPT's names: embeddings of tokens and of positions,
// blocks that normalise first, GELU by its tanh approximation, a last LayerNorm and a separate head (not tied to the
// token embedding: a tensor with two names would be a parameter twice). First weights are normal(0, 0.02); those that
// end a residual branch are smaller by sqrt(2 * layers) (Radford et al. 2019, section 2.3).
//
// The same model in Python: tests/trainer/gpt_peer.py.
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "rendezvous/base/error.h"
#include "trainer/models/makers.h"

namespace ddprun::train {
namespace {

namespace nn = torch::nn;

constexpr double kDeviation = 0.02;

// As Python's nn.Linear: one pass computes product and bias. LibTorch's own uses two passes, which round differently.
at::Tensor linear(const nn::Linear& layer, const at::Tensor& x) { return at::linear(x, layer->weight, layer->bias); }

class AttentionImpl : public nn::Module {
 public:
  explicit AttentionImpl(const ModelSpec& spec) : heads_(spec.heads), dropout_(spec.dropout) {
    c_attn_ = register_module("c_attn", nn::Linear(spec.embedding, 3 * spec.embedding));
    c_proj_ = register_module("c_proj", nn::Linear(spec.embedding, spec.embedding));
  }

  // [n, length, embedding] -> the same; no position sees later ones
  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t n = x.size(0), length = x.size(1), embedding = x.size(2);
    std::vector<at::Tensor> parts = linear(c_attn_, x).split(embedding, 2);  // queries, keys, values
    for (at::Tensor& part : parts) part = part.view({n, length, heads_, embedding / heads_}).transpose(1, 2);
    const at::Tensor seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {},
                                                             is_training() ? dropout_ : 0, /*is_causal=*/true);
    const at::Tensor joined = seen.transpose(1, 2).contiguous().view({n, length, embedding});
    return torch::dropout(linear(c_proj_, joined), dropout_, is_training());
  }

 private:
  const std::int64_t heads_;
  const double dropout_;
  nn::Linear c_attn_{nullptr}, c_proj_{nullptr};
};
TORCH_MODULE(Attention);

class MlpImpl : public nn::Module {
 public:
  explicit MlpImpl(const ModelSpec& spec) : dropout_(spec.dropout) {
    c_fc_ = register_module("c_fc", nn::Linear(spec.embedding, 4 * spec.embedding));
    c_proj_ = register_module("c_proj", nn::Linear(4 * spec.embedding, spec.embedding));
  }

  at::Tensor forward(const at::Tensor& x) {
    return torch::dropout(linear(c_proj_, at::gelu(linear(c_fc_, x), "tanh")), dropout_, is_training());
  }

 private:
  const double dropout_;
  nn::Linear c_fc_{nullptr}, c_proj_{nullptr};
};
TORCH_MODULE(Mlp);

nn::LayerNorm layer_norm(std::int64_t embedding) { return nn::LayerNorm(nn::LayerNormOptions({embedding})); }

class TransformerBlockImpl : public nn::Module {
 public:
  explicit TransformerBlockImpl(const ModelSpec& spec) {
    ln_1_ = register_module("ln_1", layer_norm(spec.embedding));
    attn_ = register_module("attn", Attention(spec));
    ln_2_ = register_module("ln_2", layer_norm(spec.embedding));
    mlp_ = register_module("mlp", Mlp(spec));
  }

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor x = input + attn_->forward(ln_1_->forward(input));
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  Attention attn_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(TransformerBlock);

class TransformerImpl : public nn::Module {
 public:
  explicit TransformerImpl(const ModelSpec& spec) : dropout_(spec.dropout) {
    wte_ = register_module("wte", nn::Embedding(spec.vocabulary, spec.embedding));
    wpe_ = register_module("wpe", nn::Embedding(spec.context, spec.embedding));
    h_ = register_module("h", nn::Sequential());
    for (std::int64_t i = 0; i < spec.layers; ++i) h_->push_back(TransformerBlock(spec));
    ln_f_ = register_module("ln_f", layer_norm(spec.embedding));
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor places = torch::arange(tokens.size(1), tokens.options());
    const at::Tensor x = wte_->forward(tokens) + wpe_->forward(places);
    return ln_f_->forward(h_->forward(torch::dropout(x, dropout_, is_training())));
  }

 private:
  const double dropout_;
  nn::Embedding wte_{nullptr}, wpe_{nullptr};
  nn::Sequential h_{nullptr};
  nn::LayerNorm ln_f_{nullptr};
};
TORCH_MODULE(Transformer);

bool ends_residual_branch(const std::string& parameter) {
  const std::string end = "c_proj.weight";
  return parameter.size() >= end.size() && parameter.compare(parameter.size() - end.size(), end.size(), end) == 0;
}

class Gpt : public Model {
 public:
  explicit Gpt(const ModelSpec& spec) : context_(spec.context) {
    transformer_ = register_module("transformer", Transformer(spec));
    lm_head_ = register_module("lm_head", nn::Linear(nn::LinearOptions(spec.embedding, spec.vocabulary).bias(false)));
    init_weights(static_cast<double>(spec.layers));
  }

  at::Tensor forward(const at::Tensor& tokens) override {
    if (tokens.dim() != 2 || tokens.size(1) < 1 || tokens.size(1) > context_)
      throw Error("the model gpt cannot read tokens of the shape " + c10::str(tokens.sizes()),
                  "it looks back on " + std::to_string(context_) + " of them",
                  "Give it [n, 1 to " + std::to_string(context_) + "].");
    return linear(lm_head_, transformer_->forward(tokens));
  }

  bool training_reads_buffers() const override { return false; }  // there are none

 private:
  void init_weights(double layers) {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* layer = module->as<nn::Linear>()) {
        nn::init::normal_(layer->weight, 0, kDeviation);
        if (layer->bias.defined()) nn::init::zeros_(layer->bias);
      }
      if (auto* layer = module->as<nn::Embedding>()) nn::init::normal_(layer->weight, 0, kDeviation);
    }
    for (const auto& parameter : named_parameters())
      if (ends_residual_branch(parameter.key()))
        nn::init::normal_(parameter.value(), 0, kDeviation / std::sqrt(2 * layers));
  }

  const std::int64_t context_;
  Transformer transformer_{nullptr};
  nn::Linear lm_head_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_gpt(const ModelSpec& spec) { return std::make_shared<Gpt>(spec); }

}  // namespace ddprun::train
