#ifndef STEADYSTATE_SERVER_ENGINE_EMBED_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_EMBED_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "server/engine/embed_output.h"
#include "server/engine/inputs.h"
#include "server/engine/request.h"
#include "server/engine/task.h"

namespace steadystate {

// Absorbs inputs and answers the hidden vectors: each row sees those before it.
class EmbedTask final : public Task {
 public:
  // REQUIRES: the request is valid (validate.h), not bidirectional.
  EmbedTask(EmbedRequest request, std::shared_ptr<EmbedSink> sink,
            size_t hidden_size, size_t chunk_rows);

  absl::Status Begin(const SessionState& session) override;
  bool Ready() override { return sink_->Ready(); }
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  void Deliver(const RequestTimes&) override { output_.Deliver(*sink_); }
  bool done() const override { return absorbed_ == inputs_.rows(); }
  void Finish(const absl::Status& status, const RequestTimes&) override;
  uint64_t input_bytes() const override { return inputs_.bytes(); }

 private:
  const EmbedRequest request_;
  const std::shared_ptr<EmbedSink> sink_;
  const size_t hidden_size_;
  const size_t chunk_rows_;
  const Inputs inputs_;
  size_t absorbed_ = 0;
  EmbedOutput output_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_EMBED_TASK_H_
