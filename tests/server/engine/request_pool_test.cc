// Goal: requests go round without a trace of the one before, and keep no more
// than a little memory. Pure bookkeeping, no threads.
#include "server/engine/request_pool.h"

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/engine/step_task.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::request_pool_test {
namespace {

constexpr size_t kHidden = 4;

RequestPool StepPool() {
  return RequestPool([] { return std::make_unique<StepTask>(kHidden, 8); });
}

StepRequest LargeRequest() {
  StepRequest request;
  request.session = "large";
  request.expected_position = 3;
  request.embeddings.assign(1000 * kHidden, 0.5f);
  request.outputs.sampling.emplace().logit_bias.assign(1000, {1, 0.5f});
  return request;
}

// The request's task takes `step` up, whose memory is left in its place.
std::shared_ptr<Recorder<StepRequest>> Take(Request& to, StepRequest& step) {
  const auto receiver = std::make_shared<Recorder<StepRequest>>();
  Submission<StepRequest> submission = {
      .request = std::move(step), .receiver = receiver, .refusal = {}};
  dynamic_cast<StepTask&>(*to.task).Take(submission);
  step = std::move(submission.request);
  return receiver;
}

TEST(RequestPoolTest, GivesOutWhatCameBack) {
  RequestPool pool = StepPool();
  std::vector<std::unique_ptr<Request>> requests;
  pool.Take(3, requests);
  ASSERT_EQ(requests.size(), 3u);
  std::set<const Request*> first;
  for (const auto& request : requests) {
    EXPECT_EQ(request->pool, &pool);
    first.insert(request.get());
  }
  pool.GiveBack(requests);
  for (const auto& request : requests) EXPECT_EQ(request, nullptr);
  requests.clear();
  pool.Take(4, requests);
  ASSERT_EQ(requests.size(), 4u);
  for (const auto& request : requests) first.erase(request.get());
  EXPECT_TRUE(first.empty());
}

TEST(RequestPoolTest, WhatComesBackIsAsIfNew) {
  RequestPool pool = StepPool();
  std::vector<std::unique_ptr<Request>> requests;
  pool.Take(1, requests);
  Request& used = *requests[0];
  StepRequest large = LargeRequest();
  const std::weak_ptr<const void> receiver = Take(used, large);
  EXPECT_FALSE(receiver.expired());
  EXPECT_EQ(used.task->input_bytes(), 1000 * kHidden * sizeof(float));
  used.id = 9;
  used.begun = true;
  used.cancel_requested = true;
  used.stage = RequestStage::kRunning;
  used.end = absl::CancelledError("too late");
  pool.GiveBack(requests);
  requests.clear();
  EXPECT_TRUE(receiver.expired());

  pool.Take(1, requests);
  Request& again = *requests[0];
  EXPECT_EQ(&again, &used);
  EXPECT_EQ(again.id, 0u);
  EXPECT_FALSE(again.begun);
  EXPECT_FALSE(again.cancel_requested);
  EXPECT_EQ(again.stage, RequestStage::kQueued);
  EXPECT_FALSE(again.end.has_value());
  StepRequest small;
  small.tokens = {1, 2};
  const auto told = Take(again, small);
  // What it leaves is the memory of the request before, if that was little.
  EXPECT_EQ(small.embeddings.capacity(), 0u);
  EXPECT_FALSE(small.outputs.sampling.has_value());
  EXPECT_EQ(again.task->input_bytes(), 2 * sizeof(int32_t));
  EXPECT_EQ(again.task->Next().rows, 2u);
  EXPECT_EQ(again.task->Next().logits_rows(), 0u);
}

// The engine has a pool for each kind of request: whatever one of them was
// before, the next one does what it does alone.
TEST(RequestPoolTest, RequestsOfEveryKindAreServedAgain) {
  EngineHarness harness;
  for (const char* id : {"a", "b"}) {
    harness.CreateSession(id);
    // Ends early, with much that is not finished.
    GenerateRequest far = GenerateOf(id, MakeTokens(30, 1), 1000);
    far.expected_position = 5;
    EXPECT_EQ(ReasonOf(harness.Generate(far)->done().Get().status()),
              ErrorReason::kPositionMismatch);
    const auto generated = harness.Generate(GenerateOf(id, {1, 2}, 3));
    ASSERT_TRUE(generated->done().Get().ok());
    EXPECT_EQ(generated->items().size(), 3u);
    EXPECT_EQ(generated->done().Get()->prompt_tokens, 2u);
    EXPECT_EQ(generated->done().Get()->generated_tokens, 3u);
    const auto scored = harness.Score(ScoreOf(id, {3, 4, 5}));
    EXPECT_EQ(scored->done().Get()->tokens, 3u);
    EXPECT_EQ(scored->done().Get()->scored_tokens, 3u);
    const auto embedded = harness.Embed(EmbedOf("", {6, 7}));
    EXPECT_EQ(embedded->done().Get()->tokens, 2u);
    EXPECT_EQ(embedded->items().size(), 2u);
  }
  EXPECT_EQ(harness.Step(StepOf("a", {8}))->logits,
            harness.Step(StepOf("b", {8}))->logits);
}

}  // namespace
}  // namespace steadystate::request_pool_test
