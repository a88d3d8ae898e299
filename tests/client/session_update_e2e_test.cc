// Goal: what a client chooses of a session is chosen and changed by commands,
// and what cannot be is told. Method: a golden checkpoint with a softmax layer
// on free ports; commands as a user types them.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli_fixture.h"

namespace steadystate::session_update_e2e_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SessionUpdateTest : public CliFixture {
 protected:
  SessionUpdateTest() : CliFixture("tests/golden/gla-hybrid") {}
};

TEST_F(SessionUpdateTest, CapTtlAndLabelsAreChanged) {
  Print("session create --id a --context_cap 100 --label user=ada");
  EXPECT_EQ(Json("session get a")["context_cap"], 100);
  EXPECT_EQ(Print("session update a --context_cap 120 --ttl 2h"),
            "sessions/a\n");
  auto session = Json("session get a");
  EXPECT_EQ(session["context_cap"], 120);
  EXPECT_EQ(session["ttl"], 7200);
  EXPECT_EQ(session["labels"]["user"], "ada");
  session = Json("session update a --label kind=chat");
  EXPECT_EQ(session["labels"].dump(), R"({"kind":"chat"})");
  EXPECT_EQ(session["context_cap"], 120);
  EXPECT_EQ(Json("session update a --clear_labels")["labels"].dump(), "{}");
}

TEST_F(SessionUpdateTest, WhatCannotBeIsTold) {
  Print("session create --id a");
  EXPECT_THAT(Fail(2, "session update a"), HasSubstr("--context_cap, --ttl"));
  EXPECT_THAT(Fail(2, "session update --ttl 1h"), HasSubstr("id is missing"));
  EXPECT_THAT(Fail(2, "session update a --label k=v --clear_labels"),
              HasSubstr("--label or --clear_labels"));
  EXPECT_THAT(Fail(1, "session update a --context_cap 1000000000"),
              AllOf(HasSubstr("session.context_cap is 1000000000"),
                    HasSubstr("--max_context_cap")));
  EXPECT_THAT(Fail(1, "session update a --ttl 1ms"),
              HasSubstr("session.ttl 1ms"));
  EXPECT_THAT(Fail(1, "session update b --ttl 1h"),
              HasSubstr("SESSION_NOT_FOUND"));
}

}  // namespace
}  // namespace steadystate::session_update_e2e_test
