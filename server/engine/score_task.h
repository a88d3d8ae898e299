#ifndef STEADYSTATE_SERVER_ENGINE_SCORE_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_SCORE_TASK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/engine/task_of.h"

namespace steadystate {

// Absorbs tokens and says how likely each was. Its pieces are bounded so that
// the logits of one stay within kMaxAnsweredBytes (or are one row).
class ScoreTask final : public TaskOf<ScoreRequest> {
 public:
  ScoreTask(size_t vocab_size, size_t chunk_rows);

  bool OnFreshState() const override { return request().session.empty(); }
  absl::Status Begin(const SessionState& session) override;
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  bool done() const override { return absorbed_ == request().tokens.size(); }
  uint64_t input_bytes() const override {
    return request().tokens.size() * sizeof(int32_t);
  }

 private:
  // What a distribution says about the token that follows.
  struct Verdict {
    float logprob = 0;
    std::vector<TokenLogprob> top_logprobs;
  };
  Verdict Judge(std::span<const float> logits, int32_t token,
                Sampler& sampler) const;
  size_t NextRows() const;

  void Start() override;
  void Summarize(const RequestTimes&, ScoreSummary&) override {}

  const size_t vocab_size_;
  const size_t chunk_rows_;

  bool wants_pending_ = false;  // the first token is judged by what was pending
  size_t absorbed_ = 0;
  std::optional<Verdict> next_;  // about the next token to be absorbed
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_SCORE_TASK_H_
