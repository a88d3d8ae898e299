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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_UNFINISHED_TEXT_H_
