// Goal: clients take turns at the keeper's thread, each with its own jobs in
// their order. Method: jobs of sessions that are told apart by their addresses.
#include "server/session/job_queue.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/model/state_layout.h"
#include "server/session/session.h"
#include "server/session/session_state.h"

namespace steadystate::job_queue_test {
namespace {

class JobQueueTest : public testing::Test {
 protected:
  JobQueueTest() {
    for (int i = 0; i < 8; ++i) {
      sessions_.push_back(std::make_unique<Session>(layout_));
    }
  }

  void Add(size_t session, uint64_t client) {
    Job job;
    job.session = sessions_[session].get();
    job.client = client;
    queue_.Add(std::move(job));
  }

  size_t IndexOf(const Session* session) const {
    size_t i = 0;
    while (sessions_[i].get() != session) ++i;
    return i;
  }

  std::vector<size_t> TakeAll() {
    std::vector<size_t> taken;
    while (!queue_.empty()) {
      taken.push_back(IndexOf(queue_.TakeNext().session));
    }
    return taken;
  }

  StateLayout state_layout_;
  SessionLayout layout_{state_layout_, 8, 16};
  std::vector<std::unique_ptr<Session>> sessions_;
  JobQueue queue_;
};

using Order = std::vector<size_t>;

TEST_F(JobQueueTest, ClientsTakeTurns) {
  for (size_t i = 0; i < 4; ++i) Add(i, 1);
  Add(4, 2);
  Add(5, 3);
  Add(6, 2);
  EXPECT_EQ(TakeAll(), Order({0, 4, 5, 1, 6, 2, 3}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(JobQueueTest, WhoComesAgainComesAfterOthers) {
  Add(0, 1);
  Add(1, 1);
  EXPECT_EQ(queue_.TakeNext().session, sessions_[0].get());
  Add(2, 2);
  Add(3, 1);
  EXPECT_EQ(TakeAll(), Order({1, 2, 3}));
  Add(4, 1);
  EXPECT_EQ(TakeAll(), Order({4}));
}

TEST_F(JobQueueTest, WhatIsPutBackIsItsClientsNext) {
  Add(0, 1);
  Add(1, 1);
  Add(2, 2);
  queue_.PutBack(queue_.TakeNext());
  EXPECT_EQ(TakeAll(), Order({2, 0, 1}));
  Add(3, 1);
  queue_.PutBack(queue_.TakeNext());
  EXPECT_EQ(TakeAll(), Order({3}));
}

TEST_F(JobQueueTest, TakesThatOfASession) {
  Add(0, 1);
  Add(1, 2);
  Add(2, 1);
  EXPECT_FALSE(queue_.Take(*sessions_[3]).has_value());
  const std::optional<Job> of_two = queue_.Take(*sessions_[1]);
  ASSERT_TRUE(of_two.has_value());
  EXPECT_EQ(of_two->client, 2u);
  ASSERT_TRUE(queue_.Take(*sessions_[0]).has_value());
  EXPECT_EQ(TakeAll(), Order({2}));
}

TEST_F(JobQueueTest, FindsASession) {
  Add(0, 1);
  Add(1, 2);
  EXPECT_EQ(queue_.Find([](const Job& job) { return job.client == 2; }),
            sessions_[1].get());
  EXPECT_EQ(queue_.Find([](const Job&) { return false; }), nullptr);
}

}  // namespace
}  // namespace steadystate::job_queue_test
