#include "tests/testing/direct_session.h"

namespace steadystate {

DirectSession::DirectSession(const Model& model, size_t max_rows,
                             size_t threads)
    : model_(model),
      pool_(threads),
      workspace_(model.MakeWorkspace(max_rows, pool_)),
      state_(model.state_layout().bytes() / sizeof(float)) {}

std::vector<float> DirectSession::Feed(std::span<const int32_t> tokens) {
  std::vector<InputRow> rows;
  for (const int32_t token : tokens) rows.push_back({.token = token});
  const Segment segment = {.state = reinterpret_cast<std::byte*>(state_.data()),
                           .position = position_,
                           .first_row = 0,
                           .rows = rows.size()};
  const ModelDescription& description = model_.description();
  std::vector<float> hidden(rows.size() * description.hidden_size);
  std::vector<float> logits(rows.size() * description.vocab_size);
  model_.Forward(rows, {&segment, 1}, hidden.data(), workspace_);
  model_.Head(rows.size(), hidden.data(), logits.data(), workspace_);
  position_ += rows.size();
  return logits;
}

std::span<const std::byte> DirectSession::state() const {
  return {reinterpret_cast<const std::byte*>(state_.data()),
          model_.state_layout().bytes()};
}

}  // namespace steadystate
