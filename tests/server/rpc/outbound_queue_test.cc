// Goal: parts share messages up to the bound, in order, and bytes are counted
// until they have been written.
#include "server/rpc/outbound_queue.h"

#include <string>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

using Queue = OutboundQueue<std::string>;

TEST(OutboundQueueTest, PartsShareAMessageUpToItsBound) {
  Queue queue(10);
  queue.RoomFor(4) += "aaaa";
  queue.RoomFor(6) += "bbbbbb";
  queue.RoomFor(1) += "c";
  EXPECT_EQ(queue.Next(), "aaaabbbbbb");
  queue.WriteDone();
  EXPECT_EQ(queue.Next(), "c");
  EXPECT_TRUE(queue.empty());
}

TEST(OutboundQueueTest, APartBeyondTheBoundTravelsAlone) {
  Queue queue(10);
  queue.RoomFor(1) += "a";
  queue.RoomFor(100) += "big";
  queue.RoomFor(1) += "b";
  EXPECT_EQ(queue.Next(), "a");
  queue.WriteDone();
  EXPECT_EQ(queue.Next(), "big");
  queue.WriteDone();
  EXPECT_EQ(queue.Next(), "b");
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
