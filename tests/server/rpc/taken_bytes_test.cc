// Goal: bytes count for the connection that they came by, from its begin to its
// end.
#include "server/rpc/taken_bytes.h"

#include <memory>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

TEST(TakenBytesTest, CountsByConnectionFromItsBegin) {
  TakenBytes bytes;
  bytes.Add(1, 100);
  const TakenBytes::Count one(bytes, 1);
  const TakenBytes::Count two(bytes, 2);
  bytes.Add(1, 10);
  bytes.Add(2, 20);
  bytes.Add(2, 5);
  bytes.Add(3, 7);
  EXPECT_EQ(one.Get(), 10u);
  EXPECT_EQ(two.Get(), 25u);
}

// A peer may come again by the same port before its end has been noticed.
TEST(TakenBytesTest, AConnectionOfTheSameNameBeginsAnew) {
  TakenBytes bytes;
  auto first = std::make_unique<TakenBytes::Count>(bytes, 1);
  bytes.Add(1, 10);
  const TakenBytes::Count second(bytes, 1);
  bytes.Add(1, 5);
  first.reset();
  bytes.Add(1, 2);
  EXPECT_EQ(second.Get(), 7u);
}

}  // namespace
}  // namespace steadystate
