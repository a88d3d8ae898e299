// Goal: each head of each segment is run once; tokens come in their order, by
// steps as the pass wants them or in chunks; decays are found where they lie.
// Method: rules that write down how they are called.
#include "server/model/parts/head_loop.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/thread_pool.h"

namespace steadystate::head_loop_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

// Two segments, of rows 0 to 2 and of row 3.
std::vector<Segment> TwoSegments() {
  return {{.first_row = 0, .rows = 3}, {.first_row = 3, .rows = 1}};
}

std::vector<std::string> Tasks(const HeadLoop& loop) {
  std::vector<std::string> tasks;
  for (size_t i = 0; i < loop.size(); ++i) {
    const HeadSpan heads = loop[i];
    tasks.push_back(absl::StrCat("row ", heads.segment.first_row, " heads ",
                                 heads.first, " to ", heads.end));
  }
  return tasks;
}

TEST(HeadLoopTest, HeadsOfASegmentFollowEachOther) {
  const std::vector<Segment> segments = TwoSegments();
  EXPECT_THAT(Tasks(HeadLoop(segments, 2)),
              ElementsAre("row 0 heads 0 to 1", "row 0 heads 1 to 2",
                          "row 3 heads 0 to 1", "row 3 heads 1 to 2"));
}

TEST(HeadLoopTest, TheLastTaskOfASegmentTakesWhatIsLeft) {
  const std::vector<Segment> segments = TwoSegments();
  EXPECT_THAT(Tasks(HeadLoop(segments, 5, 3)),
              ElementsAre("row 0 heads 0 to 3", "row 0 heads 3 to 5",
                          "row 3 heads 0 to 3", "row 3 heads 3 to 5"));
}

TEST(HeadLoopTest, NoSegmentsAreNoTasks) {
  EXPECT_THAT(Tasks(HeadLoop({}, 5)), IsEmpty());
}

TEST(HeadLoopTest, ThreadsShareTheTasksAndHaveScratchOfTheirOwn) {
  constexpr size_t kHeads = 50, kThreads = 3;
  ThreadPool pool(kThreads);
  ScratchSize size;
  const WorkerSlice<float> count = WorkerScratchPlan(size).Add(1);
  Workspace::Buffers buffers(1, size, 4, pool);
  const std::vector<Segment> segments = TwoSegments();
  const HeadLoop loop(segments, kHeads);
  std::vector<int> runs(loop.size());
  loop.Run(buffers, [&](size_t task, const WorkerScratch& scratch) {
    ++runs[task];
    *scratch[count] += 1;
  });
  EXPECT_THAT(runs, Each(1));
  float all = 0;
  for (size_t i = 0; i < kThreads; ++i) all += *buffers.OfWorker(i)[count];
  EXPECT_EQ(all, 2 * kHeads);
}

// Writes down what is asked of it.
class Journal {
 public:
  explicit Journal(std::vector<std::string>& lines) : lines_(lines) {}
  void Take(size_t row) { lines_.push_back(absl::StrCat("take ", row)); }
  void Move(size_t row, size_t head) {
    lines_.push_back(absl::StrCat("move ", row, " for ", head));
  }
  void Read(size_t row, size_t head) {
    lines_.push_back(absl::StrCat("read ", row, " for ", head));
  }

 private:
  std::vector<std::string>& lines_;
};

std::vector<std::string> Steps(Pass pass) {
  std::vector<std::string> lines;
  const Segment segment = {.first_row = 4, .rows = 2, .pass = pass};
  RunSteps(segment, 1, 3, Journal(lines));
  return lines;
}

TEST(RunStepsTest, TheFirstQueryHeadMovesTheStateAndTheOthersReadIt) {
  const auto lines =
      ElementsAre("take 4", "move 4 for 3", "read 4 for 4", "read 4 for 5",
                  "take 5", "move 5 for 3", "read 5 for 4", "read 5 for 5");
  EXPECT_THAT(Steps(Pass::kCausal), lines);
  EXPECT_THAT(Steps(Pass::kAbsorb), lines);
}

TEST(RunStepsTest, NothingMovesInAPassThatReads) {
  EXPECT_THAT(Steps(Pass::kRead),
              ElementsAre("read 4 for 3", "read 4 for 4", "read 4 for 5",
                          "read 5 for 3", "read 5 for 4", "read 5 for 5"));
}

TEST(RunStepsTest, ARuleMayHaveNoRead) {
  struct Mover {
    void Take(size_t row) { sum += row; }
    void Move(size_t /*row*/, size_t head) { sum += 100 * head; }
    size_t& sum;
  };
  size_t sum = 0;
  RunSteps({.first_row = 1, .rows = 3}, 2, 1, Mover{sum});
  EXPECT_EQ(sum, 606);
}

TEST(ForChunksTest, ChunksCoverTheRowsInTheirOrder) {
  const Segment segment = {.first_row = 5, .rows = 7};
  std::vector<std::string> chunks;
  ForChunks(segment, 3, [&](const RowChunk& chunk) {
    chunks.push_back(absl::StrCat(chunk.L, " from ", chunk.first_row));
  });
  EXPECT_THAT(chunks, ElementsAre("3 from 5", "3 from 8", "1 from 11"));
}

// Rows 0 to 2 of two heads, two floats each: the number of row, head, float.
constexpr float kRows[] = {0,   1,   10,  11,  100, 101,
                           110, 111, 200, 201, 210, 211};
constexpr HeadRows kHeadRows = {kRows, 4, 2};

TEST(RowChunkTest, FindsAndPacksTheRowsOfAHead) {
  const Segment segment = {.first_row = 0, .rows = 3};
  const RowChunk chunk = {segment, 1, 2};
  EXPECT_EQ(chunk.Rows(kHeadRows, 1).data, kRows + 6);
  EXPECT_EQ(chunk.Rows(kHeadRows, 1).stride, 4);
  EXPECT_EQ(chunk.Rows({}, 1).data, nullptr);
  std::vector<float> packed(4);
  const ChunkRows rows = chunk.Pack(kHeadRows, 1, 2, packed.data());
  EXPECT_EQ(rows.stride, 2);
  EXPECT_THAT(packed, ElementsAre(110, 111, 210, 211));
}

TEST(HeadDecaysTest, WhatFactorsLackMayBeMissing) {
  const HeadDecays alone = {.high = kHeadRows, .stride = 0};
  EXPECT_EQ(alone.At(1, 1).High(1), 110);
  EXPECT_EQ(alone.At(1, 1).low, nullptr);
  const HeadDecays split = {kHeadRows, {kRows, 0, 0}};
  EXPECT_EQ(split.At(2, 1).High(1), 211);
  EXPECT_EQ(split.At(2, 1).Low(1), 1);
}

TEST(HeadOutputsTest, HeadsLieSideBySide) {
  float out[12] = {};
  const HeadOutputs outputs = {.data = out, .row_stride = 6, .V = 2};
  EXPECT_EQ(outputs.At(1, 2), out + 10);
}

}  // namespace
}  // namespace steadystate::head_loop_test
