#include "server/model/decoder.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/parts/projection.h"

namespace steadystate {

Embedding::Embedding(TypedData table, size_t vocab_size, size_t hidden_size,
                     DType weights)
    : hidden_size_(hidden_size),
      dtype_(weights == DType::kBf16 ? DType::kBf16 : table.dtype),
      bytes_(vocab_size * hidden_size * SizeOf(dtype_)) {
  if (table.dtype == dtype_) {
    std::memcpy(bytes_.data(), table.data, bytes_.size());
    return;
  }
  std::vector<float> row(hidden_size);
  auto* to = reinterpret_cast<uint16_t*>(bytes_.data());
  for (size_t token = 0; token < vocab_size; ++token) {
    ConvertToF32(table, token * hidden_size, hidden_size, row.data());
    ConvertToBf16(hidden_size, row.data(), to + token * hidden_size);
  }
}

void Embedding::Row(int32_t token, float* to) const {
  ConvertToF32(table(), static_cast<size_t>(token) * hidden_size_, hidden_size_,
               to);
}

namespace {

constexpr absl::string_view kHead = "lm_head.weight";

// How the names of the model's tensors begin.
absl::string_view PrefixOf(const ModelFrame& frame, const WeightScope& root) {
  const auto found =
      std::ranges::find_if(frame.inner_models, [&](absl::string_view prefix) {
        return root.Has(absl::StrCat(prefix, frame.embeddings));
      });
  return found == frame.inner_models.end() ? frame.model : *found;
}

// INVALID_ARGUMENT if the head is missing: what has lost it while it was
// fetched would otherwise be another model, without a word.
absl::StatusOr<bool> IsTied(const Config& config, const ModelConfig& model,
                            absl::string_view embeddings,
                            const WeightScope& root) {
  if (root.Has(kHead)) {
    return model.tied_head == TiedHead::kYes ||
           (model.tied_head == TiedHead::kUnlessStored &&
            root.Equal(kHead, embeddings));
  }
  if (model.tied_head != TiedHead::kNever) return true;
  return config.Invalid(
      model.tied_head_key,
      absl::StrCat("so the weights must have the tensor '", kHead,
                   "', and they do not. Were all of them fetched? `hf "
                   "download` goes on where it ended"));
}

// What the file calls them.
absl::string_view EmbeddingsOf(const ModelFrame& frame,
                               const WeightScope& body) {
  const bool other = !frame.other_embeddings.empty() &&
                     body.Has(frame.other_embeddings) &&
                     !body.Has(frame.embeddings);
  return other ? frame.other_embeddings : frame.embeddings;
}

}  // namespace

absl::StatusOr<Decoder> Decoder::Make(const Config& config,
                                      const ModelConfig& model,
                                      uint64_t context_cap, DType weights,
                                      WeightStore& store,
                                      LinearFactory& linears,
                                      StateLayoutBuilder& state) {
  const size_t D = model.hidden_size;
  const size_t N = model.vocab_size;
  const WeightScope root(store, "");
  const ModelFrame& frame = model.family->frame;
  const absl::string_view prefix = PrefixOf(frame, root);
  const WeightScope body = root.Child(prefix);
  Decoder decoder;
  decoder.hidden_size_ = D;
  const absl::string_view embeddings = EmbeddingsOf(frame, body);
  STEADYSTATE_ASSIGN_OR_RETURN(const TypedData table,
                               body.Take(embeddings, {N, D}));
  decoder.embedding_.emplace(table, N, D, weights);
  if (!model.input_norm.empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        decoder.input_norm_, Norm::Make(model.norm, body, model.input_norm, D));
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        Layer layer,
        Layer::Make(model,
                    {.layer = i,
                     .layers = model.layers.size(),
                     .hidden_size = D,
                     .norm_eps = model.norm.eps,
                     .context_cap = context_cap,
                     .config = config,
                     .model = body,
                     .weights = body.Child(absl::StrCat(frame.layers, i, ".")),
                     .linears = linears,
                     .state = state,
                     .scratch = decoder.scratch_}));
    decoder.layers_.push_back(std::move(layer));
  }
  const std::string final_norm = absl::StrCat(frame.final_norm, ".weight");
  if (!model.final_norm_may_be_missing || body.Has(final_norm)) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        decoder.final_norm_, Norm::Make(model.norm, body, frame.final_norm, D));
  }
  decoder.embedding_multiplier_ = model.embedding_multiplier;
  decoder.logit_divisor_ = model.logit_divisor;
  decoder.logit_multiplier_ = model.logit_multiplier;
  decoder.logit_cap_ = model.logit_cap;
  TypedData head = decoder.embedding_->table();
  STEADYSTATE_ASSIGN_OR_RETURN(
      decoder.tied_,
      IsTied(config, model, absl::StrCat(prefix, embeddings), root));
  if (!decoder.tied_) {
    STEADYSTATE_ASSIGN_OR_RETURN(head, root.Take(kHead, {N, D}));
  }
  // Wide: nothing behind the head makes up for what int4 would lose.
  const WeightRows head_rows = {head, N, /*wide=*/true};
  STEADYSTATE_ASSIGN_OR_RETURN(decoder.head_, linears.Make(D, {{head_rows}}));
  return decoder;
}

void Decoder::Forward(std::span<const InputRow> rows,
                      std::span<const Segment> segments, float* hidden,
                      Workspace& workspace) const {
  const RowClass row_class = RowClassOf(segments.front());
  const auto other =
      std::ranges::find_if(segments, [row_class](const Segment& segment) {
        return RowClassOf(segment) != row_class;
      });
  const bool one_class = other == segments.end();
  const size_t count = one_class ? rows.size() : other->first_row;
  float* residual = workspace.residual();
  Embed(rows.first(count), residual, workspace);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    ForwardLayer(layer, {segments.begin(), other}, count, residual, workspace);
  }
  Finish(count, residual, hidden, workspace);
  if (one_class) return;
  std::vector<Segment> rest(other, segments.end());
  for (Segment& segment : rest) segment.first_row -= count;
  Forward(rows.subspan(count), rest, hidden + count * hidden_size_, workspace);
}

void Decoder::Embed(std::span<const InputRow> rows, float* residual,
                    Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t D = hidden_size_;
  buffers.phases.Start();
  buffers.ForRows(rows.size(), D, [&](size_t row, size_t) {
    const InputRow& input = rows[row];
    if (input.embedding != nullptr) {
      std::copy_n(input.embedding, D, residual + row * D);
    } else {
      embedding_->Row(input.token, residual + row * D);
    }
    Scale(embedding_multiplier_, D, residual + row * D);
    if (input_norm_.has_value()) {
      input_norm_->Apply(residual + row * D, residual + row * D);
    }
  });
  buffers.phases.Enter(Phase::kOther);
}

std::optional<size_t> Decoder::FirstCausalLayer() const {
  const auto found = std::ranges::find_if_not(layers_, &Layer::bidirectional);
  if (found == layers_.end()) return std::nullopt;
  return static_cast<size_t>(found - layers_.begin());
}

void Decoder::ForwardLayer(size_t layer, std::span<const Segment> segments,
                           size_t rows, float* residual,
                           Workspace& workspace) const {
  PhaseTimer& phases = workspace.buffers().phases;
  const Layer& at = layers_[layer];
  workspace.buffers().row_class = RowClassOf(segments.front());
  phases.Start();
  if (segments.front().pass == Pass::kAbsorb) {
    at.Absorb(segments, rows, residual, workspace);
  } else {
    at.Forward(segments, rows, residual, workspace);
  }
  phases.Enter(Phase::kOther);
}

void Decoder::Finish(size_t rows, const float* residual, float* hidden,
                     Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const size_t D = hidden_size_;
  buffers.phases.Start();
  buffers.ForRows(rows, D, [&](size_t row, size_t) {
    if (final_norm_.has_value()) {
      final_norm_->Apply(residual + row * D, hidden + row * D);
    } else {
      std::copy_n(residual + row * D, D, hidden + row * D);
    }
  });
  buffers.phases.Enter(Phase::kOther);
}

void Decoder::Head(size_t rows, const float* hidden, float* logits,
                   Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  buffers.phases.Start();
  // Whatever piece a row of the hidden vectors comes from.
  buffers.row_class = RowClass::kDecode;
  buffers.Project(*head_, rows, hidden, head_->in(), logits, head_->out());
  if (logit_cap_ == 0 && logit_divisor_ == 1 && logit_multiplier_ == 1) return;
  const size_t N = head_->out();
  buffers.ForRows(rows, N, [&](size_t row, size_t) {
    float* const to = logits + row * N;
    Scale(logit_multiplier_, N, to);
    if (logit_divisor_ != 1) {
      for (size_t i = 0; i < N; ++i) to[i] /= logit_divisor_;
    }
    if (logit_cap_ != 0) SoftCap(N, logit_cap_, to, to);
  });
}

}  // namespace steadystate
