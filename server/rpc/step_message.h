#ifndef STEADYSTATE_SERVER_RPC_STEP_MESSAGE_H_
#define STEADYSTATE_SERVER_RPC_STEP_MESSAGE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/rpc/arena_message.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// One message of a StreamStep stream, whose requests are read from its bytes a
// few at a time, when there is room for them. So a message takes its own size
// and that of a few requests, whatever it consists of: an empty request is two
// bytes on the wire and a hundred and more once it is read.
//
// A request is a v1::StreamStepRequest::Request: one of the message's
// `requests` or, before those, its own request_id and step, which have the same
// numbers. Thread-compatible.
class StepMessage {
 public:
  using Request = v1::StreamStepRequest::Request;

  // `max_steps`: the most requests of a message. `max_message_bytes`: what
  // reading one request may take is twice that.
  StepMessage(size_t max_steps, size_t max_message_bytes)
      : max_steps_(max_steps), max_parsed_bytes_(2 * max_message_bytes) {}

  // Takes the bytes of a message and counts its requests, of which none has
  // been read then. INVALID_ARGUMENT: it has too many, or is not a message.
  // REQUIRES: done().
  absl::Status Take(grpc::ByteBuffer& buffer);

  // Are there requests that have not been consumed?
  bool done() const { return size() == 0 && unread_ == 0; }

  // If all that were read are consumed, reads the next ones. INVALID_ARGUMENT:
  // the next one is no request; the message is of no use from there on.
  // REQUIRES: !done().
  absl::Status Read();

  // Requests that have been read and not been consumed, in order. They stay
  // until the next Read, Unread or Clear.
  size_t size() const { return ready_.size() - consumed_; }
  const Request& operator[](size_t i) const {
    return batch_->requests(static_cast<int>(consumed_ + i));
  }
  // Not OK if this request would take too much to read; it has but request_id
  // and session then.
  const absl::Status& refusal(size_t i) const {
    return i + 1 == size() ? refusal_ : ok_;
  }
  void Consume() { ++consumed_; }

  // Forgets what has been read and not been consumed; it will be read again.
  void Unread();

  // Of its bytes; 0 if there is no message.
  size_t bytes() const { return wire_.size(); }
  // Makes it none.
  void Clear();

 private:
  absl::Status Scan(absl::string_view wire);
  // Sets own_ to the message's own request, if it has one.
  void FindOwn(absl::string_view wire, size_t requests);
  // The bytes of the next request; empties next_ only if it is the last.
  bool NextRequest(absl::string_view& record);
  absl::Status Parse(absl::string_view record, Request& to);
  absl::Status ParseNames(absl::string_view record, Request& to);

  const size_t max_steps_;
  const size_t max_parsed_bytes_;
  const absl::Status ok_;

  grpc::Slice wire_;
  bool has_own_ = false;
  std::string own_copy_;    // of its parts, where others lie between them
  absl::string_view own_;   // in wire_ or own_copy_
  absl::string_view rest_;  // of wire_, from the next of `requests` on
  size_t count_ = 0;        // of its requests
  size_t unread_ = 0;       // of them

  // Where each request that was read begins: what was rest_ before it.
  std::vector<absl::string_view> ready_;
  ArenaMessage<v1::StreamStepRequest> batch_;
  size_t consumed_ = 0;   // of ready_
  absl::Status refusal_;  // of the last one of ready_
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STEP_MESSAGE_H_
