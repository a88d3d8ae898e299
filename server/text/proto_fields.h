#ifndef STEADYSTATE_SERVER_TEXT_PROTO_FIELDS_H_
#define STEADYSTATE_SERVER_TEXT_PROTO_FIELDS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// One field of a message in Protobuf's wire format.
struct ProtoField {
  enum Type : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint32_t number;
  Type type;
  uint64_t varint;          // if the type is kVarint
  absl::string_view bytes;  // of all others
};

// Calls `visit` with the fields of a message, in order, until it fails; returns
// its error. INVALID_ARGUMENT for what is not well-formed and for groups, which
// no message of this project's has. For files of which a library makes more
// than the caller wants: what is well-formed here is so for Protobuf, with the
// same values.
absl::Status ForEachProtoField(
    absl::string_view message,
    const std::function<absl::Status(const ProtoField&)>& visit);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_PROTO_FIELDS_H_
