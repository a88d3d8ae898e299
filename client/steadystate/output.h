#ifndef STEADYSTATE_CLIENT_STEADYSTATE_OUTPUT_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_OUTPUT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace steadystate::client {

// JSON whose members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Writes to standard output at once, past its buffer. An error says why that is
// not possible, such as a reader that has gone.
absl::Status Print(absl::string_view text);

// Print, as indented JSON and a line end.
absl::Status PrintJson(const Json& json);

// A message as JSON with the names of the contract: every field, 64-bit numbers
// as numbers, enums by name, times as RFC 3339, durations in seconds. Optional
// fields and messages that are not set are left out.
Json ToJson(const google::protobuf::Message& message);

// The members of an object, one to a line and aligned, for people. Arrays of
// objects are counted, not shown.
std::string FormatLines(const Json& object);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_OUTPUT_H_
