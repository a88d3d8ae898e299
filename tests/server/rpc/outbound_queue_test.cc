// Goal: parts share messages up to the bound, in order, and bytes are counted
// until they have been written.
#include "server/rpc/outbound_queue.h"

#include <string>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

// Has what the queue asks of a message.
struct Text {
  std::string text;
  void Clear() { text.clear(); }
};

using Queue = OutboundQueue<Text>;

TEST(OutboundQueueTest, PartsShareAMessageUpToItsBound) {
  Queue queue(10);
  queue.RoomFor(4).text += "aaaa";
  queue.RoomFor(6).text += "bbbbbb";
  queue.RoomFor(1).text += "c";
  EXPECT_EQ(queue.Next().text, "aaaabbbbbb");
  queue.WriteDone();
  EXPECT_EQ(queue.Next().text, "c");
  EXPECT_TRUE(queue.empty());
}

TEST(OutboundQueueTest, APartBeyondTheBoundTravelsAlone) {
  Queue queue(10);
  queue.RoomFor(1).text += "a";
  queue.RoomFor(100).text += "big";
  queue.RoomFor(1).text += "b";
  EXPECT_EQ(queue.Next().text, "a");
  queue.WriteDone();
  EXPECT_EQ(queue.Next().text, "big");
  queue.WriteDone();
  EXPECT_EQ(queue.Next().text, "b");
}

TEST(OutboundQueueTest, AWrittenMessageIsUsedAgainEmpty) {
  Queue queue(10);
  queue.RoomFor(1).text += "a";
  queue.Next();
  queue.WriteDone();
  EXPECT_EQ(queue.RoomFor(1).text, "");
  queue.RoomFor(1).text += "b";
  EXPECT_EQ(queue.bytes(), 2u);
  EXPECT_EQ(queue.Next().text, "b");
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
