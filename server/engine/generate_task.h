#ifndef STEADYSTATE_SERVER_ENGINE_GENERATE_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_GENERATE_TASK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/engine/task_of.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "server/session/session_keeper.h"
#include "server/text/text_stream.h"

namespace steadystate {

// Absorbs a prompt in pieces of `chunk_rows`; then draws a token, absorbs it
// alone, hands it over, and so on. A token is handed over only once the session
// has absorbed it, so a token that was drawn but not absorbed when the request
// ends has never existed. A repeat hands over the tokens of the first request
// from the session's history, and goes on where that ended.
class GenerateTask final : public TaskOf<GenerateRequest> {
 public:
  // All of them outlive the task.
  GenerateTask(const Model& model, SessionKeeper& keeper, Metrics& metrics,
               size_t chunk_rows)
      : model_(model),
        keeper_(keeper),
        metrics_(metrics),
        chunk_rows_(chunk_rows) {}

  absl::Status Begin(const SessionState& session) override;
  absl::Status Resume(const RequestRecord& record,
                      const SessionState& session) override;
  bool IsWork() const override { return prefix_work_ != PrefixWork::kNone; }
  bool ComputesAfterWork() const override { return true; }
  bool OnFreshState() const override { return request().session.empty(); }
  absl::Status Work(Session& session) override;
  Piece Next() const override;
  void Advance(const PieceResult& result) override;
  bool done() const override {
    return !IsWork() && (finish_.has_value() || !outcome_.ok());
  }
  absl::Status Outcome() const override { return outcome_; }
  // Log-probabilities are not kept.
  bool CanBeTakenUp() const override { return !request().logprobs.has_value(); }
  uint64_t input_bytes() const override {
    return request().prompt.size() * sizeof(int32_t);
  }

 private:
  // What is to be done about the beginning of the prompt before the next piece.
  enum class PrefixWork : uint8_t { kNone, kReuse, kKeep };

  void Start() override;
  void HandOver(const RequestTimes& times) override;
  void Summarize(const RequestTimes& times, GenerateSummary& to) override;
  void Clear(GenerateRequest& request, GenerateSummary& summary) override;
  absl::Status Reuse(Session& session);
  size_t KeptPrompt() const;
  void AdvancePrompt(size_t tokens);
  bool IsStopToken(int32_t token) const;
  bool WillBeLast(int32_t token) const;
  void OpenText();
  void Draw(const PieceResult& result);
  void Absorb(const PieceResult& result);
  void Accept(GeneratedToken token);
  void Replay(const SessionState& session);
  bool replaying() const { return replay_next_ < replay_end_; }
  std::string RecordedAnswer() const;

  const Model& model_;
  SessionKeeper& keeper_;
  Metrics& metrics_;
  const size_t chunk_rows_;

  std::vector<int32_t> stop_tokens_;  // ascending
  size_t prompt_absorbed_ = 0;
  PrefixWork prefix_work_ = PrefixWork::kNone;
  bool from_prompt_ = false;  // the session has absorbed nothing but the prompt
  uint64_t generated_ = 0;
  std::optional<GeneratedToken> drawn_;  // next to be absorbed
  std::optional<TextStream> text_;
  std::optional<FinishReason> finish_;
  absl::Status outcome_;
  uint64_t position_ = 0;
  std::string text_before_;  // a character's first bytes, when it began
  // Tokens that were absorbed before lie at these positions of the session.
  uint64_t replay_next_ = 0;
  uint64_t replay_end_ = 0;
  bool ends_with_replay_ = false;  // the first request was finished
  SteadyTime last_handed_over_;
  absl::Duration time_to_first_token_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_GENERATE_TASK_H_
