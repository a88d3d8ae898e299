#ifndef STEADYSTATE_SERVER_RPC_OWN_PROTOCOL_H_
#define STEADYSTATE_SERVER_RPC_OWN_PROTOCOL_H_

#include <cstddef>
#include <memory>

#include "server/rpc/convert.h"
#include "server/rpc/step_protocol.h"

namespace steadystate {

// steadystate.v1.GenerationService/StreamStep: messages have many steps, and
// many answers.
class OwnProtocol final : public StepProtocol {
 public:
  // `converter` outlives it; see StepMessage for the bounds.
  OwnProtocol(const Converter& converter, size_t max_steps_per_message,
              size_t max_message_bytes)
      : converter_(converter),
        max_steps_per_message_(max_steps_per_message),
        max_message_bytes_(max_message_bytes) {}

  absl::string_view method() const override;
  std::unique_ptr<StepSource> NewSource() const override;
  const google::protobuf::Message& message() const override;
  size_t shared_bytes() const override;
  void Answer(const StepNames& names, const StepResult& result,
              StepQueue& out) const override;
  std::unique_ptr<google::protobuf::Message> Answer(
      const StepNames& names, const StepResult& result) const override;
  std::unique_ptr<google::protobuf::Message> Refuse(
      const StepNames& names, const PublicError& error) const override;
  void Send(std::unique_ptr<google::protobuf::Message> answer,
            StepQueue& out) const override;
  void GoAway(absl::Time requests_until, StepQueue& out) const override;

 private:
  const Converter& converter_;
  const size_t max_steps_per_message_;
  const size_t max_message_bytes_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_OWN_PROTOCOL_H_
