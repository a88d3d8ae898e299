#include "tests/bench/shapes.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/bench/hybrid_shapes.h"
#include "tests/bench/model_builder.h"

namespace steadystate::bench {
namespace {

RandomModel Mamba2(const Sizes& sizes) {
  const size_t D = sizes.hidden;
  const size_t E = 2 * D;
  const size_t H = E / sizes.head;
  Builder to;
  to.Matrix("backbone.embeddings.weight", sizes.vocab, D, kStd);
  for (size_t i = 0; i < sizes.layers; ++i) {
    const std::string layer = absl::StrCat("backbone.layers.", i, ".");
    const std::string mixer = layer + "mixer.";
    to.Ones(layer + "norm.weight", D);
    AddMamba2(
        mixer, {.hidden = D, .width = E, .heads = H, .state = sizes.state},
        std::sqrt(1.0 / (3.0 * static_cast<double>(E * sizes.layers))), to);
  }
  to.Ones("backbone.norm_f.weight", D);
  return {{{"model_type", "mamba2"},
           {"architectures", {"Mamba2ForCausalLM"}},
           {"vocab_size", sizes.vocab},
           {"hidden_size", D},
           {"num_hidden_layers", sizes.layers},
           {"state_size", sizes.state},
           {"head_dim", sizes.head},
           {"num_heads", H},
           {"n_groups", 1},
           {"expand", 2},
           {"conv_kernel", 4},
           {"use_bias", false},
           {"use_conv_bias", true},
           {"hidden_act", "silu"},
           {"layer_norm_epsilon", 1e-5},
           {"tie_word_embeddings", true},
           {"bos_token_id", 0},
           {"eos_token_id", 0}},
          to.Take()};
}

void AddMlp(const std::string& layer, const Sizes& sizes, Builder& to) {
  to.Ones(layer + "mlp_norm.weight", sizes.hidden);
  to.Matrix(layer + "mlp.gate_proj.weight", sizes.intermediate, sizes.hidden,
            kStd);
  to.Matrix(layer + "mlp.up_proj.weight", sizes.intermediate, sizes.hidden,
            kStd);
  to.Matrix(layer + "mlp.down_proj.weight", sizes.hidden, sizes.intermediate,
            kStd);
}

// A model of fla's common form. `attend` adds what the mixer has beside q, k,
// v, gate and output, whose widths are key and value.
RandomModel FlaModel(
    const Sizes& sizes, size_t key, size_t value, nlohmann::json config,
    const std::function<void(const std::string&, Builder&)>& attend) {
  const size_t D = sizes.hidden;
  Builder to;
  to.Matrix("model.embeddings.weight", sizes.vocab, D, kStd);
  for (size_t i = 0; i < sizes.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    const std::string attn = layer + "attn.";
    to.Ones(layer + "attn_norm.weight", D);
    to.Matrix(attn + "q_proj.weight", key, D, kStd);
    to.Matrix(attn + "k_proj.weight", key, D, kStd);
    to.Matrix(attn + "v_proj.weight", value, D, kStd);
    to.Matrix(attn + "g_proj.weight", value, D, kStd);
    to.Matrix(attn + "o_proj.weight", D, value, kStd);
    to.Ones(attn + "g_norm_swish_gate.weight", value / sizes.heads);
    attend(attn, to);
    AddMlp(layer, sizes, to);
  }
  to.Ones("model.norm.weight", D);
  to.Matrix("lm_head.weight", sizes.vocab, D, kStd);
  config.update({{"vocab_size", sizes.vocab},
                 {"hidden_size", D},
                 {"num_hidden_layers", sizes.layers},
                 {"num_heads", sizes.heads},
                 {"intermediate_size", sizes.intermediate},
                 {"hidden_act", "swish"},
                 {"norm_eps", 1e-6},
                 {"tie_word_embeddings", false},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2}});
  return {std::move(config), to.Take()};
}

constexpr size_t kDecayRank = 16;

void AddDecay(const std::string& attn, size_t D, size_t key, Builder& to) {
  to.Matrix(attn + "gk_proj.0.weight", kDecayRank, D, kStd);
  to.Matrix(attn + "gk_proj.1.weight", key, kDecayRank, kStd);
  to.Uniform(attn + "gk_proj.1.bias", {key}, 0, 0);
}

RandomModel Gla(const Sizes& sizes) {
  const size_t D = sizes.hidden;
  return FlaModel(sizes, D / 2, D,
                  {{"model_type", "gla"}, {"expand_k", 0.5}, {"expand_v", 1.0}},
                  [D](const std::string& attn, Builder& to) {
                    AddDecay(attn, D, D / 2, to);
                  });
}

// With convolutions and a tokenizer of bytes: deploy/models/demo.
RandomModel Demo(const Sizes& sizes) {
  const size_t D = sizes.hidden;
  return FlaModel(
      sizes, D / 2, D,
      {{"model_type", "gla"},
       {"tokenizer", "bytes"},
       {"expand_k", 0.5},
       {"expand_v", 1.0},
       {"use_short_conv", true},
       {"conv_size", 4}},
      [D](const std::string& attn, Builder& to) {
        AddDecay(attn, D, D / 2, to);
        to.Uniform(attn + "q_conv1d.weight", {D / 2, 1, 4}, -0.5, 0.5);
        to.Uniform(attn + "k_conv1d.weight", {D / 2, 1, 4}, -0.5, 0.5);
        to.Uniform(attn + "v_conv1d.weight", {D, 1, 4}, -0.5, 0.5);
      });
}

RandomModel Retnet(const Sizes& sizes) {
  return FlaModel(
      sizes, sizes.hidden, 2 * sizes.hidden,
      {{"model_type", "retnet"}, {"expand_k", 1.0}, {"expand_v", 2.0}},
      [](const std::string&, Builder&) {});
}

constexpr size_t kLfm2Softmax[] = {2, 5, 8, 10, 12, 14};
constexpr size_t kGraniteSoftmax[] = {10, 13, 17, 27};

struct NamedShape {
  const char* name;
  RandomModel (*make)(const Sizes& sizes);
  Sizes sizes;
};

// The sizes of the checkpoints that are published under these names
// (state-spaces; flash-linear-attention; Qwen; LiquidAI; IBM). The last four
// are small.
constexpr NamedShape kShapes[] = {
    {"mamba2-130m",
     Mamba2,
     {.hidden = 768, .layers = 24, .vocab = 50288, .state = 128, .head = 64}},
    {"mamba2-370m",
     Mamba2,
     {.hidden = 1024, .layers = 48, .vocab = 50288, .state = 128, .head = 64}},
    {"gla-340m",
     Gla,
     {.hidden = 1024,
      .layers = 24,
      .vocab = 32000,
      .heads = 4,
      .intermediate = 2816}},
    {"gla-1.3b",
     Gla,
     {.hidden = 2048,
      .layers = 24,
      .vocab = 32000,
      .heads = 4,
      .intermediate = 5632}},
    {"retnet-1.3b",
     Retnet,
     {.hidden = 2048,
      .layers = 24,
      .vocab = 32000,
      .heads = 8,
      .intermediate = 2816}},
    {"qwen3.5-0.8b",
     Qwen35,
     {.hidden = 1024,
      .layers = 24,
      .vocab = 248320,
      .heads = 16,
      .intermediate = 3584,
      .softmax_heads = 8,
      .kv_heads = 2}},
    {"lfm2-1.2b",
     Lfm2,
     {.hidden = 2048,
      .layers = 16,
      .vocab = 65536,
      .intermediate = 12288,
      .softmax_heads = 32,
      .kv_heads = 8,
      .softmax_layers = kLfm2Softmax}},
    {"granite-4.0-h-350m",
     Granite,
     {.hidden = 768,
      .layers = 32,
      .vocab = 100352,
      .intermediate = 2048,
      .state = 128,
      .head = 32,
      .softmax_heads = 12,
      .kv_heads = 4,
      .softmax_layers = kGraniteSoftmax}},
    {"demo",
     Demo,
     {.hidden = 256,
      .layers = 5,
      .vocab = 256,
      .heads = 8,
      .intermediate = 512}},
    {"mamba2-tiny",
     Mamba2,
     {.hidden = 64, .layers = 2, .vocab = 256, .state = 32, .head = 16}},
    {"gla-tiny",  // a state of 16 KiB
     Gla,
     {.hidden = 128,
      .layers = 2,
      .vocab = 256,
      .heads = 4,
      .intermediate = 256}},
    {"noop",
     Gla,
     {.hidden = 8, .layers = 1, .vocab = 16, .heads = 1, .intermediate = 8}},
};

}  // namespace

size_t RandomTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), size_t{1},
                         std::multiplies<>());
}

std::vector<std::string> ShapeNames() {
  std::vector<std::string> names;
  for (const NamedShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

absl::StatusOr<RandomModel> MakeShape(absl::string_view name) {
  for (const NamedShape& shape : kShapes) {
    if (name == shape.name) return shape.make(shape.sizes);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--shape is '", name, "'; it must be one of ",
                   absl::StrJoin(ShapeNames(), ", ")));
}

}  // namespace steadystate::bench
