// Goal: the caps are what the limit of open files leaves, and only an explicit
// value that does not fit is refused.
#include "server/rpc/connection_caps.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ConnectionCapsTest, TakesWhatTheLimitLeaves) {
  const struct {
    uint64_t limit;
    size_t in_all;
    size_t per_peer;
  } kCases[] = {{64, 16, 8},
                {1024, 896, 448},
                {4096, 3840, 1920},
                {1048576, 1048320, 524160}};
  for (const auto& expected : kCases) {
    const auto caps = ResolveConnectionCaps(0, 0, expected.limit);
    ASSERT_TRUE(caps.ok()) << caps.status();
    EXPECT_EQ(caps->in_all, expected.in_all);
    EXPECT_EQ(caps->per_peer, expected.per_peer);
  }
}

TEST(ConnectionCapsTest, AnyLimitIsEnoughToStart) {
  for (uint64_t limit = 0; limit < 5000; ++limit) {
    const auto caps = ResolveConnectionCaps(0, 0, limit);
    ASSERT_TRUE(caps.ok()) << caps.status();
    EXPECT_GE(caps->per_peer, 1u);
    EXPECT_GE(caps->in_all, caps->per_peer);
  }
}

TEST(ConnectionCapsTest, ExplicitValuesAreTakenAsFarAsTheyFit) {
  const auto caps = ResolveConnectionCaps(16, 16, 64);
  ASSERT_TRUE(caps.ok()) << caps.status();
  EXPECT_EQ(caps->in_all, 16u);
  EXPECT_EQ(caps->per_peer, 16u);
  EXPECT_EQ(ResolveConnectionCaps(10, 0, 1024)->per_peer, 5u);
}

TEST(ConnectionCapsTest, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const absl::Status in_all = ResolveConnectionCaps(17, 0, 64).status();
  EXPECT_EQ(in_all.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(in_all.message()),
              AllOf(HasSubstr("max_connections is 17"),
                    HasSubstr("limit of 64"), HasSubstr("at most 16")));
  const absl::Status per_peer = ResolveConnectionCaps(0, 17, 64).status();
  EXPECT_EQ(per_peer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(per_peer.message()),
              AllOf(HasSubstr("max_connections_per_peer is 17"),
                    HasSubstr("at most 16")));
}

}  // namespace
}  // namespace steadystate
