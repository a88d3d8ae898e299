#include "server/rpc/answer_size.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/rpc/arena_blocks.h"

namespace steadystate {
namespace {

// On the wire.

// A TokenLogprob with its framing.
constexpr size_t kTopLogprobBytes = 16;
// The scalar fields of one token's message, and the message's own framing.
constexpr size_t kTokenBytes = 48;
// The scalar fields of a step's result, and the framing of all its messages.
constexpr size_t kStepBytes = 128;
// Everything of an answer that is not logits, hidden state or alternatives:
// names, position, timing, framing.
constexpr size_t kOverheadBytes = 512;

// In memory.

// A TokenLogprob as a part of a message, the pointer to it, and its bytes on
// the wire.
constexpr size_t kTopLogprobMemory = 32 + sizeof(void*) + 16;
// A float as a part of a message, and on the wire.
constexpr size_t kFloatMemory = 2 * sizeof(float);
// What else there is about one token, vector or step, and its share of the
// lists that double when they grow.
constexpr size_t kItemMemory = 512;
// Messages take memory in blocks, the last of which has room left.
constexpr size_t kBlockMemory = 2 * ArenaBlocks::kBytes;
// The engine's pieces of Score and Embed hold no more than this in numbers, or
// one row.
constexpr size_t kMaxPieceBytes = size_t{1} << 20;

// Rows of one piece, each with `floats` numbers.
size_t PieceRows(size_t inputs, size_t floats, const Engine& engine) {
  const size_t most =
      std::clamp<size_t>(kMaxPieceBytes / (floats * sizeof(float)), 1,
                         engine.options().prefill_chunk_rows);
  return std::min(inputs, most);
}

}  // namespace

absl::Status MessageTooLarge(size_t bytes, size_t limit) {
  return MakeError(
      ErrorReason::kMessageTooLarge,
      absl::StrCat("the answer would take up to ", bytes,
                   " bytes, more than the limit of ", limit,
                   "; ask for less, or raise --max_message_bytes"),
      {{"bytes", absl::StrCat(bytes)}, {"limit", absl::StrCat(limit)}});
}

size_t MostWireBytes(const StepOutputs& outputs, const Model& model) {
  const ModelDescription& sizes = model.description();
  return kOverheadBytes + outputs.top_logprobs.value_or(0) * kTopLogprobBytes +
         ((outputs.logits ? sizes.vocab_size : 0) +
          (outputs.hidden ? sizes.hidden_size : 0)) *
             sizeof(float);
}

size_t MostWireBytes(const ScoreRequest& request, const Model& model) {
  return kOverheadBytes + request.top_logprobs.value_or(0) * kTopLogprobBytes +
         (request.logits ? model.description().vocab_size * sizeof(float) : 0);
}

size_t MostWireBytes(const EmbedRequest& /*request*/, const Model& model) {
  return kOverheadBytes + model.description().hidden_size * sizeof(float);
}

size_t WireBytes(const StepResult& result) {
  return kStepBytes + result.top_logprobs.size() * kTopLogprobBytes +
         (result.logits.size() + result.hidden.size()) * sizeof(float);
}

size_t WireBytes(const GeneratedToken& token) {
  return kTokenBytes + token.top_logprobs.size() * kTopLogprobBytes +
         token.text_delta.size();
}

size_t WireBytes(const ScoredToken& token) {
  return kTokenBytes + token.top_logprobs.size() * kTopLogprobBytes +
         token.logits.size() * sizeof(float);
}

size_t WireBytes(const EmbeddedRow& row) {
  return kTokenBytes + row.hidden.size() * sizeof(float);
}

size_t PieceMemory(const GenerateRequest& request) {
  const size_t alternatives = request.logprobs.value_or(0);
  // A token alone has room in the first part of a message.
  if (alternatives == 0) return 4 * kItemMemory;
  return kBlockMemory + kItemMemory + alternatives * kTopLogprobMemory;
}

size_t PieceMemory(const ScoreRequest& request, const Engine& engine) {
  const size_t vocab_size = engine.model().description().vocab_size;
  const size_t rows = PieceRows(request.tokens.size(), vocab_size, engine);
  const size_t row_memory =
      kItemMemory + request.top_logprobs.value_or(0) * kTopLogprobMemory +
      (request.logits ? vocab_size * kFloatMemory : 0);
  return kBlockMemory + rows * row_memory;
}

size_t PieceMemory(const EmbedRequest& request, const Engine& engine) {
  const size_t hidden_size = engine.model().description().hidden_size;
  const size_t inputs =
      std::max(request.tokens.size(), request.embeddings.size() / hidden_size);
  const size_t rows = request.pooling == Pooling::kNone
                          ? PieceRows(inputs, hidden_size, engine)
                          : 1;
  return kBlockMemory + rows * (kItemMemory + hidden_size * kFloatMemory);
}

size_t AnswerMemory(const StepOutputs& outputs, const Engine& engine) {
  const ModelDescription& model = engine.model().description();
  return kItemMemory + outputs.top_logprobs.value_or(0) * kTopLogprobMemory +
         ((outputs.logits ? model.vocab_size : 0) +
          (outputs.hidden ? model.hidden_size : 0)) *
             kFloatMemory;
}

}  // namespace steadystate
