#include "server/model/decoder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<Decoder> Decoder::Make(const Config& config,
                                      const ModelConfig& model,
                                      uint64_t context_cap, DType weights,
                                      WeightStore& store,
                                      LinearFactory& linears,
                                      StateLayoutBuilder& state) {
  const size_t D = model.hidden_size;
  const size_t N = model.vocab_size;
  const WeightScope root(store, "");
  Decoder decoder;
  decoder.eps_ = model.norm_eps;
  STEADYSTATE_ASSIGN_OR_RETURN(const TypedData table,
                               root.Take("model.embeddings.weight", {N, D}));
  decoder.embedding_.emplace(table, N, D, weights);
  for (size_t layer = 0; layer < model.softmax.size(); ++layer) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        Block block, Block::Make(model, {.layer = layer,
                                         .hidden_size = D,
                                         .norm_eps = model.norm_eps,
                                         .context_cap = context_cap,
                                         .config = config,
                                         .weights = root.Child(absl::StrCat(
                                             "model.layers.", layer, ".")),
                                         .linears = linears,
                                         .state = state,
                                         .scratch = decoder.scratch_}));
    decoder.blocks_.push_back(std::move(block));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(decoder.final_norm_,
                               root.TakeFloats("model.norm.weight", {D}));
  TypedData head = decoder.embedding_->table();
  if (!model.tied_head && root.Has("lm_head.weight")) {
    STEADYSTATE_ASSIGN_OR_RETURN(head, root.Take("lm_head.weight", {N, D}));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(decoder.head_, linears.Make(D, {{{head, N}}}));
  return decoder;
}

void Decoder::Forward(std::span<const InputRow> rows,
                      std::span<const Segment> segments, float* hidden,
                      Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t D = final_norm_.size();
  float* residual = buffers.residual.data();
  buffers.phases.Start();
  buffers.ForRows(rows.size(), D, [&](size_t row, size_t) {
    const InputRow& input = rows[row];
    if (input.embedding != nullptr) {
      std::copy_n(input.embedding, D, residual + row * D);
    } else {
      embedding_->Row(input.token, residual + row * D);
    }
  });
  for (const Block& block : blocks_) {
    block.Forward(segments, rows.size(), workspace);
  }
  buffers.ForRows(rows.size(), D, [&](size_t row, size_t) {
    RmsNorm(D, residual + row * D, final_norm_.data(), eps_, hidden + row * D);
  });
  buffers.phases.Enter(Phase::kOther);
}

void Decoder::Head(size_t rows, const float* hidden, float* logits,
                   Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  buffers.phases.Start();
  buffers.Project(*head_, rows, hidden, head_->in(), logits, head_->out());
}

}  // namespace steadystate
