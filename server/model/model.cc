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

void Model::Head(size_t rows, const float* hidden, float* logits,
                 Workspace& workspace) const {
  parts_->decoder.Head(rows, hidden, logits, workspace);
}

}  // namespace steadystate
