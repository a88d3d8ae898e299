// Goal: parts share messages up to the bound, in order, and bytes are counted
// until they have been written.
#include "server/rpc/outbound_queue.h"

#include "gtest/gtest.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate {
namespace {

using Queue = OutboundQueue<v1::TokenizeRequest>;

TEST(OutboundQueueTest, PartsShareAMessageUpToItsBound) {
  Queue queue(10);
  queue.RoomFor(4).mutable_text()->append("aaaa");
  queue.RoomFor(6).mutable_text()->append("bbbbbb");
  queue.RoomFor(1).mutable_text()->append("c");
  EXPECT_EQ(queue.Next().text(), "aaaabbbbbb");
  queue.WriteDone();
  EXPECT_EQ(queue.Next().text(), "c");
  EXPECT_TRUE(queue.empty());
}

TEST(OutboundQueueTest, APartBeyondTheBoundTravelsAlone) {
  Queue queue(10);
  queue.RoomFor(1).mutable_text()->append("a");
  queue.RoomFor(100).mutable_text()->append("big");
  queue.RoomFor(1).mutable_text()->append("b");
  EXPECT_EQ(queue.Next().text(), "a");
  queue.WriteDone();
  EXPECT_EQ(queue.Next().text(), "big");
  queue.WriteDone();
  EXPECT_EQ(queue.Next().text(), "b");
}

TEST(OutboundQueueTest, AWrittenMessageIsUsedAgainEmpty) {
  Queue queue(10);
  queue.RoomFor(1).mutable_text()->append("a");
  queue.Next();
  queue.WriteDone();
  EXPECT_EQ(queue.RoomFor(1).text(), "");
  queue.RoomFor(1).mutable_text()->append("b");
  EXPECT_EQ(queue.bytes(), 2u);
  EXPECT_EQ(queue.Next().text(), "b");
}

TEST(OutboundQueueTest, BytesCountUntilTheyAreWritten) {
  Queue queue(10);
  queue.RoomFor(7);
  queue.RoomFor(8);
  EXPECT_EQ(queue.bytes(), 15u);
  queue.Next();
  EXPECT_EQ(queue.bytes(), 15u);
  queue.WriteDone();
  EXPECT_EQ(queue.bytes(), 8u);
}

TEST(OutboundQueueTest, ClearKeepsWhatIsBeingWritten) {
  Queue queue(10);
  queue.RoomFor(7);
  queue.RoomFor(8);
  queue.Next();
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.bytes(), 7u);
  queue.WriteDone();
  EXPECT_EQ(queue.bytes(), 0u);
}

}  // namespace
}  // namespace steadystate
