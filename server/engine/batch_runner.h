#ifndef STEADYSTATE_SERVER_ENGINE_BATCH_RUNNER_H_
#define STEADYSTATE_SERVER_ENGINE_BATCH_RUNNER_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "kernels/thread_pool.h"
#include "server/engine/task.h"
#include "server/model/model.h"
#include "server/model/sampler.h"
#include "server/session/session_state.h"

namespace steadystate {

// One session's part of a batch.
struct BatchItem {
  Task* task = nullptr;  // null: nobody is to be advanced with what comes out
  SessionState* session = nullptr;
  Piece piece;
  // The batch's buffers may be used again before this item is answered.
  bool answered_later = false;
  // Set when the batch has run: false if the model's output for this item is
  // not finite. The session has absorbed the piece then, but its task has not
  // been advanced.
  bool finite = true;
  // Set when the batch has run: f32[Piece::completed_rows(), D].
  const float* hidden = nullptr;
};

// A batch on its way through the layers of the model. It may be left between
// two layers, while other stages run theirs. Allocates its buffers when it is
// made. Confined to the compute thread.
class ForwardStage {
 public:
  // REQUIRES: max_rows >= 1. Model and pool outlive the stage.
  ForwardStage(const Model& model, size_t max_rows, ThreadPool& pool);

  // Gathers the items' rows. The items stay where they are until Finish.
  // REQUIRES: no batch is under way; the pieces have at most max_rows rows in
  // all, and are either all of at most one row or all of more, parts of a
  // bidirectional pass aside; sessions are distinct and within their cap.
  void Begin(std::span<BatchItem> items);

  // Runs the next layer; false if there is none left.
  bool RunLayer();

  // Lets the sessions absorb their rows and returns the items, whose batch is
  // under way no longer. REQUIRES: RunLayer has returned false.
  std::span<BatchItem> Finish();

  // A workspace for what follows the layers, the head.
  Workspace& workspace() { return workspace_; }

 private:
  void AppendInputs(const Piece& piece, std::vector<InputRow>& rows) const;
  void RunPart(BatchItem& item);
  void Absorb(BatchItem& item, const float* hidden);

  const Model& model_;
  const size_t hidden_size_;
  Workspace workspace_;

  // The batch, in buffers that every batch reuses.
  std::span<BatchItem> items_;
  std::vector<InputRow> rows_;
  std::vector<Segment> segments_;
  std::vector<BatchItem*> parts_;  // of bidirectional passes
  size_t next_layer_ = 0;          // of the segments
  size_t next_part_ = 0;
  std::vector<InputRow> part_rows_;
  std::vector<float> hidden_;  // f32[max_rows, D]
};

struct BatchTimes {
  PhaseTimes model;
  absl::Duration sample;  // wall time of drawing tokens and log-probabilities
};

// Carries out batches: runs the model, lets sessions absorb, computes the
// logits that are wanted and advances the tasks with them. Two batches may be
// under way: one that can be left between two layers, for prompts, and
// meanwhile others that run as a whole. Allocates its buffers when it is made.
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

  // Runs a batch as a whole, and calls `after_layer` after each layer.
  // REQUIRES: as ForwardStage::Begin; each piece has one row of logits or at
  // most max_logits_bytes of them; no session of the batch is in the other one.
  BatchTimes Run(
      std::span<BatchItem> items,
      absl::FunctionRef<void()> after_layer = [] {});

  // Starts the batch that can be left. REQUIRES: none has been started and not
  // completed; as Run.
  void BeginPrefill(std::span<BatchItem> items) { prefill_.Begin(items); }

  // Goes on with it, for one layer at least, until `leave` says so after a
  // layer or the batch is complete: then its times. REQUIRES: it was started.
  std::optional<BatchTimes> ContinuePrefill(absl::FunctionRef<bool()> leave);

 private:
  // An item with rows whose logits are wanted.
  struct HeadItem {
    BatchItem* item = nullptr;
    const float* logits = nullptr;
  };

  BatchTimes Complete(ForwardStage& stage);
  // `last`: no other part of the batch follows, whose logits would take the
  // place of these.
  void Head(std::span<HeadItem> items, size_t logits_rows, bool last,
            Workspace& workspace);
  void Advance(std::span<HeadItem> items, bool last);

  const Model& model_;
  const size_t hidden_size_;
  const size_t vocab_size_;
  const size_t max_logits_rows_;  // of one call of the head
  ThreadPool pool_;
  ForwardStage whole_;
  ForwardStage prefill_;
  std::vector<Sampler> samplers_;  // by worker

  // Buffers, reused by every batch.
  std::vector<HeadItem> head_items_;
  std::vector<float> head_inputs_;  // f32[max_logits_rows, D]
  std::vector<float> logits_;       // f32[max_logits_rows, vocab_size]
  absl::Duration sample_time_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_BATCH_RUNNER_H_
