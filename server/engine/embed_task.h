#ifndef STEADYSTATE_SERVER_ENGINE_EMBED_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_EMBED_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/engine/task_of.h"
#include "server/model/model.h"

namespace steadystate {

// Turns the hidden vectors of a sequence, which come piece by piece, into the
// rows that a request wants. Thread-compatible.
class EmbedOutput {
 public:
  EmbedOutput(Pooling pooling, size_t hidden_size);

  // The next vectors of the sequence, in order; adds what they complete.
  //   hidden    f32[rows, D]
  //   position  after the first of them
  void Add(std::span<const float> hidden, uint64_t position,
           std::vector<EmbeddedRow>& to);

  // Nothing comes any more. REQUIRES: something came.
  void Close(std::vector<EmbeddedRow>& to);

  EmbedSummary summary() const {
    return {.position = position_, .tokens = rows_};
  }

 private:
  const Pooling pooling_;
  const size_t hidden_size_;
  uint64_t rows_ = 0;
  uint64_t position_ = 0;
  std::vector<double> sum_;  // f64[D], kMean only
  std::vector<float> last_;  // f32[D], kLast only
};

// The way of a bidirectional pass over a sequence: layer by layer; one half of
// a layer (absorb, read) over some rows is one piece. Keeps the residual stream
// of the sequence. Thread-compatible.
class BidirectionalPass {
 public:
  // Over `inputs`, in pieces of `chunk_rows`.
  BidirectionalPass(const Inputs& inputs, const ModelDescription& model,
                    size_t chunk_rows);

  // REQUIRES: !done().
  Piece Next() const;
  // The next piece has been computed.
  void Advance();
  bool done() const { return layer_ == layers_; }
  // In the last pass over the rows hidden vectors come out. This is the first
  // row of the next piece.
  bool last() const { return layer_ + 1 == layers_ && pass_ == Pass::kRead; }
  size_t row() const { return row_; }

 private:
  size_t NextRows() const;
  // The first pass over the rows, which takes the inputs in.
  bool first() const { return layer_ == 0 && pass_ == Pass::kAbsorb; }
  // f32[chunk_rows, D] of the piece that begins at row_; null before and after
  // the time in which it is needed.
  std::unique_ptr<float[]>& residual() { return residual_[row_ / chunk_rows_]; }
  void MakeResidual();

  const Inputs inputs_;
  const size_t hidden_size_;
  const size_t layers_;
  const size_t chunk_rows_;
  // By piece, so that memory comes and goes as the passes do.
  std::vector<std::unique_ptr<float[]>> residual_;
  // The next piece: rows from row_ on.
  size_t layer_ = 0;
  Pass pass_ = Pass::kAbsorb;
  size_t row_ = 0;
};

// Absorbs inputs and answers the hidden vectors: each row sees those before it,
// or, of a bidirectional request, all. What one piece answers stays within 1
// MiB, or is one row.
class EmbedTask final : public TaskOf<EmbedRequest> {
 public:
  // What a bidirectional sequence of `rows` keeps in memory beside its inputs:
  // the residual stream, which counts as input.
  static uint64_t ResidualBytes(uint64_t rows, uint64_t hidden_size) {
    return rows * hidden_size * sizeof(float);
  }

  // `model` outlives the task.
  EmbedTask(const ModelDescription& model, size_t chunk_rows);

  bool OnFreshState() const override { return request().session.empty(); }
  absl::Status Begin(const SessionState& session) override;
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  bool done() const override;
  uint64_t input_bytes() const override;

 private:
  void Start() override;
  void Summarize(const RequestTimes& times, EmbedSummary& to) override;
  void Clear(EmbedRequest& request, EmbedSummary& summary) override;

  const ModelDescription& model_;
  const size_t chunk_rows_;
  Inputs inputs_;
  size_t absorbed_ = 0;                    // if not bidirectional
  std::optional<BidirectionalPass> pass_;  // once it has begun, if it is
  std::optional<EmbedOutput> output_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_EMBED_TASK_H_
