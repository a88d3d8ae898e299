#ifndef STEADYSTATE_SERVER_ENGINE_REQUEST_H_
#define STEADYSTATE_SERVER_ENGINE_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/model/sampler.h"
#include "server/session/session_info.h"
#include "server/session/session_memory.h"

namespace steadystate {

struct Session;

// DRAINING: the answer to a request that arrives, or still waits, when the
// engine takes no more.
absl::Status DrainingError();

// Names a request from submission to its last callback; 0 names none. What an
// old id named is found no more, for some billions of requests.
using RequestId = uint64_t;

// Names whoever submits requests in order: one RPC or one stream. Requests of
// one writer on one session queue up; another writer meanwhile is refused.
using WriterId = uint64_t;

// Names a connection: bounds are shared out among connections, and they take
// turns. 0: the process itself, which may use the whole of every bound.
using ClientId = uint64_t;

// What every request carries.
struct RequestBase {
  SessionKey key() const { return {session, owner}; }
  // Is a repeat of it recognised as one?
  bool keyed() const {
    return !request_id.empty() && expected_position.has_value();
  }

  std::string session;  // id, without "sessions/"
  std::string owner;    // of the session; see SessionOptions
  WriterId writer = 0;
  ClientId client = 0;
  std::optional<uint64_t> context_cap{};  // of a session made for it alone
  std::optional<uint64_t> expected_position;
  // The client's name for a Step or a Generate, at most kMaxRequestIdBytes, or
  // empty. One of the same name and expected_position is taken for a repeat,
  // and answered from the session's record of the first (session_memory.h).
  std::string request_id;
  // It changes nothing: it goes behind whatever is queued on the session,
  // whoever queued that, between two pieces of what may end between them; and
  // the session stays its writer's.
  bool joins = false;
  SteadyTime deadline = SteadyTime::InfiniteFuture();
  // How long after its arrival it may begin, beside the deadline.
  absl::Duration timeout = absl::InfiniteDuration();
  // If there is no such session it is made, and gone as by `starts`; it ends
  // with its writer (Engine::EndWriter), and is never stored.
  bool ephemeral = false;
  // Of a Step. It begins the session anew: if there is none, it is made, and
  // gone again if the step fails and has left nothing in it; one that there is
  // is as new at the step's turn (ephemeral: made anew). Not so of a repeat.
  bool starts = false;
  // Of a Step. When it has been carried out the session is deleted, unless a
  // request behind it starts it anew; what is queued before that ends.
  bool ends = false;
};

// Where a kind of request has no items, or nothing to say in the end.
struct Nothing {};

// What a step answers beside the position.
struct StepOutputs {
  bool logits = false;                     // f32[vocab_size]
  bool hidden = false;                     // f32[D], after the final norm
  std::optional<uint32_t> top_logprobs;    // 1..kMaxTopLogprobs
  std::optional<SamplingParams> sampling;  // draw a token; it is not absorbed
  bool text = false;                       // of that token
};

struct StepResult {
  uint64_t position = 0;  // after the step
  std::optional<int32_t> sampled_token;
  std::optional<float> sampled_logprob;  // of the model's own distribution
  std::string text_delta;                // whole characters; may be empty
  std::vector<TokenLogprob> top_logprobs;
  // Where they were computed, lent with the answer.
  std::span<const float> logits;
  std::span<const float> hidden;
  bool replayed = false;        // nothing was absorbed: it had been before
  absl::Duration queue_time;    // from submission to its first batch
  absl::Duration compute_time;  // from its first batch to its last
};

// Absorbs tokens or embeddings and answers once, after the last of them. An
// ephemeral one may have neither, nor outputs: it makes its session, if there
// is none, and answers the position. `session` empty: on a fresh state.
struct StepRequest : RequestBase {
  using Item = Nothing;
  using Summary = StepResult;

  std::vector<int32_t> tokens;    // exactly one of tokens and embeddings ...
  std::vector<float> embeddings;  // ... f32[n, D], n >= 1
  StepOutputs outputs;
};

struct GeneratedToken {
  int32_t token = 0;
  uint64_t position = 0;   // after this token was absorbed
  std::string text_delta;  // whole characters; may be empty
  std::optional<float> logprob;
  std::vector<TokenLogprob> top_logprobs;
  bool replayed = false;  // was absorbed, and handed over, before
};

struct GenerateSummary {
  FinishReason finish_reason = FinishReason::kLength;
  uint64_t position = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;  // those replayed included
  uint64_t replayed_tokens = 0;
  uint64_t reused_tokens = 0;  // of the prompt; they were not computed again
  std::optional<PrefixReuse> prefix_reuse;  // absent: it was not asked for
  uint64_t seed = 0;                        // that the tokens were drawn with
  std::string text_tail;                    // text held back until the end
  absl::Duration queue_time;
  absl::Duration time_to_first_token;
};

// Tokens of a repeated GenerateRequest that are handed over at once.
inline constexpr size_t kMaxReplayedAtOnce = 64;

// Absorbs a prompt, then draws tokens and absorbs each, until something ends
// it.
struct GenerateRequest : RequestBase {
  using Item = GeneratedToken;
  using Summary = GenerateSummary;

  // `session` empty: a fresh state that is given back at the end.
  // Empty: continues from the session's pending logits.
  std::vector<int32_t> prompt;
  // Begins a new session where earlier prompts like this one have been, and
  // keeps what this one is for later ones.
  bool reuse_prefix = false;
  SamplingParams sampling;
  // The seed was not given by the client: a repeat may come with another one,
  // and goes on with that of the first.
  bool seed_drawn = false;
  std::optional<uint64_t>
      max_tokens;                    // absent: no bound but the others; 0: none
  std::vector<int32_t> stop_tokens;  // beside the model's own end tokens
  bool ignore_eos = false;
  std::vector<std::string> stop_strings;  // need a tokenizer
  // Absent: none. 0: the drawn token's. n: and those of the n most likely.
  std::optional<uint32_t> logprobs;
};

struct ScoredToken {
  int32_t token = 0;
  uint64_t position = 0;  // after this token
  // log p(token | what came before). Absent where nothing came before.
  std::optional<float> logprob;
  std::vector<TokenLogprob> top_logprobs;  // of the same distribution
  std::vector<float> logits;               // after this token
};

struct ScoreSummary {
  uint64_t position = 0;
  uint64_t tokens = 0;
  uint64_t scored_tokens = 0;  // those with a logprob
  double total_logprob = 0;
};

// Log-probabilities of given tokens.
struct ScoreRequest : RequestBase {
  using Item = ScoredToken;
  using Summary = ScoreSummary;

  // `session` empty: a fresh state that is given back at the end.
  std::vector<int32_t> tokens;
  bool logits = false;  // also f32[vocab_size] after each token
  std::optional<uint32_t> top_logprobs;  // per token, 1..kMaxTopLogprobs
};

// Which of a sequence's hidden vectors are answered.
enum class Pooling : uint8_t {
  kNone,  // each
  kMean,  // their mean
  kLast,  // the last one
};

struct EmbeddedRow {
  uint64_t position = 0;      // after this row; for the mean, after the last
  std::vector<float> hidden;  // f32[D], after the final norm
};

struct EmbedSummary {
  uint64_t position = 0;
  uint64_t tokens = 0;  // or embeddings
};

// Hidden vectors of given inputs.
struct EmbedRequest : RequestBase {
  using Item = EmbeddedRow;
  using Summary = EmbedSummary;

  // `session` empty: a fresh state that is given back at the end.
  std::vector<int32_t> tokens;    // exactly one of tokens and embeddings ...
  std::vector<float> embeddings;  // ... f32[n, D], n >= 1
  Pooling pooling = Pooling::kNone;
  // Every row sees the whole sequence. Without a session only.
  bool bidirectional = false;
};

// Work on a session that is done elsewhere than on the compute thread,
// which does not wait for it.
struct WorkRequest : RequestBase {
  using Item = Nothing;
  using Summary = Nothing;

  // Called once, by a thread that has its state for itself, unless the request
  // ends before its turn. An error that it returns is the request's.
  std::function<absl::Status(Session&)> work;
  uint64_t bytes = 0;  // that it holds in memory, about
};

// Over everything that a request asks for: its kind, its inputs and what it
// wants answered. Who sends it, where to and when do not count, nor a seed that
// the client has not given. The same for ever, on every machine: XXH3, 128
// bits, of little-endian numbers.
RequestDigest DigestOf(const StepRequest& request);
RequestDigest DigestOf(const GenerateRequest& request);
RequestDigest DigestOf(const ScoreRequest& request);
RequestDigest DigestOf(const EmbedRequest& request);
// Work has no content; it is never repeated.
RequestDigest DigestOf(const WorkRequest& request);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_REQUEST_H_
