// Goal: a message becomes submissions and refusals in its order, each with what
// it costs, and no more of it is read than is taken up. Method: messages of
// all kinds, taken up in parts.
#include "server/rpc/step_intake.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics/metrics.h"
#include "server/rpc/answer.h"
#include "server/rpc/convert.h"
#include "server/rpc/own_protocol.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::step_intake_test {
namespace {

using testing::ElementsAre;

class StepIntakeTest : public testing::Test {
 protected:
  static constexpr size_t kMessageBytes = size_t{1} << 20;

  // A message of steps with one token each, but for those of no token.
  static v1::StreamStepRequest MessageOf(const std::vector<int32_t>& tokens) {
    v1::StreamStepRequest message;
    for (const int32_t token : tokens) {
      auto& request = *message.add_requests();
      request.set_request_id(std::to_string(token));
      request.mutable_step()->set_session("sessions/a");
      request.mutable_step()->mutable_tokens();
      if (token >= 0) request.mutable_step()->mutable_tokens()->add_ids(token);
    }
    return message;
  }

  absl::Status Take(const v1::StreamStepRequest& message) {
    const std::string bytes = message.SerializeAsString();
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer buffer(&slice, 1);
    return intake_.Take(buffer);
  }

  // Tokens of what is to be submitted.
  std::vector<int32_t> Submissions() {
    std::vector<int32_t> tokens;
    for (const Submission<StepRequest>& submission : intake_.submissions()) {
      tokens.push_back(submission.request.tokens.at(0));
    }
    return tokens;
  }

  const std::shared_ptr<const Model> model_ = [] {
    return TinyModel(TinyModelOptions{}).Load();
  }();
  ManualClock clock_;
  Metrics metrics_{"tiny"};
  const std::unique_ptr<Engine> engine_ = [this] {
    return *Engine::Create({}, model_, clock_, metrics_);
  }();
  const Converter converter_{*model_, EngineOptions{}, kMessageBytes};
  InboundBudget inbound_{8 << 20};
  const OwnProtocol protocol_{converter_, 1024, kMessageBytes};
  StepIntake intake_{protocol_.NewSource(),
                     *engine_,
                     inbound_,
                     {.writer = 3, .client = 4, .deadline = clock_.Now()}};
};

TEST_F(StepIntakeTest, AMessageBecomesSubmissionsAndRefusalsInItsOrder) {
  ASSERT_TRUE(Take(MessageOf({1, -1, 2})).ok());
  ASSERT_TRUE(intake_.Look().ok());
  ASSERT_EQ(intake_.arrivals().size(), 3u);
  EXPECT_EQ(intake_.arrivals()[0].names.request_id, "1");
  EXPECT_EQ(intake_.arrivals()[0].names.session, "sessions/a");
  EXPECT_GT(intake_.arrivals()[0].cost, 0u);
  // A refusal may wait for the answers before it, and takes memory then.
  const size_t refusal = intake_.arrivals()[1].cost;
  EXPECT_GE(refusal, 1024u);
  EXPECT_FALSE(intake_.arrivals()[1].refusal.ok());
  EXPECT_EQ(intake_.cost(), 2 * intake_.arrivals()[0].cost + refusal);
  EXPECT_NE(intake_.TakeUp(), nullptr);
  EXPECT_EQ(intake_.TakeUp(), nullptr);
  EXPECT_FALSE(intake_.done());
  EXPECT_NE(intake_.TakeUp(), nullptr);
  EXPECT_TRUE(intake_.done());
  EXPECT_THAT(Submissions(), ElementsAre(1, 2));
  const StepRequest& request = intake_.submissions()[0].request;
  EXPECT_EQ(request.session, "a");
  EXPECT_EQ(request.writer, 3u);
  EXPECT_EQ(request.client, 4u);
  EXPECT_EQ(request.deadline, clock_.Now());
}

TEST_F(StepIntakeTest, WhatIsNotTakenUpComesAgain) {
  ASSERT_TRUE(Take(MessageOf({1, 2, 3})).ok());
  ASSERT_TRUE(intake_.Look().ok());
  intake_.TakeUp();
  intake_.Unread();
  EXPECT_FALSE(intake_.done());
  ASSERT_TRUE(intake_.Look().ok());
  ASSERT_EQ(intake_.arrivals().size(), 2u);
  EXPECT_EQ(intake_.arrivals()[0].names.request_id, "2");
  intake_.TakeUp();
  intake_.TakeUp();
  EXPECT_TRUE(intake_.done());
  EXPECT_THAT(Submissions(), ElementsAre(1, 2, 3));
  intake_.ClearSubmissions();
  EXPECT_TRUE(intake_.submissions().empty());
}

TEST_F(StepIntakeTest, ALongMessageIsLookedAtInParts) {
  ASSERT_TRUE(Take(MessageOf(std::vector<int32_t>(1000, 5))).ok());
  size_t looks = 0;
  while (!intake_.done()) {
    ASSERT_TRUE(intake_.Look().ok());
    ASSERT_LE(intake_.arrivals().size(), 64u);
    for (size_t i = intake_.arrivals().size(); i > 0; --i) intake_.TakeUp();
    ++looks;
  }
  EXPECT_GE(looks, 16u);
  EXPECT_EQ(intake_.submissions().size(), 1000u);
}

TEST_F(StepIntakeTest, LongNamesAreRefusedAndCutShort) {
  v1::StreamStepRequest message;
  message.set_request_id(std::string(200, 'i'));
  message.mutable_step()->set_session(std::string(300, 's'));
  ASSERT_TRUE(Take(message).ok());
  ASSERT_TRUE(intake_.Look().ok());
  ASSERT_EQ(intake_.arrivals().size(), 1u);
  const StepIntake::Arrival& arrival = intake_.arrivals()[0];
  EXPECT_EQ(arrival.names.request_id, std::string(128, 'i'));
  EXPECT_EQ(arrival.names.session, std::string(128, 's'));
  EXPECT_THAT(ToGrpcStatus(ToPublicError(arrival.refusal)),
              IsAboutField("request_id"));
}

TEST_F(StepIntakeTest, AMessageCanBeDropped) {
  ASSERT_TRUE(Take(MessageOf({1, 2})).ok());
  ASSERT_TRUE(intake_.Look().ok());
  intake_.Drop();
  EXPECT_TRUE(intake_.done());
  EXPECT_TRUE(intake_.arrivals().empty());
}

}  // namespace
}  // namespace steadystate::step_intake_test
