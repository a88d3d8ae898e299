// Goal: positions, bounds and what is unanswered are kept right, whatever the
// server answers. Method: steps entered and answered by hand.
#include "steadystate/step_ledger.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "steadystate/error.h"

namespace steadystate::client::step_ledger_test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class StepLedgerTest : public testing::Test {
 protected:
  // Sends `inputs` tokens, in the message of number `batch`.
  v1::StepRequest Send(size_t number, size_t inputs, uint64_t tag = 0,
                       uint64_t batch = 0) {
    const std::vector<int32_t> tokens(inputs, 7);
    Step step;
    step.tokens = tokens;
    EXPECT_TRUE(ledger_.CheckSend(number, step).ok());
    v1::StreamStepRequest::Request request;
    ledger_.Send(number, step, tag, batch, request);
    EXPECT_EQ(request.request_id(), std::to_string(number));
    return request.step();
  }

  StepAnswer Answer(size_t number, uint64_t position) {
    v1::StreamStepResponse::Result result;
    result.set_request_id(std::to_string(number));
    result.mutable_step()->set_position(position);
    return Take(result);
  }

  StepAnswer Fail(size_t number, const std::string& reason,
                  const std::string& position = "") {
    v1::StreamStepResponse::Result result;
    result.set_request_id(std::to_string(number));
    result.mutable_error()->set_code(10);
    google::rpc::ErrorInfo info;
    info.set_domain("steadystate");
    info.set_reason(reason);
    if (!position.empty()) (*info.mutable_metadata())["position"] = position;
    result.mutable_error()->add_details()->PackFrom(info);
    return Take(result);
  }

  StepAnswer Take(v1::StreamStepResponse::Result& result) {
    StepAnswer answer;
    EXPECT_TRUE(ledger_.Answer(result, answer));
    ledger_.Release(1);
    return answer;
  }

  StepLedger ledger_{{.max_in_flight = 4, .max_in_flight_per_session = 3}};
};

TEST_F(StepLedgerTest, StepsExpectThePositionThatThoseBeforeThemLeadTo) {
  const size_t a = ledger_.AddSession("sessions/a", 100);
  const size_t b = ledger_.AddSession("sessions/b", 0);
  EXPECT_EQ(Send(a, 5).expected_position(), 100u);
  EXPECT_EQ(Send(a, 1).expected_position(), 105u);
  EXPECT_EQ(Send(b, 2).expected_position(), 0u);
  Answer(a, 105);
  EXPECT_EQ(ledger_.Standing(a, 1).position, 105u);
  EXPECT_EQ(Send(a, 1).expected_position(), 106u);
}

TEST_F(StepLedgerTest, AnswersHaveTheTagsOfTheirStepsInOrder) {
  const size_t a = ledger_.AddSession("sessions/a", 0);
  Send(a, 1, /*tag=*/11);
  Send(a, 1, /*tag=*/22);
  EXPECT_EQ(Answer(a, 1).tag, 11u);
  const StepAnswer second = Answer(a, 2);
  EXPECT_EQ(second.tag, 22u);
  ASSERT_TRUE(second.step.ok());
  EXPECT_EQ(second.step->position(), 2u);
}

TEST_F(StepLedgerTest, AfterAFailureTheSessionGoesOnFromWhereItStands) {
  const size_t a = ledger_.AddSession("sessions/a", 10);
  Send(a, 5);
  Send(a, 5);
  EXPECT_EQ(ReasonOf(Fail(a, "QUEUE_FULL").step.status()), v1::QUEUE_FULL);
  // The one behind it is on its way with a position that will not be.
  EXPECT_EQ(Send(a, 1).expected_position(), 20u);
  Fail(a, "POSITION_MISMATCH", "10");
  Fail(a, "POSITION_MISMATCH", "10");
  EXPECT_EQ(Send(a, 1).expected_position(), 10u);
}

TEST_F(StepLedgerTest, AStepThatADrainCutShortTellsWhereTheSessionIs) {
  const size_t a = ledger_.AddSession("sessions/a", 10);
  Send(a, 5);
  EXPECT_EQ(ReasonOf(Fail(a, "DRAINING", "13").step.status()), v1::DRAINING);
  EXPECT_EQ(ledger_.Standing(a, 1).position, 13u);
  Send(a, 5);
  Fail(a, "DRAINING");
  EXPECT_EQ(ledger_.Standing(a, 1).position, 13u);
}

TEST_F(StepLedgerTest, BoundsHoldForTheStreamAndForEachSession) {
  const size_t a = ledger_.AddSession("sessions/a", 0);
  const size_t b = ledger_.AddSession("sessions/b", 0);
  const int32_t token = 1;
  Step step;
  step.tokens = {&token, 1};
  for (int i = 0; i < 3; ++i) Send(a, 1);
  absl::Status full = ledger_.CheckSend(a, step);
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("3 steps of sessions/a"));
  Send(b, 1);
  full = ledger_.CheckSend(b, step);
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("4 steps of the stream"));
  Answer(a, 1);
  EXPECT_TRUE(ledger_.CheckSend(b, step).ok());
}

TEST_F(StepLedgerTest, AStepHasTokensOrEmbeddings) {
  const size_t a = ledger_.AddSession("sessions/a", 0);
  const std::vector<float> vectors(6);
  const std::vector<int32_t> tokens(2);
  Step step;
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.CheckSend(a, step)));
  step.embeddings = vectors;
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.CheckSend(a, step)));
  step.embedding_count = 3;
  ASSERT_TRUE(ledger_.CheckSend(a, step).ok());
  v1::StreamStepRequest::Request request;
  ledger_.Send(a, step, 0, 0, request);
  EXPECT_EQ(request.step().embeddings().values_size(), 6);
  EXPECT_THAT(ledger_.Standing(a, 1).in_doubt, SizeIs(1));
  EXPECT_EQ(ledger_.Standing(a, 1).in_doubt[0].inputs, 3u);
  step.tokens = tokens;
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.CheckSend(a, step)));
  step = {.tokens = tokens, .text = "a"};
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.CheckSend(a, step)));
}

// Nobody knows where it ends before its answer.
TEST_F(StepLedgerTest, NothingIsSentBehindAText) {
  const size_t a = ledger_.AddSession("sessions/a", 10);
  Send(a, 5);
  Step step;
  step.text = "The ";
  ASSERT_TRUE(ledger_.CheckSend(a, step).ok());
  v1::StreamStepRequest::Request request;
  ledger_.Send(a, step, /*tag=*/2, 1, request);
  EXPECT_EQ(request.step().text(), "The ");
  EXPECT_EQ(request.step().expected_position(), 15u);
  const absl::Status behind = ledger_.CheckSend(a, step);
  EXPECT_TRUE(absl::IsResourceExhausted(behind));
  EXPECT_THAT(std::string(behind.message()),
              HasSubstr("a text of sessions/a is in flight"));
  EXPECT_TRUE(ledger_.Standing(a, 2).in_doubt[1].is_text);
  Answer(a, 15);
  EXPECT_TRUE(absl::IsResourceExhausted(ledger_.CheckSend(a, step)));
  Answer(a, 19);
  EXPECT_EQ(Send(a, 1).expected_position(), 19u);
}

// It has changed nothing, as any other.
TEST_F(StepLedgerTest, ATextThatFailsMakesWay) {
  const size_t a = ledger_.AddSession("sessions/a", 10);
  Step step;
  step.text = "The ";
  v1::StreamStepRequest::Request request;
  ledger_.Send(a, step, 0, 0, request);
  Fail(a, "QUEUE_FULL");
  EXPECT_EQ(Send(a, 1).expected_position(), 10u);
}

TEST_F(StepLedgerTest, AStepThatMakesItsSessionMayHaveNothing) {
  const size_t a = ledger_.AddSession("sessions/a", 0);
  Step step;
  step.ephemeral = true;
  ASSERT_TRUE(ledger_.CheckSend(a, step).ok());
  v1::StreamStepRequest::Request request;
  ledger_.Send(a, step, 0, 0, request);
  EXPECT_TRUE(request.step().ephemeral());
  EXPECT_EQ(request.step().input_case(), v1::StepRequest::INPUT_NOT_SET);
  EXPECT_EQ(ledger_.Standing(a, 1).in_doubt[0].inputs, 0u);
  const v1::StepOutput output;
  step.output = &output;
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.CheckSend(a, step)));
}

TEST_F(StepLedgerTest, NumbersOfSessionsThatWereRemovedAreUsedAgain) {
  const size_t a = ledger_.AddSession("sessions/a", 0);
  const size_t b = ledger_.AddSession("sessions/b", 0);
  Send(a, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger_.RemoveSession(a)));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ledger_.PlaceSession(a, "sessions/c", 0)));
  Answer(a, 1);
  EXPECT_TRUE(ledger_.RemoveSession(a).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.RemoveSession(a)));
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.PlaceSession(9, "x", 0)));
  EXPECT_EQ(ledger_.AddSession("sessions/c", 7), a);
  EXPECT_EQ(Send(a, 1).session(), "sessions/c");
  EXPECT_TRUE(ledger_.PlaceSession(b, "sessions/d", 9).ok());
  EXPECT_EQ(Send(b, 1).expected_position(), 9u);
}

TEST_F(StepLedgerTest, WhatNobodyAskedForIsNoAnswer) {
  const size_t a = ledger_.AddSession("sessions/a", 0);
  for (const std::string id : {"", "x", "-1", "7", "0"}) {
    v1::StreamStepResponse::Result result;
    result.set_request_id(id);
    StepAnswer answer;
    EXPECT_FALSE(ledger_.Answer(result, answer)) << id;
  }
  Send(a, 1);
  v1::StreamStepResponse::Result empty;
  empty.set_request_id("0");
  EXPECT_TRUE(absl::IsInternal(Take(empty).step.status()));
}

TEST_F(StepLedgerTest, UnansweredStepsAreInDoubtOnceTheirMessageHasLeft) {
  ledger_.AddSession("sessions/a", 0);
  const size_t b = ledger_.AddSession("sessions/b", 40);
  Send(b, 1, /*tag=*/1, /*batch=*/0);
  Send(b, 2, /*tag=*/2, /*batch=*/0);
  Send(b, 3, /*tag=*/3, /*batch=*/1);
  Answer(b, 41);
  const auto standings = ledger_.Unanswered(/*batches=*/1);
  ASSERT_THAT(standings, SizeIs(1));
  EXPECT_EQ(standings[0].name, "sessions/b");
  EXPECT_EQ(standings[0].position, 41u);
  ASSERT_THAT(standings[0].in_doubt, SizeIs(1));
  EXPECT_EQ(standings[0].in_doubt[0].tag, 2u);
  ASSERT_THAT(standings[0].unsent, SizeIs(1));
  EXPECT_EQ(standings[0].unsent[0].tag, 3u);
  EXPECT_EQ(standings[0].unsent[0].inputs, 3u);
}

TEST(StepsTakenTest, ThePositionTellsHowManyStepsWereCarriedOut) {
  const SessionStanding standing{"sessions/a", 10, {{1, 5}, {2, 1}}, {}};
  v1::Session found;
  found.set_name("sessions/a");
  found.set_state(v1::Session::IDLE);
  for (const auto& [position, taken] :
       std::vector<std::pair<uint64_t, size_t>>{{10, 0}, {15, 1}, {16, 2}}) {
    found.set_position(position);
    ASSERT_TRUE(StepsTaken(standing, found).ok());
    EXPECT_EQ(*StepsTaken(standing, found), taken);
  }
  for (const uint64_t position : {9u, 12u, 17u}) {
    found.set_position(position);
    EXPECT_TRUE(absl::IsAborted(StepsTaken(standing, found).status()));
  }
  // A text ends somewhere behind where it begins, and nothing follows it.
  const SessionStanding text{"sessions/a", 10, {{1, 5}, {2, 0, true}}, {}};
  for (const auto& [position, taken] :
       std::vector<std::pair<uint64_t, size_t>>{{10, 0}, {15, 1}, {99, 2}}) {
    found.set_position(position);
    EXPECT_EQ(*StepsTaken(text, found), taken);
  }
  for (const uint64_t position : {9u, 12u}) {
    found.set_position(position);
    EXPECT_TRUE(absl::IsAborted(StepsTaken(text, found).status()));
  }
  found.set_position(10);
  found.set_state(v1::Session::ACTIVE);
  EXPECT_TRUE(absl::IsUnavailable(StepsTaken(standing, found).status()));
  found.set_name("sessions/b");
  EXPECT_TRUE(absl::IsInvalidArgument(StepsTaken(standing, found).status()));
}

}  // namespace
}  // namespace steadystate::client::step_ledger_test
