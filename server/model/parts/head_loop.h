#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HEAD_LOOP_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HEAD_LOOP_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/step.h"
#include "server/model/mixer.h"
#include "server/model/parts/heads.h"
#include "server/model/workspace.h"

namespace steadystate {

// The loop that all recurrences share: how the heads of segments become tasks,
// and how the tokens of a segment follow each other, one by one or in chunks.
// What a token does to a head's state is the business of a rule, which each
// recurrence chooses when it is made.

// Where the outputs of all query heads go.
struct HeadOutputs {
  float* data = nullptr;  // f32[rows, H V; row_stride]
  size_t row_stride = 0;
  size_t V = 0;

  float* At(size_t row, size_t head) const {
    return data + row * row_stride + head * V;
  }
};

// Where the decays of all heads lie.
struct HeadDecays {
  HeadRows high{};
  HeadRows low{};     // without data: zeros
  size_t stride = 1;  // 0: a head has one factor for all channels

  Decays At(size_t row, size_t head) const {
    return {high.At(row, head),
            low.data == nullptr ? nullptr : low.At(row, head), stride};
  }
};

// Some consecutive state heads of a segment.
struct HeadSpan {
  const Segment& segment;
  size_t first;
  size_t end;  // the head behind the last
};

// Tasks of up to `most` state heads each, which cover all heads of some
// segments: the heads of a segment one after the other, segment after segment.
class HeadLoop {
 public:
  // The segments outlive the loop. REQUIRES: heads >= 1, most >= 1.
  HeadLoop(std::span<const Segment> segments, size_t heads, size_t most = 1)
      : segments_(segments),
        heads_(heads),
        most_(most),
        of_segment_((heads + most - 1) / most) {}

  size_t size() const { return segments_.size() * of_segment_; }

  // The heads of a task. REQUIRES: task < size().
  HeadSpan operator[](size_t task) const {
    const size_t first = task % of_segment_ * most_;
    return {segments_[task / of_segment_], first,
            std::min(heads_, first + most_)};
  }

  // Calls body(task, scratch) for each task, shared among the threads;
  // `scratch` is the worker's, a WorkerScratch. A worker claims tasks that
  // follow each other, all but its last ones.
  template <typename Body>
  void Run(Workspace::Buffers& buffers, const Body& body) const {
    buffers.pool.ParallelFor(size(), [&](size_t task, size_t worker) {
      body(task, buffers.OfWorker(worker));
    });
  }

 private:
  const std::span<const Segment> segments_;
  const size_t heads_;
  const size_t most_;
  const size_t of_segment_;  // tasks
};

// Runs the tokens of one state head's segment, which `group` query heads read:
//   rule.Take(row)       gets the gates and the key of a row ready
//   rule.Move(row, h)    moves the state by that row, and reads it for query
//                        head h, the group's first
//   rule.Read(row, h)    reads the state for query head h
// With Pass::kRead the state stays, and all query heads only read. A rule
// without Read serves groups of one in other passes.
template <typename Rule>
void RunSteps(const Segment& segment, size_t head, size_t group, Rule&& rule) {
  const bool moves = segment.pass != Pass::kRead;
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    size_t h = head * group;
    if (moves) {
      rule.Take(row);
      rule.Move(row, h++);
    }
    if constexpr (requires { rule.Read(row, h); }) {
      for (; h < (head + 1) * group; ++h) rule.Read(row, h);
    }
  }
}

// Some consecutive rows of a segment, which matrix products take together.
struct RowChunk {
  const Segment& segment;
  size_t first_row;
  size_t L;  // rows

  // The rows of a head, where they lie; none where there are none.
  ChunkRows Rows(const HeadRows& rows, size_t head) const {
    if (rows.data == nullptr) return {};
    return {rows.At(first_row, head), rows.row_stride};
  }
  // The rows of a head, copied side by side to `to`, f32[L, width].
  ChunkRows Pack(const HeadRows& rows, size_t head, size_t width,
                 float* to) const {
    return PackRows(L, width, Rows(rows, head), to);
  }
};

// Calls body(chunk) for all rows of a segment in their order, `most` at a time.
template <typename Body>
void ForChunks(const Segment& segment, size_t most, const Body& body) {
  for (size_t done = 0; done < segment.rows; done += most) {
    body(RowChunk{segment, segment.first_row + done,
                  std::min(most, segment.rows - done)});
  }
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HEAD_LOOP_H_
