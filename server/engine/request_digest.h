#ifndef STEADYSTATE_SERVER_ENGINE_REQUEST_DIGEST_H_
#define STEADYSTATE_SERVER_ENGINE_REQUEST_DIGEST_H_

#include "server/engine/request.h"
#include "server/session/request_records.h"

namespace steadystate {

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

#endif  // STEADYSTATE_SERVER_ENGINE_REQUEST_DIGEST_H_
