// Goal: requests of steps go round without a trace of the step before, and
// keep no more than a little memory. Pure bookkeeping, no threads.
#include "server/engine/step_pool.h"

#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate {
namespace {

constexpr size_t kHidden = 4;

class NoSink final : public StepSink {
 public:
  void OnSteps(std::span<const StepAnswer>) override {}
  void OnRoundEnd() override {}
};

StepRequest LargeRequest() {
  StepRequest request;
  request.session = "large";
  request.expected_position = 3;
  request.embeddings.assign(1000 * kHidden, 0.5f);
  request.outputs.sampling.emplace().logit_bias.assign(1000, {1, 0.5f});
  return request;
}

TEST(StepPoolTest, GivesOutWhatCameBack) {
  StepPool pool(kHidden, 8);
  std::vector<std::unique_ptr<Request>> requests;
  pool.Take(3, requests);
  ASSERT_EQ(requests.size(), 3u);
  std::set<const Request*> first;
  for (const auto& request : requests) {
    EXPECT_EQ(request->task.get(), request->step);
    first.insert(request.get());
  }
  pool.GiveBack(requests);
  EXPECT_TRUE(requests.empty());
  pool.Take(4, requests);
  ASSERT_EQ(requests.size(), 4u);
  for (const auto& request : requests) first.erase(request.get());
  EXPECT_TRUE(first.empty());
}

TEST(StepPoolTest, WhatComesBackIsAsIfNew) {
  StepPool pool(kHidden, 8);
  NoSink sink;
  std::vector<std::unique_ptr<Request>> requests;
  pool.Take(1, requests);
  Request& used = *requests[0];
  StepRequest large = LargeRequest();
  used.step->Take(large, sink, 7);
  EXPECT_EQ(used.task->input_bytes(), 1000 * kHidden * sizeof(float));
  used.id = 9;
  used.begun = true;
  used.cancel_requested = true;
  used.stage = RequestStage::kRunning;
  used.end_when_back = absl::CancelledError("too late");
  used.task->Finish(absl::CancelledError("too late"), used.times);
  EXPECT_EQ(used.step->outcome().status().code(), absl::StatusCode::kCancelled);
  pool.GiveBack(requests);

  pool.Take(1, requests);
  Request& again = *requests[0];
  EXPECT_EQ(again.id, 0u);
  EXPECT_FALSE(again.begun);
  EXPECT_FALSE(again.cancel_requested);
  EXPECT_EQ(again.stage, RequestStage::kQueued);
  EXPECT_FALSE(again.end_when_back.has_value());
  StepRequest small;
  small.tokens = {1, 2};
  again.step->Take(small, sink, 8);
  // What it leaves is the memory of the request before, if that was little.
  EXPECT_EQ(small.embeddings.capacity(), 0u);
  EXPECT_FALSE(small.outputs.sampling.has_value());
  EXPECT_EQ(again.step->tag(), 8u);
  EXPECT_EQ(again.task->input_bytes(), 2 * sizeof(int32_t));
  EXPECT_EQ(again.task->Next().rows, 2u);
  EXPECT_EQ(again.task->Next().logits_rows(), 0u);
  again.task->Finish(absl::OkStatus(), again.times);
  EXPECT_TRUE(again.step->outcome().ok());
}

}  // namespace
}  // namespace steadystate
