#ifndef STEADYSTATE_SERVER_ENGINE_BIDIRECTIONAL_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_BIDIRECTIONAL_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/embed_output.h"
#include "server/engine/inputs.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/model/model.h"

namespace steadystate {

// Answers the hidden vectors of a sequence of which every row sees the whole.
// Goes layer by layer; one half of a layer (absorb, read) over chunk_rows rows
// is one piece, so that live streams never wait for more than that. Keeps the
// residual stream of the sequence, which counts as input.
class BidirectionalTask final : public Task {
 public:
  // What a sequence of `rows` keeps in memory beside its inputs.
  static uint64_t ResidualBytes(uint64_t rows, uint64_t hidden_size) {
    return rows * hidden_size * sizeof(float);
  }

  // REQUIRES: the request is valid (validate.h) and bidirectional.
  BidirectionalTask(EmbedRequest request, std::shared_ptr<EmbedSink> sink,
                    const ModelDescription& model, size_t chunk_rows);

  absl::Status Begin(const SessionState& session) override;
  bool Ready() override { return sink_->Ready(); }
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  void Deliver(const RequestTimes&) override { output_.Deliver(*sink_); }
  bool done() const override { return layer_ == layers_; }
  void Finish(const absl::Status& status, const RequestTimes&) override;
  uint64_t input_bytes() const override {
    return inputs_.bytes() + ResidualBytes(inputs_.rows(), hidden_size_);
  }

 private:
  size_t NextRows() const;
  // The first pass over the rows, which takes the inputs in.
  bool first() const { return layer_ == 0 && pass_ == Pass::kAbsorb; }
  // The last one, in which hidden vectors come out.
  bool last() const { return layer_ + 1 == layers_ && pass_ == Pass::kRead; }
  // f32[chunk_rows, D] of the piece that begins at row_; null before and after
  // the time in which it is needed.
  std::unique_ptr<float[]>& residual() { return residual_[row_ / chunk_rows_]; }

  const EmbedRequest request_;
  const std::shared_ptr<EmbedSink> sink_;
  const size_t hidden_size_;
  const size_t layers_;
  const size_t chunk_rows_;
  const Inputs inputs_;

  // By piece, so that memory comes and goes as the passes do.
  std::vector<std::unique_ptr<float[]>> residual_;
  // The next piece: rows from row_ on.
  size_t layer_ = 0;
  Pass pass_ = Pass::kAbsorb;
  size_t row_ = 0;
  EmbedOutput output_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_BIDIRECTIONAL_TASK_H_
