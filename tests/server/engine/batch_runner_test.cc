// Goal: what a batch computes does not depend on how its logits are grouped.
// Method: the same batch with memory for all logits and for two rows of them.
#include "server/engine/batch_runner.h"

#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/step_task.h"
#include "server/session/state_pool.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::batch_runner_test {
namespace {

constexpr size_t kSessions = 5;
constexpr size_t kRows = 3;

struct Outcome {
  std::vector<std::vector<float>> logits;
  std::vector<uint64_t> positions;
};

// Notes the logits of each step in the place of its tag.
class LogitsReceiver final : public Receiver<StepRequest> {
 public:
  explicit LogitsReceiver(Outcome& to) : to_(to) {}
  void OnAnswers(std::span<const Answer<StepRequest>> answers) override {
    for (const Answer<StepRequest>& answer : answers) {
      const std::span<const float> logits = (*answer.end)->logits;
      to_.logits[answer.tag].assign(logits.begin(), logits.end());
    }
  }

 private:
  Outcome& to_;
};

Outcome RunBatch(size_t max_logits_bytes) {
  const auto model = SharedTinyModel();
  const size_t hidden_size = model->description().hidden_size;
  const SessionLayout layout(model->state_layout(), hidden_size, 16);
  StatePool pool(layout.slot(), layout.charge_bytes(),
                 kSessions * layout.charge_bytes());
  BatchRunner runner(*model, kSessions * kRows, 2, max_logits_bytes);
  Outcome outcome;
  outcome.logits.resize(kSessions);
  const auto receiver = std::make_shared<LogitsReceiver>(outcome);
  std::vector<std::unique_ptr<SessionState>> sessions;
  std::vector<std::unique_ptr<StepTask>> tasks;
  std::vector<BatchItem> items;
  for (size_t i = 0; i < kSessions; ++i) {
    sessions.push_back(
        std::make_unique<SessionState>(layout, *pool.Allocate()));
    // One of them wants no logits.
    StepRequest request = StepOf("s", MakeTokens(kRows, i));
    request.outputs.logits = i != 2;
    tasks.push_back(std::make_unique<StepTask>(hidden_size, kRows));
    Submission<StepRequest> submission = {
        .request = request, .receiver = receiver, .tag = i, .refusal = {}};
    tasks.back()->Take(submission);
    items.push_back({.task = tasks.back().get(),
                     .session = sessions.back().get(),
                     .piece = tasks.back()->Next()});
  }
  runner.Run(items);
  const absl::Status ok;
  Round round;
  for (size_t i = 0; i < kSessions; ++i) {
    EXPECT_TRUE(items[i].finite);
    EXPECT_TRUE(tasks[i]->done());
    tasks[i]->Answer(&ok, {}, round);
    outcome.positions.push_back(sessions[i]->position());
  }
  round.HandOver();
  round.End();
  return outcome;
}

TEST(BatchRunnerTest, GroupsOfLogitsChangeNothing) {
  const size_t row_bytes =
      SharedTinyModel()->description().vocab_size * sizeof(float);
  const Outcome whole = RunBatch(BatchRunner::kMaxLogitsBytes);
  EXPECT_EQ(whole.positions, std::vector<uint64_t>(kSessions, kRows));
  EXPECT_TRUE(whole.logits[2].empty());
  for (const size_t rows : {1u, 2u, 3u}) {
    const Outcome grouped = RunBatch(rows * row_bytes);
    EXPECT_EQ(grouped.logits, whole.logits) << rows;
    EXPECT_EQ(grouped.positions, whole.positions);
  }
}

}  // namespace
}  // namespace steadystate::batch_runner_test
