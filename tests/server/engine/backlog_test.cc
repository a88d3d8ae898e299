// Goal: queues keep their order and their bounds. Pure bookkeeping, so no
// threads and no model.
#include "server/engine/backlog.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/state_layout.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::backlog_test {
namespace {

using testing::ElementsAre;

class InputTask final : public Task {
 public:
  explicit InputTask(uint64_t input_bytes) : input_bytes_(input_bytes) {}
  absl::Status Begin(const SessionState&) override { return absl::OkStatus(); }
  absl::Status Resume(const RequestRecord&, const SessionState&) override {
    return absl::OkStatus();
  }
  RequestDigest digest() const override { return {}; }
  const RequestBase& base() const override { return base_; }
  bool Ready() override { return true; }
  Piece Next() const override { return {}; }
  void Advance(const PieceResult&) override {}
  bool done() const override { return false; }
  void Answer(const absl::Status*, const RequestTimes&, Round&) override {}
  bool HasItems() const override { return false; }
  void TakeBack() override {}
  void Forget() override {}
  uint64_t input_bytes() const override { return input_bytes_; }

 private:
  const RequestBase base_;
  const uint64_t input_bytes_;
};

constexpr Backlog::Limits kLimits{
    .max_queued_per_session = 2, .max_queued = 5, .max_input_bytes = 100};
constexpr WriterId kWriter = 7;
constexpr ClientId kNobody = 0;  // has no share
const SteadyTime kNever = SteadyTime::InfiniteFuture();

class BacklogTest : public testing::Test {
 protected:
  BacklogTest() {
    for (int i = 0; i < 3; ++i) {
      sessions_.push_back(std::make_unique<Session>(layout_));
    }
  }

  Session& session(size_t i) { return *sessions_[i]; }

  Request& Add(size_t to, SteadyTime deadline = kNever,
               uint64_t input_bytes = 1, ClientId client = kNobody) {
    auto request = std::make_unique<Request>();
    request->deadline = deadline;
    request->task = std::make_unique<InputTask>(input_bytes);
    return backlog_.Add(session(to), client, kWriter, std::move(request));
  }

  ErrorReason Refusal(size_t to, WriterId writer = kWriter,
                      uint64_t input_bytes = 1) {
    return ReasonOf(backlog_.Check(&session(to), kNobody, writer, input_bytes));
  }

  StateLayout state_layout_ = [] {
    StateLayoutBuilder builder;
    EXPECT_TRUE(builder.AddFixed(0, "S", {4}).ok());
    return std::move(builder).Build();
  }();
  SessionLayout layout_{state_layout_, 4, 16};
  std::vector<std::unique_ptr<Session>> sessions_;
  Backlog backlog_{kLimits};
};

TEST_F(BacklogTest, ALaneExistsWhileItHasRequests) {
  EXPECT_EQ(session(0).lane, nullptr);
  Request& first = Add(0);
  Request& second = Add(0);
  Lane* const lane = session(0).lane;
  ASSERT_NE(lane, nullptr);
  EXPECT_EQ(first.lane, lane);
  EXPECT_EQ(second.lane, lane);
  EXPECT_EQ(lane->requests.front().get(), &first);
  EXPECT_EQ(backlog_.Find(first.id), &first);

  const RequestId id = first.id;
  EXPECT_EQ(backlog_.Remove(first)->id, id);
  EXPECT_EQ(backlog_.Find(id), nullptr);
  EXPECT_EQ(lane->requests.front().get(), &second);
  backlog_.Remove(second);
  backlog_.CloseLane(*lane);
  EXPECT_EQ(session(0).lane, nullptr);
  EXPECT_EQ(backlog_.size(), 0u);
}

TEST_F(BacklogTest, OneWriterAtATime) {
  Add(0);
  EXPECT_EQ(Refusal(0, kWriter + 1), ErrorReason::kSessionBusy);
  EXPECT_TRUE(backlog_.Check(&session(0), kNobody, kWriter, 1).ok());
  EXPECT_TRUE(backlog_.Check(&session(1), kNobody, kWriter + 1, 1).ok());
}

TEST_F(BacklogTest, BoundsEachQueue) {
  Add(0);  // has its turn
  Add(0);
  EXPECT_TRUE(backlog_.Check(&session(0), kNobody, kWriter, 1).ok());
  Add(0);
  EXPECT_EQ(Refusal(0), ErrorReason::kQueueFull);
  EXPECT_TRUE(backlog_.Check(&session(1), kNobody, kWriter, 1).ok());
}

TEST_F(BacklogTest, BoundsAllQueuesByWhatHasNotBegun) {
  Request& running = Add(0);
  for (const size_t to : {0u, 0u, 1u, 1u}) Add(to);
  EXPECT_EQ(Refusal(2), ErrorReason::kQueueFull);
  EXPECT_FALSE(backlog_.Check(nullptr, kNobody, kWriter, 1).ok());
  backlog_.MarkBegun(running);
  EXPECT_EQ(backlog_.begun(), 1u);
  EXPECT_EQ(backlog_.waiting(), 4u);
  EXPECT_TRUE(backlog_.Check(&session(2), kNobody, kWriter, 1).ok());
  backlog_.Remove(running);
  EXPECT_EQ(backlog_.begun(), 0u);
  EXPECT_EQ(backlog_.waiting(), 4u);
}

TEST_F(BacklogTest, BoundsTheBytesOfInputs) {
  Request& large = Add(0, SteadyTime::InfiniteFuture(), 60);
  EXPECT_TRUE(backlog_.Check(&session(1), kNobody, kWriter, 40).ok());
  EXPECT_EQ(Refusal(1, kWriter, 41), ErrorReason::kQueueFull);
  backlog_.Remove(large);
  EXPECT_TRUE(backlog_.Check(&session(1), kNobody, kWriter, 100).ok());
  EXPECT_EQ(Refusal(1, kWriter, 101), ErrorReason::kInvalidArgument);
}

TEST_F(BacklogTest, AClientHasAsManyPlacesAsItLeavesFree) {
  constexpr ClientId kOne = 1;
  constexpr ClientId kOther = 2;
  const auto may = [this](ClientId client) {
    return backlog_.Check(nullptr, client, kWriter, 1).ok();
  };
  // Of five.
  Request& first = Add(0, kNever, 1, kOne);
  Add(1, kNever, 1, kOne);
  EXPECT_TRUE(may(kOne));
  Add(2, kNever, 1, kOne);
  EXPECT_FALSE(may(kOne));
  EXPECT_TRUE(may(kOther));
  Add(2, kNever, 1, kOther);
  EXPECT_FALSE(may(kOther));
  // What has begun does not wait.
  backlog_.MarkBegun(first);
  EXPECT_TRUE(may(kOther));
  EXPECT_EQ(backlog_.clients(), 2u);
  backlog_.Remove(first);
  EXPECT_EQ(backlog_.clients(), 2u);
  for (Request* const request : backlog_.All()) backlog_.Remove(*request);
  EXPECT_EQ(backlog_.clients(), 0u);
  EXPECT_TRUE(may(kOne));
}

TEST_F(BacklogTest, AClientsInputsTakeAsMuchAsTheyLeaveFree) {
  constexpr ClientId kOne = 1;
  constexpr ClientId kOther = 2;
  const auto may = [this](ClientId client, uint64_t bytes) {
    return backlog_.Check(nullptr, client, kWriter, bytes).ok();
  };
  // The first one may be of any size that there is room for.
  EXPECT_TRUE(may(kOne, 100));
  Request& first = Add(0, kNever, 30, kOne);
  EXPECT_TRUE(may(kOne, 20));
  EXPECT_FALSE(may(kOne, 21));
  EXPECT_TRUE(may(kOther, 70));
  Add(1, kNever, 40, kOther);
  EXPECT_FALSE(may(kOne, 1));
  EXPECT_FALSE(may(kOther, 1));
  EXPECT_TRUE(may(kOther + 1, 30));
  EXPECT_FALSE(may(kOther + 1, 31));
  backlog_.Remove(first);
  EXPECT_TRUE(may(kOther, 10));
}

TEST(BacklogReserveTest, TheLastEighthIsForSmallInputs) {
  constexpr uint64_t kAll = 80 * kSmallInputBytes;
  Backlog backlog({.max_input_bytes = kAll});
  EXPECT_EQ(LargestInput(kAll), 70 * kSmallInputBytes);
  const auto may = [&backlog](uint64_t bytes) {
    return backlog.Check(nullptr, kNobody, kWriter, bytes).ok();
  };
  EXPECT_TRUE(may(LargestInput(kAll)));
  EXPECT_FALSE(may(LargestInput(kAll) + 1));
  StateLayoutBuilder builder;
  ASSERT_TRUE(builder.AddFixed(0, "S", {4}).ok());
  const StateLayout state_layout = std::move(builder).Build();
  const SessionLayout layout(state_layout, 4, 16);
  Session session(layout);
  auto request = std::make_unique<Request>();
  request->deadline = kNever;
  request->task = std::make_unique<InputTask>(LargestInput(kAll));
  Request& large = backlog.Add(session, kNobody, kWriter, std::move(request));
  EXPECT_FALSE(may(kSmallInputBytes + 1));
  EXPECT_TRUE(may(kSmallInputBytes));
  backlog.Remove(large);
}

TEST_F(BacklogTest, AnIdFindsItsRequestAndNoLaterOne) {
  EXPECT_EQ(backlog_.Find(0), nullptr);
  EXPECT_EQ(backlog_.Find(1), nullptr);
  std::vector<RequestId> ended;
  for (int i = 0; i < 5; ++i) {
    Request& first = Add(0);
    Request& second = Add(1);
    EXPECT_NE(first.id, 0u);
    EXPECT_EQ(backlog_.Find(first.id), &first);
    EXPECT_EQ(backlog_.Find(second.id), &second);
    EXPECT_THAT(backlog_.All(), testing::UnorderedElementsAre(&first, &second));
    for (const RequestId id : ended) EXPECT_EQ(backlog_.Find(id), nullptr);
    for (Request* const request : {&first, &second}) {
      ended.push_back(request->id);
      backlog_.Remove(*request);
    }
  }
}

TEST_F(BacklogTest, ClientsWithoutRequestsAreForgottenInTheEnd) {
  Request& stays = Add(0, kNever, 1, /*client=*/1'000'000);
  for (ClientId client = 1; client <= 5000; ++client) {
    backlog_.Remove(Add(1, kNever, 1, client));
    ASSERT_EQ(backlog_.clients(), 1u);
  }
  EXPECT_EQ(stays.client->id, 1'000'000u);
  EXPECT_EQ(stays.client->requests, 1u);
  backlog_.Remove(stays);
  EXPECT_EQ(backlog_.clients(), 0u);
}

TEST_F(BacklogTest, DeadlinesComeInOrderAndOnce) {
  const SteadyTime start;
  EXPECT_EQ(backlog_.NextDeadline(), SteadyTime::InfiniteFuture());
  Add(0);  // without one
  Request& late = Add(0, start + absl::Seconds(2));
  Request& early = Add(1, start + absl::Seconds(1));
  Request& gone = Add(2, start);
  backlog_.Remove(gone);
  EXPECT_EQ(backlog_.NextDeadline(), start + absl::Seconds(1));
  EXPECT_EQ(backlog_.TakeOverdue(start), nullptr);
  std::vector<Request*> overdue;
  while (Request* request = backlog_.TakeOverdue(start + absl::Seconds(9))) {
    overdue.push_back(request);
  }
  EXPECT_THAT(overdue, ElementsAre(&early, &late));
  EXPECT_EQ(backlog_.NextDeadline(), SteadyTime::InfiniteFuture());
  backlog_.Remove(early);
  EXPECT_EQ(backlog_.size(), 2u);
}

}  // namespace
}  // namespace steadystate::backlog_test
