#include "tests/server/engine/simulation/past.h"

#include <algorithm>
#include <span>
#include <utility>

namespace steadystate {

Reference::Reference(const Model& model, size_t piece_rows)
    : model_(model),
      piece_rows_(piece_rows),
      pool_(1),
      workspace_(model.MakeWorkspace(piece_rows, pool_)),
      state_(model.state_layout().bytes() / sizeof(float)),
      state_floats_(model.state_layout().bytes() / sizeof(float)),
      sampler_(model.description().vocab_size) {
  auto begin = std::make_shared<Past>();
  begin->state.resize(state_floats_);
  begin_ = std::move(begin);
}

PastPtr Reference::Absorb(const PastPtr& before, std::vector<int32_t> tokens,
                          const std::vector<float>& embeddings, bool drawn) {
  const size_t width = hidden_size();
  if (tokens.empty()) tokens.assign(embeddings.size() / width, -1);
  std::vector<InputRow> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back(
        {.token = tokens[i],
         .embedding = tokens[i] < 0 ? &embeddings[i * width] : nullptr});
  }
  std::copy(before->state.begin(), before->state.end(), state_.data());
  const Segment segment = {.state = reinterpret_cast<std::byte*>(state_.data()),
                           .position = before->position,
                           .first_row = 0,
                           .rows = rows.size()};
  auto after = std::make_shared<Past>();
  after->hidden.resize(rows.size() * width);
  model_.Forward(rows, {&segment, 1}, after->hidden.data(), workspace_);
  after->before = before;
  after->position = before->position + rows.size();
  after->tokens = std::move(tokens);
  after->embeddings = embeddings;
  after->drawn = drawn;
  after->state.assign(state_.data(), state_.data() + state_floats_);
  return after;
}

std::vector<float> Reference::Logits(const Past& past) {
  std::vector<float> logits(model_.description().vocab_size);
  const float* const last = past.hidden.data() + past.hidden.size() -
                            model_.description().hidden_size;
  model_.Head(1, last, logits.data(), workspace_);
  return logits;
}

std::vector<float> Reference::AllLogits(const Past& past) {
  const size_t rows = past.tokens.size();
  std::vector<float> logits(rows * model_.description().vocab_size);
  model_.Head(rows, past.hidden.data(), logits.data(), workspace_);
  return logits;
}

int32_t Reference::Draw(const PastPtr& past, const SamplingParams& params) {
  return sampler_.Sample(Logits(*past), params,
                         LatestTokens(*past, RecentWanted(params), false),
                         past->position);
}

std::vector<int32_t> LatestTokens(const Past& past, size_t count,
                                  bool with_embeddings) {
  std::vector<int32_t> latest;
  for (const Past* at = &past; at != nullptr; at = at->before.get()) {
    for (auto token = at->tokens.rbegin();
         token != at->tokens.rend() && latest.size() < count; ++token) {
      if (with_embeddings || *token >= 0) latest.push_back(*token);
    }
    if (latest.size() == count) break;
  }
  std::reverse(latest.begin(), latest.end());
  return latest;
}

PastPtr PastAt(Reference& reference, const PastPtr& past, uint64_t position) {
  PastPtr at = past;
  PastPtr after;
  while (at->position > position) {
    after = at;
    at = at->before;
  }
  if (at->position == position) return at;
  const auto rows = static_cast<size_t>(position - at->position);
  std::vector<int32_t> tokens = after->tokens;
  std::vector<float> embeddings = after->embeddings;
  tokens.resize(rows);
  if (!embeddings.empty()) embeddings.resize(rows * reference.hidden_size());
  return reference.Absorb(at, std::move(tokens), embeddings, after->drawn);
}

}  // namespace steadystate
