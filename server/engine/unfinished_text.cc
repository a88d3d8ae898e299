#include "server/engine/unfinished_text.h"

#include <algorithm>
#include <array>
#include <span>

#include "server/session/session_memory.h"
#include "server/text/text_stream.h"

namespace steadystate {
namespace {

// A character has at most four bytes, and some tokens have none.
constexpr uint64_t kMostTokens = 16;

// The text that becomes certain with a token. What is not of the text adds
// none: what a client has imported may say that an embedding was drawn, and an
// end token ends a text.
std::string Append(const Model& model, int32_t token, TextStream& to) {
  const std::vector<int32_t>& eos = model.description().eos_tokens;
  if (token < 0 || std::find(eos.begin(), eos.end(), token) != eos.end()) {
    return "";
  }
  std::string bytes;
  model.tokenizer()->AppendBytes(token, bytes);
  return to.Append(bytes);
}

}  // namespace

std::string UnfinishedTextAt(const Model& model, const SessionState& state,
                             uint64_t position) {
  if (model.tokenizer() == nullptr || position > state.position() ||
      state.position() == 0) {
    return "";
  }
  const uint64_t least = std::max(state.history_begin(),
                                  position - std::min(position, kMostTokens));
  const TokenHistory history = state.history();
  uint64_t begin = std::max(position, least);
  while (begin > least && history.IsDrawn(begin - 1)) --begin;
  std::array<int32_t, kMostTokens> tokens;
  const size_t count = position > begin ? position - begin : 0;
  history.Copy(begin, std::span(tokens).first(count));
  TextStream text({}, "");
  for (const int32_t token : std::span(tokens).first(count)) {
    Append(model, token, text);
  }
  return text.unfinished();
}

std::string TextAfter(const Model& model, const SessionState& state,
                      int32_t token) {
  std::array<int32_t, kMostTokens> recent;
  const size_t count = state.CopyRecent(recent);
  TextStream text({}, "");
  for (const int32_t before : std::span(recent).first(count)) {
    Append(model, before, text);
  }
  return Append(model, token, text);
}

}  // namespace steadystate
