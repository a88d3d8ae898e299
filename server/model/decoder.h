#ifndef STEADYSTATE_SERVER_MODEL_DECODER_H_
#define STEADYSTATE_SERVER_MODEL_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/layer.h"
#include "server/model/mixer.h"
#include "server/model/norm.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"

namespace steadystate {

// The table of token embeddings, [vocab_size, D], kept in the checkpoint's own
// element type; with bf16 weights it is kept as bf16 whatever it was. One row
// is converted at a time. Immutable; thread-safe.
class Embedding {
 public:
  // Copies `table`, which holds vocab_size * hidden_size elements.
  Embedding(TypedData table, size_t vocab_size, size_t hidden_size,
            DType weights);

  //   to  f32[D]  out.   REQUIRES: 0 <= token < vocab_size.
  void Row(int32_t token, float* to) const;

  // The table as kept: a tied head multiplies by the same values.
  TypedData table() const { return {bytes_.data(), dtype_}; }

 private:
  size_t hidden_size_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

// The causal language model: embedding, layers, final norm, head. Immutable;
// thread-safe given distinct workspaces.
class Decoder {
 public:
  Decoder() = default;

  // Pulls all weights and declares all state. Errors as Model::Load.
  static absl::StatusOr<Decoder> Make(const Config& config,
                                      const ModelConfig& model,
                                      uint64_t context_cap, DType weights,
                                      WeightStore& store,
                                      LinearFactory& linears,
                                      StateLayoutBuilder& state);

  // As the methods of Model.
  void Forward(std::span<const InputRow> rows,
               std::span<const Segment> segments, float* hidden,
               Workspace& workspace) const;
  void Embed(std::span<const InputRow> rows, float* residual,
             Workspace& workspace) const;
  void ForwardLayer(size_t layer, std::span<const Segment> segments,
                    size_t rows, float* residual, Workspace& workspace) const;
  void Finish(size_t rows, const float* residual, float* hidden,
              Workspace& workspace) const;
  void Head(size_t rows, const float* hidden, float* logits,
            Workspace& workspace) const;

  // The first layer that has no bidirectional pass, if there is one.
  std::optional<size_t> FirstCausalLayer() const;

  const ScratchSize& scratch() const { return scratch_; }
  // True if the head is the embedding table.
  bool tied() const { return tied_; }

 private:
  size_t hidden_size_ = 0;
  ScratchSize scratch_;
  std::optional<Embedding> embedding_;
  std::optional<Norm> input_norm_;
  std::vector<Layer> layers_;
  std::optional<Norm> final_norm_;
  std::unique_ptr<Linear> head_;  // D -> vocab_size
  bool tied_ = false;
  float embedding_multiplier_ = 1;
  float logit_divisor_ = 1;
  float logit_multiplier_ = 1;
  float logit_cap_ = 0;  // 0: none
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_DECODER_H_
