#ifndef STEADYSTATE_SERVER_ENGINE_FORWARD_STAGE_H_
#define STEADYSTATE_SERVER_ENGINE_FORWARD_STAGE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/thread_pool.h"
#include "server/engine/task.h"
#include "server/model/model.h"
#include "server/session/session_state.h"

namespace steadystate {

// One session's part of a batch.
struct BatchItem {
  Task* task = nullptr;
  SessionState* session = nullptr;
  Piece piece;
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
  // all, and are either all of one row or all of more, parts of a bidirectional
  // pass aside; sessions are distinct and within their context cap.
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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_FORWARD_STAGE_H_
