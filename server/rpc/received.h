#ifndef STEADYSTATE_SERVER_RPC_RECEIVED_H_
#define STEADYSTATE_SERVER_RPC_RECEIVED_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "grpcpp/impl/serialization_traits.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "grpcpp/support/status.h"

namespace steadystate {

// Requests up to this size are read without a look at what they take, and on
// gRPC's own threads: that takes some hundred microseconds.
inline constexpr size_t kSmallRequestBytes = size_t{64} << 10;

// A request as it came, and whether it could be read. With the message itself
// as the type of a method's request, gRPC would read it, and end a call whose
// request it cannot read in a way of its own, without an ErrorInfo.
template <typename Message>
struct Received {
  Message message;
  absl::Status status;      // not OK: the message is of no use
  size_t bytes = 0;         // as they came
  grpc::ByteBuffer unread;  // of a large request that is still to be read
};

// The bytes of a buffer in one piece: its only slice, or a copy. Empties it.
// INTERNAL if gRPC does not give them.
absl::Status TakeBytes(grpc::ByteBuffer& buffer, grpc::Slice& to);

// What `slice` has, lent.
absl::string_view BytesOf(const grpc::Slice& slice);

// Reads a request, if that does not take more than some times the bytes that
// messages of this server may have. INVALID_ARGUMENT: it is not one, or takes
// more. Empties `buffer`.
absl::Status ReadRequest(grpc::ByteBuffer& buffer,
                         google::protobuf::Message& to);

// INVALID_ARGUMENT for what is no message of this type. `what` names it,
// "the request".
absl::Status UnreadableError(absl::string_view what,
                             const google::protobuf::Descriptor& type);

// INVALID_ARGUMENT for what would take more than `bound` once it is read, and
// takes `bytes` before that.
absl::Status TooMuchToReadError(absl::string_view what, size_t bytes,
                                size_t bound);

}  // namespace steadystate

// How gRPC reads a request of such a method: always with success, and large
// ones not yet.
template <typename Message>
class grpc::SerializationTraits<steadystate::Received<Message>> {
 public:
  static grpc::Status Deserialize(grpc::ByteBuffer* buffer,
                                  steadystate::Received<Message>* to) {
    to->bytes = buffer->Length();
    if (to->bytes > steadystate::kSmallRequestBytes) {
      to->unread.Swap(buffer);
      return grpc::Status::OK;
    }
    to->status = steadystate::ReadRequest(*buffer, to->message);
    return grpc::Status::OK;
  }
};

#endif  // STEADYSTATE_SERVER_RPC_RECEIVED_H_
