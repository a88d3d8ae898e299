// Goal: a message of one step takes nothing from the heap but long strings, and
// what a large one took does not stay. Method: the bytes that the arena says it
// has.
//
// Goal: blocks of the usual size go round, up to a bound; others come and go.
// Method: the process is the test's own, so nobody else takes any.
#include "server/rpc/arena_message.h"

#include <cstdint>
#include <set>

#include "gtest/gtest.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate::arena_message_test {
namespace {

void AddStep(v1::StreamStepRequest& to) {
  v1::StreamStepRequest::Request& request = *to.add_requests();
  request.set_request_id("17");
  v1::StepRequest& step = *request.mutable_step();
  step.set_session("sessions/0123456789abcdef");
  step.set_expected_position(1000);
  step.mutable_tokens()->add_ids(65);
  step.mutable_output()->mutable_sample()->set_seed(1);
}

void AddResult(v1::StreamStepResponse& to) {
  v1::StreamStepResponse::Result& result = *to.add_results();
  result.set_request_id("17");
  result.set_session("sessions/0123456789abcdef");
  v1::StepResponse& step = *result.mutable_step();
  step.set_session("sessions/0123456789abcdef");
  step.set_position(1001);
  step.set_sampled_token(66);
  step.mutable_timing()->mutable_queue()->set_nanos(1);
  step.mutable_timing()->mutable_compute()->set_nanos(1);
}

TEST(ArenaMessageTest, AStepFitsWhereTheMessageBegins) {
  ArenaMessage<v1::StreamStepRequest> request;
  const uint64_t first = request->GetArena()->SpaceAllocated();
  AddStep(*request);
  EXPECT_EQ(request->GetArena()->SpaceAllocated(), first);
  ArenaMessage<v1::StreamStepResponse> response;
  AddResult(*response);
  EXPECT_EQ(response->GetArena()->SpaceAllocated(), first);
}

TEST(ArenaMessageTest, ClearingGivesBackWhatALargeMessageTook) {
  ArenaMessage<v1::StreamStepRequest> request;
  const uint64_t first = request->GetArena()->SpaceAllocated();
  for (int i = 0; i < 1000; ++i) AddStep(*request);
  EXPECT_GT(request->GetArena()->SpaceAllocated(), first);
  request.Clear();
  EXPECT_EQ(request->GetArena()->SpaceAllocated(), first);
  EXPECT_EQ(request->requests_size(), 0);
  AddStep(*request);
  EXPECT_EQ(request->requests(0).step().tokens().ids(0), 65);
}

TEST(ArenaBlocksTest, TheBlockGivenBackLastIsGivenOutFirst) {
  void* const one = ArenaBlocks::Allocate(ArenaBlocks::kBytes);
  void* const other = ArenaBlocks::Allocate(ArenaBlocks::kBytes);
  EXPECT_NE(one, other);
  ArenaBlocks::Free(one, ArenaBlocks::kBytes);
  ArenaBlocks::Free(other, ArenaBlocks::kBytes);
  EXPECT_EQ(ArenaBlocks::Allocate(ArenaBlocks::kBytes), other);
  EXPECT_EQ(ArenaBlocks::Allocate(ArenaBlocks::kBytes), one);
  ArenaBlocks::Free(one, ArenaBlocks::kBytes);
  ArenaBlocks::Free(other, ArenaBlocks::kBytes);
}

TEST(ArenaBlocksTest, TakesBackMoreThanItKeeps) {
  constexpr size_t kBlocks = 2000;
  std::set<void*> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.insert(ArenaBlocks::Allocate(ArenaBlocks::kBytes));
  }
  EXPECT_EQ(blocks.size(), kBlocks);
  for (void* block : blocks) ArenaBlocks::Free(block, ArenaBlocks::kBytes);
}

TEST(ArenaBlocksTest, OtherSizesAreWhatTheySay) {
  void* const kept = ArenaBlocks::Allocate(ArenaBlocks::kBytes);
  ArenaBlocks::Free(kept, ArenaBlocks::kBytes);
  constexpr size_t kLarge = 10 * ArenaBlocks::kBytes;
  auto* const large = static_cast<char*>(ArenaBlocks::Allocate(kLarge));
  EXPECT_NE(large, kept);
  large[kLarge - 1] = 1;
  ArenaBlocks::Free(large, kLarge);
}

}  // namespace
}  // namespace steadystate::arena_message_test
