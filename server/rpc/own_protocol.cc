#include "server/rpc/own_protocol.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/service_context.h"
#include "server/rpc/step_message.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {
namespace {

using Result = v1::StreamStepResponse::Result;

// What an answer repeats of a request's session where that is no name.
constexpr size_t kMaxEchoedSessionBytes = 128;
// Tag and length of a result within its message.
constexpr size_t kResultFramingBytes = 8;

class OwnSource final : public StepSource {
 public:
  OwnSource(const Converter& converter, size_t max_steps,
            size_t max_message_bytes)
      : converter_(converter), message_(max_steps, max_message_bytes) {}

  absl::Status Take(grpc::ByteBuffer& buffer) override {
    return message_.Take(buffer);
  }
  bool done() const override { return message_.done(); }
  absl::Status Read() override { return message_.Read(); }
  size_t size() const override { return message_.size(); }
  absl::Status Get(size_t i, StepRequest& to, StepNames& names) override;
  size_t text_bytes(size_t i) const override {
    return message_[i].step().text().size();
  }
  void Consume() override { message_.Consume(); }
  void Unread() override { message_.Unread(); }
  size_t bytes() const override { return message_.bytes(); }
  void Clear() override { message_.Clear(); }

 private:
  const Converter& converter_;
  StepMessage message_;
};

absl::Status OwnSource::Get(size_t i, StepRequest& to, StepNames& names) {
  const StepMessage::Request& from = message_[i];
  names = {.request_id = Excerpt(from.request_id(), kMaxRequestIdBytes),
           .session = Excerpt(from.step().session(), kMaxEchoedSessionBytes)};
  STEADYSTATE_RETURN_IF_ERROR(message_.refusal(i));
  if (from.request_id().size() > kMaxRequestIdBytes) {
    return OutOfBounds(
        "request_id", absl::StrCat(from.request_id().size(), " bytes long"),
        absl::StrCat("at most ", kMaxRequestIdBytes, " bytes long"));
  }
  if (!from.has_step()) return MissingField("request", "give a step");
  STEADYSTATE_RETURN_IF_ERROR(converter_.ToStepRequest(from.step(), to));
  // One of the step's own goes before.
  if (to.request_id.empty()) to.request_id = from.request_id();
  return absl::OkStatus();
}

void SetNames(const StepNames& names, Result& to) {
  to.set_request_id(names.request_id.data(), names.request_id.size());
  to.set_session(names.session.data(), names.session.size());
}

void SetAnswer(const StepNames& names, const StepResult& result, Result& to) {
  ToProto(result, names.session, *to.mutable_step());
  SetNames(names, to);
}

v1::StreamStepResponse& RoomFor(size_t bytes, size_t outside, StepQueue& out) {
  return static_cast<v1::StreamStepResponse&>(out.RoomFor(bytes, outside));
}

}  // namespace

absl::string_view OwnProtocol::method() const {
  return "steadystate.v1.GenerationService/StreamStep";
}

std::unique_ptr<StepSource> OwnProtocol::NewSource() const {
  return std::make_unique<OwnSource>(converter_, max_steps_per_message_,
                                     max_message_bytes_);
}

const google::protobuf::Message& OwnProtocol::message() const {
  return v1::StreamStepResponse::default_instance();
}

size_t OwnProtocol::shared_bytes() const {
  return std::min(kCoalescedBytes, max_message_bytes_);
}

void OwnProtocol::Answer(const StepNames& names, const StepResult& result,
                         StepQueue& out) const {
  const size_t bytes =
      WireBytes(result) + names.request_id.size() + 2 * names.session.size();
  SetAnswer(names, result, *RoomFor(bytes, 0, out).add_results());
}

std::unique_ptr<google::protobuf::Message> OwnProtocol::Answer(
    const StepNames& names, const StepResult& result) const {
  auto answer = std::make_unique<Result>();
  SetAnswer(names, result, *answer);
  return answer;
}

std::unique_ptr<google::protobuf::Message> OwnProtocol::Refuse(
    const StepNames& names, const PublicError& error) const {
  auto answer = std::make_unique<Result>();
  *answer->mutable_error() = ToRpcStatus(error);
  SetNames(names, *answer);
  return answer;
}

// It stays where it is and becomes the message's, whose own memory does not
// count it.
void OwnProtocol::Send(std::unique_ptr<google::protobuf::Message> answer,
                       StepQueue& out) const {
  const size_t bytes = answer->ByteSizeLong() + kResultFramingBytes;
  RoomFor(bytes, answer->SpaceUsedLong(), out)
      .mutable_results()
      ->AddAllocated(static_cast<Result*>(answer.release()));
}

void OwnProtocol::GoAway(absl::Time requests_until, StepQueue& out) const {
  ToProto(requests_until,
          *RoomFor(kGoingAwayBytes, 0, out).mutable_going_away());
}

}  // namespace steadystate
