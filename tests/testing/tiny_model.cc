#include "tests/testing/tiny_model.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "absl/strings/str_cat.h"

namespace steadystate {
namespace {

constexpr size_t kDecayRank = 16;

// Collects random tensors.
class Builder {
 public:
  explicit Builder(const TinyModelOptions& options)
      : options_(options), random_(options.seed) {}

  // Uniform in [center - width, center + width).
  void Add(const std::string& name, std::initializer_list<size_t> shape,
           double center, double width) {
    TensorContents tensor{options_.stored, shape, {}};
    size_t count = 1;
    for (const size_t dimension : shape) count *= dimension;
    for (size_t i = 0; i < count; ++i) {
      tensor.values.push_back(static_cast<float>(center + width * Next()));
    }
    tensors_[name] = std::move(tensor);
  }

  // A weight matrix that keeps the size of its input.
  void AddMatrix(const std::string& name, size_t out, size_t in) {
    Add(name, {out, in}, 0, std::sqrt(3.0 / static_cast<double>(in)));
  }

  void AddNorm(const std::string& name, size_t size) {
    Add(name, {size}, 1, 0.2);
  }

  std::map<std::string, TensorContents> Take() { return std::move(tensors_); }

 private:
  // In [-1, 1): splitmix64.
  double Next() {
    random_ += 0x9E3779B97F4A7C15;
    uint64_t z = random_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-52 - 1;
  }

  const TinyModelOptions& options_;
  uint64_t random_;
  std::map<std::string, TensorContents> tensors_;
};

void AddGla(const TinyModelOptions& options, const std::string& prefix,
            Builder& to) {
  const size_t D = options.hidden_size;
  const size_t key = D / 2;
  const size_t kv_key = key / options.heads * options.kv_heads;
  const size_t kv_value = D / options.heads * options.kv_heads;
  to.AddMatrix(prefix + "q_proj.weight", key, D);
  to.AddMatrix(prefix + "k_proj.weight", kv_key, D);
  to.AddMatrix(prefix + "v_proj.weight", kv_value, D);
  to.AddMatrix(prefix + "o_proj.weight", D, D);
  if (options.output_gate) to.AddMatrix(prefix + "g_proj.weight", D, D);
  to.AddMatrix(prefix + "gk_proj.0.weight", kDecayRank, D);
  to.AddMatrix(prefix + "gk_proj.1.weight", kv_key, kDecayRank);
  to.Add(prefix + "gk_proj.1.bias", {kv_key}, 1, 2);
  to.AddNorm(prefix + (options.output_gate ? "g_norm_swish_gate.weight"
                                           : "g_norm.weight"),
             D / options.heads);
  if (options.short_conv) {
    to.Add(prefix + "q_conv1d.weight", {key, 1, 4}, 0, 0.8);
    to.Add(prefix + "k_conv1d.weight", {kv_key, 1, 4}, 0, 0.8);
    to.Add(prefix + "v_conv1d.weight", {kv_value, 1, 4}, 0, 0.8);
  }
}

void AddSoftmax(const TinyModelOptions& options, const std::string& prefix,
                Builder& to) {
  const size_t D = options.hidden_size;
  const size_t kv = D / options.heads * options.kv_heads;
  to.AddMatrix(prefix + "q_proj.weight", D, D);
  to.AddMatrix(prefix + "k_proj.weight", kv, D);
  to.AddMatrix(prefix + "v_proj.weight", kv, D);
  to.AddMatrix(prefix + "o_proj.weight", D, D);
}

nlohmann::json MakeConfig(const TinyModelOptions& options) {
  nlohmann::json config = {
      {"model_type", "gla"},
      {"vocab_size", options.vocab_size},
      {"hidden_size", options.hidden_size},
      {"num_hidden_layers", options.layers},
      {"num_heads", options.heads},
      {"num_kv_heads", options.kv_heads},
      {"intermediate_size", options.intermediate_size},
      {"use_short_conv", options.short_conv},
      {"use_output_gate", options.output_gate},
      {"max_position_embeddings", options.max_position_embeddings},
      {"bos_token_id", nullptr},
      {"eos_token_id", options.eos_tokens}};
  if (options.byte_tokenizer) config["tokenizer"] = "bytes";
  if (options.softmax_layer.has_value()) {
    config["attn"] = {{"layers", {*options.softmax_layer}},
                      {"num_heads", options.heads},
                      {"num_kv_heads", options.kv_heads}};
    if (options.softmax_window > 0) {
      config["attn"]["window_size"] = options.softmax_window;
    }
  }
  return config;
}

}  // namespace

CheckpointContents MakeTinyCheckpoint(const TinyModelOptions& options) {
  const size_t D = options.hidden_size;
  const size_t I = options.intermediate_size;
  Builder builder(options);
  builder.Add("model.embeddings.weight", {options.vocab_size, D}, 0, 1);
  for (size_t layer = 0; layer < options.layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    builder.AddNorm(prefix + "attn_norm.weight", D);
    if (options.softmax_layer == layer) {
      AddSoftmax(options, prefix + "attn.", builder);
    } else {
      AddGla(options, prefix + "attn.", builder);
    }
    builder.AddNorm(prefix + "mlp_norm.weight", D);
    builder.AddMatrix(prefix + "mlp.gate_proj.weight", I, D);
    builder.AddMatrix(prefix + "mlp.up_proj.weight", I, D);
    builder.AddMatrix(prefix + "mlp.down_proj.weight", D, I);
  }
  builder.AddNorm("model.norm.weight", D);
  builder.Add("lm_head.weight", {options.vocab_size, D}, 0,
              4 / std::sqrt(static_cast<double>(D)));
  return {MakeConfig(options), builder.Take()};
}

TinyModel::TinyModel(const TinyModelOptions& options) {
  WriteCheckpoint(MakeTinyCheckpoint(options), path());
}

std::shared_ptr<const Model> TinyModel::Load(DType weight_dtype) const {
  auto model =
      Model::Load({.path = path(), .id = "tiny", .weight_dtype = weight_dtype});
  if (!model.ok()) {
    std::fprintf(stderr, "tiny model: %s\n", model.status().ToString().c_str());
    std::abort();
  }
  return *std::move(model);
}

}  // namespace steadystate
