#ifndef STEADYSTATE_SERVER_ENGINE_SCORE_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_SCORE_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/request.h"
#include "server/engine/task.h"

namespace steadystate {

// Absorbs tokens and says how likely each was. Its pieces are bounded so that
// the logits of one stay within kMaxLogitsBytes (or are one row).
class ScoreTask final : public Task {
 public:
  static constexpr size_t kMaxLogitsBytes = size_t{1} << 20;

  // REQUIRES: the request is valid (validate.h).
  ScoreTask(ScoreRequest request, std::shared_ptr<ScoreSink> sink,
            size_t vocab_size, size_t chunk_rows);

  absl::Status Begin(const SessionState& session) override;
  bool Ready() override { return sink_->Ready(); }
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  void Deliver(const RequestTimes& times) override;
  bool done() const override { return absorbed_ == request_.tokens.size(); }
  void Finish(const absl::Status& status, const RequestTimes& times) override;
  uint64_t input_bytes() const override;

 private:
  // What a distribution says about the token that follows.
  struct Verdict {
    float logprob = 0;
    std::vector<TokenLogprob> top_logprobs;
  };
  Verdict Judge(std::span<const float> logits, int32_t token,
                Sampler& sampler) const;
  size_t NextRows() const;

  const ScoreRequest request_;
  const std::shared_ptr<ScoreSink> sink_;
  const size_t vocab_size_;
  const size_t chunk_rows_;

  bool wants_pending_ = false;  // the first token is judged by what was pending
  size_t absorbed_ = 0;
  std::optional<Verdict> next_;     // about the next token to be absorbed
  std::vector<ScoredToken> items_;  // to be delivered
  ScoreSummary summary_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_SCORE_TASK_H_
