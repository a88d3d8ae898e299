// Goal: a warm model computes without allocating. Method: every operator new of
// the program is counted.
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/thread_pool.h"
#include "server/model/model.h"
#include "server/model/sampler.h"
#include "server/model/workspace.h"
#include "tests/testing/allocation_counter.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::allocation_test {
namespace {

constexpr size_t kSessions = 5;
constexpr size_t kRowsEach = 3;

// Runs a batch of all sessions; each call takes the next positions.
class Batch {
 public:
  explicit Batch(const Model& model)
      : model_(model),
        pool_(1),
        workspace_(model.MakeWorkspace(kSessions * kRowsEach, pool_)),
        hidden_(rows_.size() * model.description().hidden_size),
        logits_(rows_.size() * model.description().vocab_size) {
    for (size_t i = 0; i < kSessions; ++i) {
      states_.emplace_back(model.state_layout().bytes() / sizeof(float));
      segments_.push_back(
          {.state = reinterpret_cast<std::byte*>(states_[i].data()),
           .position = 0,
           .first_row = i * kRowsEach,
           .rows = kRowsEach});
    }
  }

  void Run() {
    model_.Forward(rows_, segments_, hidden_.data(), workspace_);
    model_.Head(rows_.size(), hidden_.data(), logits_.data(), workspace_);
    workspace_.TakePhases();
    for (Segment& segment : segments_) segment.position += kRowsEach;
  }

  std::span<const float> logits() const {
    return {logits_.data(), model_.description().vocab_size};
  }

 private:
  const Model& model_;
  ThreadPool pool_;
  Workspace workspace_;
  std::vector<AlignedFloats> states_;
  std::vector<Segment> segments_;
  std::vector<InputRow> rows_{kSessions * kRowsEach, InputRow{.token = 3}};
  std::vector<float> hidden_;
  std::vector<float> logits_;
};

TEST(AllocationTest, AWarmForwardPassAllocatesNothing) {
  const TinyModel tiny({.layers = 3, .short_conv = true, .softmax_layer = 1});
  const auto model = tiny.Load();
  Batch batch(*model);
  batch.Run();
  const uint64_t before = CountAllocations();
  batch.Run();
  batch.Run();
  EXPECT_EQ(CountAllocations() - before, 0u);
}

TEST(AllocationTest, AWarmSamplerAllocatesNothing) {
  const TinyModel tiny;
  const auto model = tiny.Load();
  Batch batch(*model);
  batch.Run();
  SamplingParams params;
  params.logit_bias = {{1, 1.0f}};
  params.presence_penalty = 1;
  params.top_k = 40;
  params.top_p = 0.9;
  params.min_p = 0.01;
  const std::vector<int32_t> recent = {1, 2, 3};
  Sampler sampler(model->description().vocab_size);
  sampler.Sample(batch.logits(), params, recent, 0);
  const uint64_t before = CountAllocations();
  sampler.Sample(batch.logits(), params, recent, 1);
  EXPECT_EQ(CountAllocations() - before, 0u);
}

}  // namespace
}  // namespace steadystate::allocation_test
