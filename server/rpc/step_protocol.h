#ifndef STEADYSTATE_SERVER_RPC_STEP_PROTOCOL_H_
#define STEADYSTATE_SERVER_RPC_STEP_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/engine/request.h"
#include "server/rpc/answer.h"
#include "server/rpc/outbound_queue.h"

namespace steadystate {

// What the answer to a step repeats of it.
struct StepNames {
  absl::string_view request_id;
  absl::string_view session{};  // "sessions/{id}", or what is in its place
  uint32_t form = 0;  // how the protocol says the answer; its own affair
};

// One message of a stream of steps, whose requests are read from its bytes a
// few at a time, when there is room for them. Thread-compatible.
class StepSource {
 public:
  virtual ~StepSource() = default;

  // Takes the bytes of a message, of which nothing has been read then.
  // INVALID_ARGUMENT: it has too many requests, or is not a message. REQUIRES:
  // done().
  virtual absl::Status Take(grpc::ByteBuffer& buffer) = 0;
  // Are there no requests that have not been consumed?
  virtual bool done() const = 0;

  // If all that were read are consumed, reads the next ones. INVALID_ARGUMENT:
  // the next one is no request; the message is of no use from there on.
  // REQUIRES: !done().
  virtual absl::Status Read() = 0;
  // Requests that have been read and not been consumed, in order. They stay
  // until the next Read, Unread or Clear.
  virtual size_t size() const = 0;
  // Sets everything in `to` but writer, client and deadline, in memory that it
  // has, or returns the request's refusal. What `names` has lies in the
  // message; long names are cut short.
  virtual absl::Status Get(size_t i, StepRequest& to, StepNames& names) = 0;
  // Of texts that Get makes tokens of.
  virtual size_t text_bytes(size_t i) const = 0;
  virtual void Consume() = 0;

  // Forgets what has been read and not been consumed; it will be read again.
  virtual void Unread() = 0;
  // Of the message; 0 if there is none.
  virtual size_t bytes() const = 0;
  // Makes it none.
  virtual void Clear() = 0;
};

// Answers that wait for their stream.
using StepQueue = OutboundQueue<google::protobuf::Message>;

// How streams of steps, and their answers, are written. Immutable; thread-safe.
// Outlives all streams.
class StepProtocol {
 public:
  virtual ~StepProtocol() = default;

  // The stream's full name, a literal.
  virtual absl::string_view method() const = 0;
  // For one stream.
  virtual std::unique_ptr<StepSource> NewSource() const = 0;

  // A message on which answers travel.
  virtual const google::protobuf::Message& message() const = 0;
  // Answers share such a message up to so many bytes. 0: they do not.
  virtual size_t shared_bytes() const = 0;

  // Adds the answer to `out`, where it is copied once.
  virtual void Answer(const StepNames& names, const StepResult& result,
                      StepQueue& out) const = 0;
  // An answer, or a refusal, that has to wait for others; Send adds it to
  // `out`.
  virtual std::unique_ptr<google::protobuf::Message> Answer(
      const StepNames& names, const StepResult& result) const = 0;
  virtual std::unique_ptr<google::protobuf::Message> Refuse(
      const StepNames& names, const PublicError& error) const = 0;
  virtual void Send(std::unique_ptr<google::protobuf::Message> answer,
                    StepQueue& out) const = 0;
  // Adds to `out` that the server is about to shut down, if there is a word for
  // that.
  virtual void GoAway(absl::Time requests_until, StepQueue& out) const = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STEP_PROTOCOL_H_
