#ifndef STEADYSTATE_SERVER_STORE_STORED_FORM_H_
#define STEADYSTATE_SERVER_STORE_STORED_FORM_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/session/expired_ids.h"
#include "server/session/session_store.h"

namespace steadystate {

// What describes a stored session, as a database has it.
std::string EncodeStored(const StoredSession& session);

// The same of this server's version and all before it. DATA_LOSS for anything
// else.
absl::StatusOr<StoredSession> DecodeStored(absl::string_view bytes);

// When a session expired, beside its name. DATA_LOSS for what is no time.
std::string EncodeExpiry(absl::Time time);
absl::StatusOr<ExpiredId> DecodeExpired(absl::string_view name,
                                        absl::string_view bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_STORED_FORM_H_
