// A message of a StreamStep stream: read in parts, it is what Protobuf reads as
// a whole, and takes no more memory than was counted before.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/stubs/logging.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/rpc/step_message.h"
#include "server/rpc/wire_reader.h"
#include "steadystate/v1/generation.pb.h"
#include "tests/fuzz/require.h"

namespace steadystate {
namespace {

constexpr size_t kMaxSteps = 1024;
constexpr size_t kMaxMessageBytes = size_t{4} << 20;

// The requests of a message, each as bytes.
struct Requests {
  bool good = false;     // there is no fault
  bool refused = false;  // one was not read, since it would take too much
  std::vector<std::string> all;
};

// Gives some back now and then, as a stream does whose budget is used up.
Requests ReadInParts(absl::string_view wire) {
  Requests requests;
  const grpc::Slice slice(wire.data(), wire.size());
  grpc::ByteBuffer buffer(&slice, 1);
  StepMessage message(kMaxSteps, kMaxMessageBytes);
  if (!message.Take(buffer).ok()) return requests;
  for (size_t reads = 0; !message.done(); ++reads) {
    Require(reads <= 2 * kMaxSteps, "reading comes to an end");
    if (!message.Read().ok()) return requests;
    Require(message.size() > 0, "a read reads");
    const size_t take = reads % 3 == 0 ? (message.size() + 1) / 2 : SIZE_MAX;
    for (size_t i = 0; i < take && message.size() > 0; ++i) {
      requests.refused = requests.refused || !message.refusal(0).ok();
      requests.all.push_back(message[0].SerializeAsString());
      message.Consume();
    }
    if (message.size() > 0) message.Unread();
  }
  requests.good = true;
  return requests;
}

Requests ReadAsAWhole(absl::string_view wire) {
  Requests requests;
  v1::StreamStepRequest message;
  if (!message.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
    return requests;
  }
  Require(message.SpaceUsedLong() <=
              ParsedBytes(wire, *v1::StreamStepRequest::descriptor(), SIZE_MAX),
          "a message takes what was counted, or less");
  if (message.has_step() || message.requests().empty()) {
    StepMessage::Request own;
    own.set_request_id(message.request_id());
    if (message.has_step()) *own.mutable_step() = message.step();
    requests.all.push_back(own.SerializeAsString());
  }
  for (const StepMessage::Request& request : message.requests()) {
    requests.all.push_back(request.SerializeAsString());
  }
  requests.good = true;
  return requests;
}

}  // namespace
}  // namespace steadystate

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using steadystate::Require;
  // It complains of every malformed text.
  static const google::protobuf::LogSilencer silence;
  const absl::string_view wire(reinterpret_cast<const char*>(data), size);
  const steadystate::Requests parts = steadystate::ReadInParts(wire);
  const steadystate::Requests whole = steadystate::ReadAsAWhole(wire);
  if (!whole.good || whole.all.size() > steadystate::kMaxSteps) return 0;
  Require(parts.good, "what Protobuf reads is read in parts");
  if (parts.refused) return 0;
  Require(parts.all.size() == whole.all.size(), "no request is lost");
  return 0;
}
