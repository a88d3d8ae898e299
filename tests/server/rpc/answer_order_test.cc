// Goal: answers leave in the order of each session's requests, whatever order
// they come in, and nothing is remembered of what has left. Method: requests
// and answers by hand; what left is read from the queue.
#include "server/rpc/answer_order.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/convert.h"
#include "server/rpc/own_protocol.h"
#include "steadystate/v1/generation.pb.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::answer_order_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kMessageBytes = size_t{1} << 20;

StepResult ResultAt(uint64_t position, std::vector<float> logits = {}) {
  StepResult result;
  result.position = position;
  result.logits = std::move(logits);
  return result;
}

class AnswerOrderTest : public testing::Test {
 protected:
  // Ids of the results that have left since the last call; "!" marks errors.
  std::vector<std::string> Left() {
    std::vector<std::string> ids;
    while (!out_.empty()) {
      for (const auto& result : Next().results()) {
        ids.push_back(
            absl::StrCat(result.has_error() ? "!" : "", result.request_id()));
      }
      out_.WriteDone();
    }
    return ids;
  }

  void Refuse(AnswerOrder::Tag tag) {
    PublicError error;
    error.message = "no";
    order_.Refuse(tag, error, &out_);
  }

  const v1::StreamStepResponse& Next() {
    return static_cast<const v1::StreamStepResponse&>(out_.Next());
  }

  const std::shared_ptr<const Model> model_ =
      TinyModel(TinyModelOptions{}).Load();
  const Converter converter_{*model_, EngineOptions{}, kMessageBytes};
  const OwnProtocol protocol_{converter_, 1024, kMessageBytes};
  AnswerOrder order_{protocol_};
  StepQueue out_{protocol_.shared_bytes(), protocol_.message()};
};

TEST_F(AnswerOrderTest, AnswersOfDifferentSessionsLeaveAsTheyCome) {
  const auto a = order_.Add({"a", "sessions/1"}, 10);
  const auto b = order_.Add({"b", "sessions/2"}, 20);
  EXPECT_EQ(order_.count(), 2u);
  EXPECT_EQ(order_.cost(), 30u);
  order_.Answer(b, ResultAt(7), &out_);
  EXPECT_THAT(Left(), ElementsAre("b"));
  EXPECT_EQ(order_.cost(), 10u);
  order_.Answer(a, ResultAt(8), &out_);
  EXPECT_THAT(Left(), ElementsAre("a"));
  EXPECT_EQ(order_.count(), 0u);
  EXPECT_EQ(order_.cost(), 0u);
}

TEST_F(AnswerOrderTest, AnswersAndRefusalsOfOneSessionWaitForThoseBefore) {
  const auto a = order_.Add({"a", "sessions/1"}, 1);
  const auto b = order_.Add({"b", "sessions/1"}, 1);
  const auto c = order_.Add({"c", "sessions/1"}, 1);
  const auto d = order_.Add({"d", "sessions/1"}, 1);
  Refuse(b);
  order_.Answer(c, ResultAt(2, {1, 2, 3}), &out_);
  EXPECT_THAT(Left(), IsEmpty());
  EXPECT_EQ(order_.count(), 4u);
  order_.Answer(a, {}, &out_);
  EXPECT_THAT(Left(), ElementsAre("a", "!b", "c"));
  Refuse(d);
  EXPECT_THAT(Left(), ElementsAre("!d"));
}

TEST_F(AnswerOrderTest, AnAnswerThatHasWaitedIsWholeAndCounted) {
  const auto a = order_.Add({"a", "sessions/1"}, 1);
  const auto b = order_.Add({"b", "sessions/1"}, 1);
  const std::vector<float> logits(1000, 0.5f);
  order_.Answer(b, ResultAt(3, logits), &out_);
  EXPECT_EQ(out_.memory(), 0u);
  order_.Answer(a, {}, &out_);
  // Its bytes on the wire, and those of the message that it stays in.
  EXPECT_GT(out_.memory(), 2 * logits.size() * sizeof(float));
  const v1::StreamStepResponse& message = Next();
  ASSERT_EQ(message.results_size(), 2);
  const auto& late = message.results(1);
  EXPECT_EQ(late.session(), "sessions/1");
  EXPECT_EQ(late.step().session(), "sessions/1");
  EXPECT_EQ(late.step().position(), 3u);
  EXPECT_EQ(late.step().logits_size(), 1000);
  out_.WriteDone();
  EXPECT_EQ(out_.memory(), 0u);
}

TEST_F(AnswerOrderTest, ATagIsOfOneRequestOnly) {
  const auto first = order_.Add({"a", "sessions/1"}, 1);
  EXPECT_TRUE(order_.NoteId(first, 5));
  EXPECT_THAT(order_.Ids(), ElementsAre(5u));
  order_.Answer(first, {}, &out_);
  EXPECT_FALSE(order_.IsUnanswered(first));
  EXPECT_FALSE(order_.NoteId(first, 5));
  EXPECT_THAT(order_.Ids(), IsEmpty());
  const auto second = order_.Add({"b", "sessions/1"}, 1);
  EXPECT_NE(second, first);
  EXPECT_FALSE(order_.NoteId(first, 5));
  EXPECT_TRUE(order_.NoteId(second, 6));
}

TEST_F(AnswerOrderTest, WhatNobodyHearsIsForgotten) {
  const auto a = order_.Add({"a", "sessions/1"}, 1);
  const auto b = order_.Add({"b", "sessions/1"}, 1);
  order_.Answer(b, {}, nullptr);
  order_.Answer(a, {}, nullptr);
  EXPECT_EQ(order_.count(), 0u);
  EXPECT_THAT(Left(), IsEmpty());
  // An answer from before that waits is dropped with the others.
  const auto c = order_.Add({"c", "sessions/1"}, 1);
  Refuse(order_.Add({"d", "sessions/1"}, 1));
  order_.Answer(c, {}, nullptr);
  EXPECT_EQ(order_.count(), 0u);
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(AnswerOrderTest, DroppedAnswersTakeNoMemoryAndAreNotSent) {
  const auto a = order_.Add({"a", "sessions/1"}, 1);
  const auto b = order_.Add({"b", "sessions/1"}, 1);
  Refuse(b);
  order_.DropAnswers();
  EXPECT_EQ(order_.count(), 2u);
  order_.Answer(a, {}, &out_);
  EXPECT_EQ(order_.count(), 0u);
  EXPECT_THAT(Left(), ElementsAre("a"));
}

TEST_F(AnswerOrderTest, ManySessionsOneAfterTheOtherAreNotAllRemembered) {
  const auto waits = order_.Add({"waits", "sessions/first"}, 1);
  for (int i = 0; i < 10'000; ++i) {
    order_.Answer(order_.Add({"x", absl::StrCat("sessions/", i)}, 1), {},
                  &out_);
    EXPECT_THAT(Left(), ElementsAre("x"));
  }
  order_.Answer(waits, {}, &out_);
  EXPECT_THAT(Left(), ElementsAre("waits"));
}

}  // namespace
}  // namespace steadystate::answer_order_test
