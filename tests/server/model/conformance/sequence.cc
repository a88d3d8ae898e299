#include "tests/server/model/conformance/sequence.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/thread_pool.h"
#include "server/model/registry.h"
#include "server/model/workspace.h"

namespace steadystate {

std::vector<std::string> AllFamilies() {
  std::vector<std::string> names;
  for (const Family& family : Families()) {
    names.emplace_back(family.model_type);
  }
  return names;
}

std::string GoldenFolder(const std::string& model_type) {
  return STEADYSTATE_SOURCE_DIR "/tests/golden/" + model_type;
}

std::shared_ptr<const Model> LoadGolden(const std::string& directory,
                                        DType weights) {
  auto model = Model::Load({.path = directory, .weight_dtype = weights});
  if (!model.ok()) {
    std::fprintf(stderr, "%s: %s\n", directory.c_str(),
                 model.status().ToString().c_str());
    std::abort();
  }
  return *std::move(model);
}

Sequence::Sequence(const Model& model) : state_(model.state_layout().bytes()) {}

void Sequence::Restore(std::vector<std::byte> state, uint64_t position) {
  state_ = std::move(state);
  position_ = position;
}

Runner::Runner(const Model& model, size_t max_rows, size_t threads)
    : model_(model),
      pool_(threads),
      workspace_(model.MakeWorkspace(max_rows, pool_)) {}

Runner::~Runner() = default;

std::vector<float> Runner::Forward(std::span<const Fed> parts) {
  std::vector<InputRow> rows;
  std::vector<Segment> segments;
  // States of the model are aligned; those of a test are where they are.
  std::vector<AlignedFloats> states;
  for (const Fed& part : parts) {
    std::vector<std::byte>& state = part.sequence->state_;
    states.emplace_back(state.size() / sizeof(float));
    auto* const aligned = reinterpret_cast<std::byte*>(states.back().data());
    std::copy(state.begin(), state.end(), aligned);
    segments.push_back({.state = aligned,
                        .position = part.sequence->position_,
                        .first_row = rows.size(),
                        .rows = part.tokens.size()});
    for (const int32_t token : part.tokens) rows.push_back({.token = token});
    part.sequence->position_ += part.tokens.size();
  }
  std::vector<float> hidden(rows.size() * model_.description().hidden_size);
  model_.Forward(rows, segments, hidden.data(), workspace_);
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::byte>& state = parts[i].sequence->state_;
    std::copy_n(segments[i].state, state.size(), state.begin());
  }
  return hidden;
}

std::vector<float> Runner::Head(size_t rows, const float* hidden) {
  std::vector<float> logits(rows * model_.description().vocab_size);
  model_.Head(rows, hidden, logits.data(), workspace_);
  return logits;
}

std::vector<std::vector<float>> Runner::FeedTogether(
    std::span<const Fed> parts) {
  const std::vector<float> hidden = Forward(parts);
  const size_t D = model_.description().hidden_size;
  const std::vector<float> all = Head(hidden.size() / D, hidden.data());
  std::vector<std::vector<float>> logits;
  const float* next = all.data();
  for (const Fed& part : parts) {
    const float* const end =
        next + part.tokens.size() * model_.description().vocab_size;
    logits.emplace_back(next, end);
    next = end;
  }
  return logits;
}

std::vector<float> Runner::Feed(Sequence& sequence,
                                std::span<const int32_t> tokens,
                                std::span<const size_t> pieces) {
  std::vector<float> logits;
  for (size_t i = 0; !tokens.empty(); ++i) {
    const size_t size = std::min(pieces[i % pieces.size()], tokens.size());
    const Fed part = {&sequence, tokens.first(size)};
    const auto piece = FeedTogether({&part, 1});
    logits.insert(logits.end(), piece[0].begin(), piece[0].end());
    tokens = tokens.subspan(size);
  }
  return logits;
}

std::vector<float> Runner::FeedForLast(Sequence& sequence,
                                       std::span<const int32_t> tokens,
                                       std::span<const size_t> pieces) {
  const size_t D = model_.description().hidden_size;
  std::vector<float> hidden;
  for (size_t i = 0; !tokens.empty(); ++i) {
    const size_t size = std::min(pieces[i % pieces.size()], tokens.size());
    const Fed part = {&sequence, tokens.first(size)};
    hidden = Forward({&part, 1});
    tokens = tokens.subspan(size);
  }
  return Head(1, hidden.data() + hidden.size() - D);
}

std::vector<int32_t> RandomTokens(const Model& model, size_t count,
                                  uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % model.description().vocab_size);
  }
  return tokens;
}

std::vector<size_t> RandomPieces(size_t count, size_t most, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<size_t> pieces(count);
  for (size_t& piece : pieces) piece = 1 + random() % most;
  return pieces;
}

double RelativeRmsDifference(std::span<const float> a,
                             std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace steadystate
