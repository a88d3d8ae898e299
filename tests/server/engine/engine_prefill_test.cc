// Goal: a chunk of a prompt is as large as this machine's projections are fast
// with, and never larger than a batch. Method: reports that are made up.
//
// Goal: prompts and live streams take turns at the layers of the model, and
// what ends a request between two layers leaves nothing half done. Method: no
// time for prompts on a clock that stands still, so that they are left after
// every layer; a generation whose tokens are counted, and which acts between
// two layers of another session's prompt.
#include <functional>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"

namespace steadystate::engine_prefill_test {
namespace {

constexpr size_t kChunk = 8;

EngineOptions Options(absl::Duration slice) {
  EngineOptions options;
  options.prefill_chunk_rows = kChunk;
  options.prefill_slice = slice;
  options.max_step_tokens = size_t{1} << 20;
  return options;
}

TEST(EngineChunkTest, RowsSuitTheHardwareUnlessTheyAreGiven) {
  EngineOptions options;
  options.prefill_chunk_rows = 0;
  EngineHarness chosen(options);
  Engine& engine = chosen.engine();
  EXPECT_EQ(engine.options().prefill_chunk_rows,
            PrefillChunkRowsFor(engine.model().description().linear,
                                options.max_batch_rows));
  options.prefill_chunk_rows = 9;
  EngineHarness given(options);
  EXPECT_EQ(given.engine().options().prefill_chunk_rows, 9u);
}

using Sizes = std::vector<size_t>;

LinearReport ReportOf(const std::vector<Sizes>& prefill_tiles) {
  LinearReport report;
  for (const Sizes& tiles : prefill_tiles) {
    report.shapes.push_back({.in = 64,
                             .block = 64,
                             .decode_tiles = {1, 64},
                             .prefill_tiles = tiles,
                             .implementation = "made up"});
  }
  return report;
}

TEST(EngineChunkTest, Is64WhereNoTileIsLarger) {
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 2, 64}, {4, 48}}), 256), 64u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{4}, {}}), 256), 64u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({}), 256), 64u);
}

TEST(EngineChunkTest, IsTheLargestTileOfPromptsUpTo256) {
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 64}, {64, 128}}), 256), 128u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{128, 256}, {1, 64}}), 256), 256u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{128, 512}}), 65536), 256u);
}

TEST(EngineChunkTest, FitsABatch) {
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 512}}), 100), 100u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 64}}), 1), 1u);
}

class EnginePrefillTest : public testing::Test {
 protected:
  explicit EnginePrefillTest(absl::Duration slice = absl::ZeroDuration())
      : harness_(Options(slice)) {
    harness_.CreateSession("s");
  }

  // Begins `submit`s requests on "s" together with a generation, and calls
  // `act` on the compute thread when its first token is there: after the first
  // layer of the prompt.
  void BetweenLayers(const std::function<void()>& submit,
                     const std::function<void()>& act) {
    ComputeHold hold(harness_);
    live_ = harness_.Generate(GenerateOf(harness_.CreateSession(), {1}, 40));
    live_->set_on_item([act](size_t items) {
      if (items == 1) act();
    });
    submit();
  }

  // How many tokens the live generation gets while a step of one piece runs.
  size_t LiveTokensDuringAPiece() {
    size_t during = 0;
    Future<bool> done;
    BetweenLayers(
        [&] {
          SubmitThen(engine(), StepOf("s", MakeTokens(kChunk, 1)),
                     [&](const absl::StatusOr<StepResult>& result) {
                       EXPECT_TRUE(result.ok()) << result.status();
                       during = live_->items().size();
                       done.Set(true);
                     });
        },
        [] {});
    done.Get();
    EXPECT_TRUE(live_->done().Get().ok());
    return during;
  }

  Engine& engine() { return harness_.engine(); }

  EngineHarness harness_;
  std::shared_ptr<Recorder<GenerateRequest>> live_;
};

class EngineLongSliceTest : public EnginePrefillTest {
 protected:
  EngineLongSliceTest() : EnginePrefillTest(absl::Seconds(1)) {}
};

TEST_F(EnginePrefillTest, ALiveStreamGoesOnBetweenTheLayersOfAPrompt) {
  const size_t layers = engine().model().description().layers;
  ASSERT_GT(layers, 1u);
  // Each layer waits for a token, but the first comes with the prompt.
  EXPECT_EQ(LiveTokensDuringAPiece(), layers);
}

TEST_F(EngineLongSliceTest, APromptRunsThroughInTheTimeItHas) {
  EXPECT_EQ(LiveTokensDuringAPiece(), 0u);
}

TEST_F(EnginePrefillTest, BeingLeftChangesNoBit) {
  const StepRequest request = StepOf("s", MakeTokens(5 * kChunk, 2));
  StepFuture interrupted;
  BetweenLayers([&] { interrupted = harness_.StepAsync(request); }, [] {});
  StepRequest again = request;
  again.session = harness_.CreateSession();
  const auto alone = harness_.Step(again);
  EXPECT_EQ(interrupted.Get()->logits, alone->logits);
  EXPECT_EQ(interrupted.Get()->hidden, alone->hidden);
}

TEST_F(EnginePrefillTest, CancelledBetweenLayersItEndsWithItsPiece) {
  for (const bool by_deadline : {false, true}) {
    const std::string session = harness_.CreateSession();
    GenerateRequest request = GenerateOf(session, MakeTokens(40, 1), 1);
    if (by_deadline) {
      request.deadline = harness_.clock().Now() + absl::Seconds(1);
    }
    RequestId id = 0;
    std::shared_ptr<Recorder<GenerateRequest>> sink;
    BetweenLayers([&] { sink = harness_.Generate(request, &id); },
                  [&] {
                    if (by_deadline) {
                      harness_.clock().Advance(absl::Seconds(2));
                    } else {
                      engine().Cancel(id);
                    }
                  });
    EXPECT_EQ(
        ReasonOf(sink->done().Get().status()),
        by_deadline ? ErrorReason::kDeadlineExceeded : ErrorReason::kCancelled);
    EXPECT_EQ(harness_.Position(session), kChunk);
    EXPECT_TRUE(live_->done().Get().ok());
  }
}

TEST_F(EnginePrefillTest, DeletedBetweenLayersItEndsWithItsPiece) {
  std::shared_ptr<Recorder<GenerateRequest>> sink;
  BetweenLayers(
      [&] { sink = harness_.Generate(GenerateOf("s", MakeTokens(40, 1), 1)); },
      [&] { EXPECT_TRUE(engine().DeleteSession("s").ok()); });
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kSessionNotFound);
  EXPECT_TRUE(live_->done().Get().ok());
}

TEST_F(EnginePrefillTest, AbortedBetweenLayersItEndsWithItsPiece) {
  StepFuture step;
  BetweenLayers(
      [&] { step = harness_.StepAsync(StepOf("s", MakeTokens(40, 1))); },
      [&] { engine().AbortRequests(); });
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kDraining);
  EXPECT_EQ(ReasonOf(live_->done().Get().status()), ErrorReason::kDraining);
  EXPECT_EQ(harness_.Position("s"), kChunk);
}

TEST_F(EnginePrefillTest, TheEngineEndsWithThePieceThatRuns) {
  // Far more than can be done before the engine is told to end.
  const auto tokens = MakeTokens(size_t{1} << 20, 1);
  StepFuture step;
  Future<bool> reached;
  BetweenLayers([&] { step = harness_.StepAsync(StepOf("s", tokens)); },
                [&] { reached.Set(true); });
  reached.Get();
  harness_.DestroyEngine();
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kDraining);
}

// How many batches are formed until a step of one client is answered that
// comes after 100 steps of another.
double BatchesBesideAnother(size_t tokens, size_t tokens_of_another) {
  EngineOptions options = Options(absl::ZeroDuration());
  options.max_batch_rows = 4 * kChunk;
  EngineHarness harness(options);
  const auto step = [&harness](ClientId client, size_t length) {
    StepRequest request =
        StepOf(harness.CreateSession(), MakeTokens(length, client));
    request.client = client;
    return request;
  };
  const auto batches = [&harness] {
    return harness.Metric({"steadystate_batch_size_count"});
  };
  Future<double> after;
  ComputeHold hold(harness);
  const double before = batches();
  for (int i = 0; i < 100; ++i) {
    harness.StepAsync(step(1, tokens_of_another));
  }
  SubmitThen(harness.engine(), step(2, tokens),
             [&batches, after](const auto& result) {
               EXPECT_TRUE(result.ok()) << result.status();
               after.Set(batches());
             });
  hold.Release();
  return after.Get() - before;
}

TEST(EngineTurnsTest, AClientIsInTheNextBatchWhateverAnotherHasWaiting) {
  EXPECT_EQ(BatchesBesideAnother(2, 10 * kChunk), 1);
  EXPECT_EQ(BatchesBesideAnother(kChunk, 10 * kChunk), 1);
  EXPECT_EQ(BatchesBesideAnother(5 * kChunk, 10 * kChunk), 5);
  EXPECT_EQ(BatchesBesideAnother(1, 1), 1);
}

}  // namespace
}  // namespace steadystate::engine_prefill_test
