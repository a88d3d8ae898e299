#ifndef STEADYSTATE_SERVER_ENGINE_BATCH_RUNNER_H_
#define STEADYSTATE_SERVER_ENGINE_BATCH_RUNNER_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "kernels/thread_pool.h"
#include "server/engine/task.h"
#include "server/model/model.h"
#include "server/model/sampler.h"
#include "server/session/session_state.h"

namespace steadystate {

// One session's part of a batch.
struct BatchItem {
  Task* task = nullptr;
  SessionState* session = nullptr;
  Piece piece;
  // Set by Run: false if the model's output for this item is not finite. The
  // session has absorbed the piece then, but its task has not been advanced.
  bool finite = true;
  // Set by Run: f32[Piece::completed_rows(), D].
  const float* hidden = nullptr;
};

struct BatchTimes {
  PhaseTimes model;
  absl::Duration sample;  // wall time of drawing tokens and log-probabilities
};

// Carries out batches: gathers rows, runs the model, lets sessions absorb,
// computes the logits that are wanted and advances the tasks with them.
// Allocates its buffers when it is made.
//
// Confined to the thread that makes it, a member of its own thread pool.
class BatchRunner {
 public:
  // Bounds the memory for logits; more rows than that go through the head in
  // groups, which changes no bit of them.
  static constexpr size_t kMaxLogitsBytes = size_t{64} << 20;

  // REQUIRES: max_rows >= 1, threads >= 1. The model outlives the runner.
  BatchRunner(const Model& model, size_t max_rows, size_t threads,
              size_t max_logits_bytes = kMaxLogitsBytes);

  // REQUIRES: the pieces have at most max_rows rows in all, each one or at most
  // max_logits_bytes of logits; sessions are distinct and within their context
  // cap.
  BatchTimes Run(std::span<BatchItem> items);

 private:
  struct Part {  // of one item, in the buffers
    BatchItem* item = nullptr;
    const float* logits = nullptr;
  };

  void Forward(std::span<BatchItem> items);
  void ForwardPart(BatchItem& item, float* hidden);
  void AddInputs(const Piece& piece);
  void Head(std::span<Part> parts, size_t logits_rows);
  void Advance(std::span<Part> parts);

  const Model& model_;
  const size_t hidden_size_;
  const size_t vocab_size_;
  const size_t max_logits_rows_;  // of one call of the head
  ThreadPool pool_;
  Workspace workspace_;
  std::vector<Sampler> samplers_;  // by worker

  // Buffers, reused by every batch.
  std::vector<InputRow> rows_;
  std::vector<Segment> segments_;
  std::vector<Part> parts_;
  std::vector<float> hidden_;       // f32[max_rows, D]
  std::vector<float> head_inputs_;  // f32[max_logits_rows, D]
  std::vector<float> logits_;       // f32[max_logits_rows, vocab_size]
  absl::Duration sample_time_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_BATCH_RUNNER_H_
