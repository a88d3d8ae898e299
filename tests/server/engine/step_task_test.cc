// Goal: a step is cut by its own length alone and asks for logits once.
#include "server/engine/step_task.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::step_task_test {
namespace {

constexpr size_t kHidden = 4;
constexpr size_t kChunk = 8;

// A task that has taken `request` up.
class TaskWith {
 public:
  explicit TaskWith(StepRequest request) {
    Submission<StepRequest> submission = {
        .request = std::move(request),
        .receiver = std::make_shared<Recorder<StepRequest>>(),
        .refusal = {}};
    task_.Take(submission);
  }
  const StepTask* operator->() const { return &task_; }
  StepTask* operator->() { return &task_; }

 private:
  StepTask task_{kHidden, kChunk};
};

TEST(StepTaskTest, CutsTokensAtMultiplesOfTheChunk) {
  const std::vector<int32_t> tokens = MakeTokens(19, 1);
  const TaskWith task(StepOf("s", tokens));
  EXPECT_EQ(task->input_bytes(), 19 * sizeof(int32_t));
  const Piece piece = task->Next();
  EXPECT_EQ(piece.rows, kChunk);
  EXPECT_TRUE(
      std::equal(piece.tokens.begin(), piece.tokens.end(), tokens.begin()));
  EXPECT_EQ(piece.logits_rows(), 0u);  // not the last piece
  EXPECT_FALSE(task->done());
}

size_t LogitsRows(const StepOutputs& outputs) {
  StepRequest request;
  request.tokens = MakeTokens(5, 1);
  request.outputs = outputs;
  const TaskWith task(request);
  EXPECT_EQ(task->Next().logits_end, 5u);
  return task->Next().logits_rows();
}

TEST(StepTaskTest, AsksForLogitsAfterTheLastRowIfAnyoneWantsThem) {
  EXPECT_EQ(LogitsRows({}), 0u);
  StepOutputs hidden;
  hidden.hidden = true;
  EXPECT_EQ(LogitsRows(hidden), 0u);
  StepOutputs logits;
  logits.logits = true;
  EXPECT_EQ(LogitsRows(logits), 1u);
  StepOutputs top;
  top.top_logprobs = 1;
  EXPECT_EQ(LogitsRows(top), 1u);
  StepOutputs sampled;
  sampled.sampling.emplace();
  EXPECT_EQ(LogitsRows(sampled), 1u);
}

TEST(StepTaskTest, CutsEmbeddingsByRows) {
  StepRequest request;
  request.embeddings.assign(9 * kHidden, 0.5f);
  const TaskWith task(request);
  const Piece piece = task->Next();
  EXPECT_EQ(piece.rows, kChunk);
  EXPECT_EQ(piece.embeddings.size(), kChunk * kHidden);
  EXPECT_TRUE(piece.tokens.empty());
}

// As when the server was shut down between two pieces.
TEST(StepTaskTest, OneThatWasCutIsTakenUpWhereItWas) {
  StateLayoutBuilder builder;
  ASSERT_TRUE(builder.AddFixed(0, "S", {4}).ok());
  const StateLayout state_layout = std::move(builder).Build();
  const SessionLayout layout(state_layout, kHidden, 16);
  SessionState session(layout);
  const std::vector<int32_t> tokens = MakeTokens(19, 1);
  TaskWith task(StepOf("s", tokens));
  ASSERT_TRUE(
      task->Resume({.id = "a", .begin = 5, .end = 5 + kChunk}, session).ok());
  const Piece piece = task->Next();
  EXPECT_EQ(piece.rows, kChunk);
  EXPECT_TRUE(std::equal(piece.tokens.begin(), piece.tokens.end(),
                         tokens.begin() + kChunk));
  EXPECT_FALSE(task->done());
}

}  // namespace
}  // namespace steadystate::step_task_test
