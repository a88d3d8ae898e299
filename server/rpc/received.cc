#include "server/rpc/received.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/rpc/wire_reader.h"

namespace steadystate {
namespace {

// What reading one may take: the tokens that one may have, twice as much while
// the array grows, and as much again; for larger messages so many times their
// size.
constexpr size_t kMostParsedBytes = size_t{16} << 20;
constexpr size_t kMostParsedRatio = 4;

}  // namespace

absl::string_view BytesOf(const grpc::Slice& slice) {
  // NOLINTNEXTLINE: bytes are bytes.
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

absl::Status TakeBytes(grpc::ByteBuffer& buffer, grpc::Slice& to) {
  to = grpc::Slice();
  if (!buffer.Valid()) {
    return MakeError(ErrorReason::kInvalidArgument,
                     "the call brought no request: send one message");
  }
  if (!buffer.TrySingleSlice(&to).ok() && !buffer.DumpToSingleSlice(&to).ok()) {
    return absl::InternalError("gRPC does not give a message's bytes");
  }
  buffer.Clear();
  return absl::OkStatus();
}

absl::Status UnreadableError(absl::string_view what,
                             const google::protobuf::Descriptor& type) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat(what, " is not a ", type.full_name(),
                   ": it must be one in protobuf's wire format, its texts in "
                   "UTF-8"),
      {{"field", std::string(what)}, {"bounds", type.full_name()}});
}

absl::Status TooMuchToReadError(absl::string_view what, size_t bytes,
                                size_t bound) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat(what, " of ", bytes, " bytes has more than ", kMostParts,
                   " parts, or reading it would take more than ", bound,
                   " bytes of memory: send fewer repeated or unknown fields"),
      {{"field", std::string(what)},
       {"value", absl::StrCat(bytes, " bytes")},
       {"bounds", absl::StrCat("at most ", bound, " in memory")}});
}

absl::Status ReadRequest(grpc::ByteBuffer& buffer,
                         google::protobuf::Message& to) {
  constexpr absl::string_view kWhat = "the request";
  grpc::Slice slice;
  STEADYSTATE_RETURN_IF_ERROR(TakeBytes(buffer, slice));
  const absl::string_view wire = BytesOf(slice);
  if (wire.size() > kSmallRequestBytes) {
    MayPark("ReadRequest");
    const size_t bound =
        std::max(kMostParsedBytes, kMostParsedRatio * wire.size());
    if (ParsedBytes(wire, *to.GetDescriptor(), bound) > bound) {
      return TooMuchToReadError(kWhat, wire.size(), bound);
    }
  }
  if (to.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
    return absl::OkStatus();
  }
  to.Clear();
  return UnreadableError(kWhat, *to.GetDescriptor());
}

}  // namespace steadystate
