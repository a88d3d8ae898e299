#include "server/model/model.h"

#include <utility>

#include "server/model/model_loader.h"
#include "server/model/model_parts.h"

namespace steadystate {

absl::StatusOr<std::shared_ptr<const Model>> Model::Load(
    const ModelOptions& options) {
  return ModelLoader::Load(options);
}

Model::Model(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Model::~Model() = default;

const ModelDescription& Model::description() const {
  return parts_->description;
}

const StateLayout& Model::state_layout() const { return parts_->layout; }

const Tokenizer* Model::tokenizer() const { return parts_->tokenizer.get(); }

void Model::Forward(std::span<const InputRow> rows,
                    std::span<const Segment> segments, float* hidden,
                    Workspace& workspace) const {
  parts_->decoder.Forward(rows, segments, hidden, workspace);
}

std::optional<size_t> Model::FirstCausalLayer() const {
  return parts_->decoder.FirstCausalLayer();
}

void Model::Embed(std::span<const InputRow> rows, float* residual,
                  Workspace& workspace) const {
  parts_->decoder.Embed(rows, residual, workspace);
}

void Model::ForwardLayer(size_t layer, std::span<const Segment> segments,
                         size_t rows, float* residual,
                         Workspace& workspace) const {
  parts_->decoder.ForwardLayer(layer, segments, rows, residual, workspace);
}

void Model::Finish(size_t rows, const float* residual, float* hidden,
                   Workspace& workspace) const {
  parts_->decoder.Finish(rows, residual, hidden, workspace);
}

void Model::Head(size_t rows, const float* hidden, float* logits,
                 Workspace& workspace) const {
  parts_->decoder.Head(rows, hidden, logits, workspace);
}

}  // namespace steadystate
