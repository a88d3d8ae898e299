#ifndef STEADYSTATE_SERVER_ENGINE_UNFINISHED_TEXT_H_
#define STEADYSTATE_SERVER_ENGINE_UNFINISHED_TEXT_H_

#include <cstdint>
#include <string>

#include "server/model/model.h"
#include "server/session/session_state.h"

namespace steadystate {

// The first bytes of a character that the tokens which a session drew left
// unfinished at an earlier position, from what it remembers of them. Empty
// without a tokenizer, or where the session has not been.
std::string UnfinishedTextAt(const Model& model, const SessionState& state,
                             uint64_t position);

// The text that becomes certain when `token` follows what the session has
// absorbed: whole characters, begun perhaps by the tokens before it, whoever
// gave those. Empty for the model's end tokens. REQUIRES: there is a tokenizer.
std::string TextAfter(const Model& model, const SessionState& state,
                      int32_t token);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_UNFINISHED_TEXT_H_
