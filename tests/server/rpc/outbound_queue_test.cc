// Goal: parts share messages up to the bound, in order, and bytes are counted
// until they have been written.
#include "server/rpc/outbound_queue.h"

#include "gtest/gtest.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::outbound_queue_test {
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

// In memory a part is several times what it is on the wire.
TEST(OutboundQueueTest, MemoryCountsUntilItIsWritten) {
  OutboundQueue<v1::GenerateResponse> queue(1000);
  EXPECT_EQ(queue.memory(), 0u);
  const auto add = [&queue](size_t wire_bytes) {
    const size_t before = queue.memory();
    auto& token = *queue.RoomFor(wire_bytes).add_tokens();
    for (int i = 0; i < 256; ++i) token.add_top_logprobs()->set_token(i);
    return queue.memory() - before;
  };
  constexpr size_t kLeast = 256 * (sizeof(v1::TokenLogprob) + sizeof(void*));
  const size_t first = add(900);
  EXPECT_GE(first, 900 + kLeast);
  const size_t second = add(900);
  EXPECT_GE(second, 900 + kLeast);
  queue.Next();
  EXPECT_EQ(queue.memory(), first + second);
  const size_t third = add(100);
  EXPECT_GE(third, 100 + kLeast);
  queue.WriteDone();
  EXPECT_EQ(queue.memory(), second + third);
  queue.Next();
  EXPECT_EQ(queue.memory(), second + third);
  add(1000);
  queue.Clear();
  EXPECT_EQ(queue.memory(), second + third);
  queue.WriteDone();
  EXPECT_EQ(queue.memory(), 0u);
}

}  // namespace
}  // namespace steadystate::outbound_queue_test
