// Goal: a call reads, writes and is finished when that may be, and at no other
// time. Method: what happens to calls, told in every order that matters.
#include "server/rpc/call_progress.h"

#include "gtest/gtest.h"

namespace steadystate::call_progress_test {
namespace {

class CallProgressTest : public testing::Test {
 protected:
  // A read that brings a message, which is in hand then.
  void Read() {
    ASSERT_TRUE(progress_.MayRead());
    progress_.BeginRead();
    EXPECT_FALSE(starts_.Started());
    ASSERT_TRUE(progress_.TakeMessage());
  }

  ReadStarts starts_;
  CallProgress progress_{&starts_};
};

TEST_F(CallProgressTest, OneWriteIsOutstanding) {
  EXPECT_FALSE(progress_.BeginWrite(false));
  EXPECT_TRUE(progress_.BeginWrite(true));
  EXPECT_FALSE(progress_.BeginWrite(true));
  progress_.WriteDone();
  EXPECT_TRUE(progress_.BeginWrite(true));
}

TEST_F(CallProgressTest, OneReadIsOutstandingAndItsMessageComesFirst) {
  Read();
  EXPECT_FALSE(progress_.MayRead());
  EXPECT_TRUE(progress_.TakeMessage());  // the next part of it
  progress_.MessageWaits();
  EXPECT_TRUE(progress_.message_waits());
  EXPECT_FALSE(progress_.MayRead());
  EXPECT_TRUE(progress_.TakeMessage());
  EXPECT_FALSE(progress_.message_waits());
  progress_.MessageDone();
  EXPECT_TRUE(progress_.MayRead());
}

TEST_F(CallProgressTest, ACallIsFinishedOnceAndOnlyWhenItEnds) {
  EXPECT_FALSE(progress_.BeginFinish(false));
  progress_.End();
  EXPECT_FALSE(progress_.MayRead());
  EXPECT_FALSE(progress_.BeginFinish(true));
  EXPECT_TRUE(progress_.BeginFinish(false));
  EXPECT_TRUE(progress_.finished());
  EXPECT_FALSE(progress_.BeginFinish(false));
  EXPECT_FALSE(progress_.BeginWrite(true));
}

TEST_F(CallProgressTest, TheEndWaitsForTheWrite) {
  EXPECT_TRUE(progress_.BeginWrite(true));
  progress_.Break();
  EXPECT_FALSE(progress_.BeginFinish(false));
  progress_.WriteDone();
  EXPECT_TRUE(progress_.BeginFinish(false));
}

TEST_F(CallProgressTest, TheEndWaitsForAMessageInHandOrWaiting) {
  Read();
  progress_.End();
  EXPECT_FALSE(progress_.BeginFinish(false));
  progress_.MessageWaits();
  EXPECT_FALSE(progress_.BeginFinish(false));
  ASSERT_TRUE(progress_.TakeMessage());
  progress_.MessageDone();
  EXPECT_TRUE(progress_.BeginFinish(false));
}

TEST_F(CallProgressTest, NobodyWaitsForAMessageOfABrokenCall) {
  Read();
  progress_.MessageWaits();
  progress_.Break();
  EXPECT_FALSE(progress_.message_waits());
  EXPECT_TRUE(progress_.BeginFinish(false));
}

TEST_F(CallProgressTest, AMessageOfABrokenCallDoesNotWait) {
  Read();
  progress_.Break();
  EXPECT_FALSE(progress_.BeginFinish(false));
  progress_.MessageWaits();
  EXPECT_FALSE(progress_.message_waits());
  EXPECT_TRUE(progress_.BeginFinish(false));
}

TEST_F(CallProgressTest, AReadMayOutliveTheCallAndItsMessageIsNotWanted) {
  progress_.BeginRead();
  EXPECT_FALSE(starts_.Started());
  progress_.End();
  EXPECT_TRUE(progress_.BeginFinish(false));
  EXPECT_FALSE(progress_.TakeMessage());
}

TEST_F(CallProgressTest, TheEndWaitsForAReadThatIsBeingStarted) {
  progress_.BeginRead();
  progress_.End();
  EXPECT_FALSE(progress_.BeginFinish(false));
  // Whoever started it asks again.
  EXPECT_TRUE(starts_.Started());
  EXPECT_TRUE(progress_.BeginFinish(false));
}

TEST_F(CallProgressTest, TheLastOfSeveralStartersAsksAgain) {
  progress_.BeginRead();
  // The message is there before its starter has said so, and the next read
  // begins.
  ASSERT_TRUE(progress_.TakeMessage());
  progress_.MessageDone();
  progress_.BeginRead();
  progress_.End();
  EXPECT_FALSE(progress_.BeginFinish(false));
  EXPECT_FALSE(starts_.Started());
  EXPECT_FALSE(progress_.BeginFinish(false));
  EXPECT_TRUE(starts_.Started());
  EXPECT_TRUE(progress_.BeginFinish(false));
}

TEST(CallProgressOfAWriterTest, EndsWithoutAnyRead) {
  CallProgress progress(nullptr);
  EXPECT_TRUE(progress.BeginWrite(true));
  progress.End();
  EXPECT_FALSE(progress.BeginFinish(false));
  progress.WriteDone();
  EXPECT_TRUE(progress.BeginFinish(false));
}

}  // namespace
}  // namespace steadystate::call_progress_test
