// Goal: sessions are created, shown, listed and deleted as the proto says.
// Method: a real server and client on a tiny model.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/manual_clock.h"

namespace steadystate::session_service_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Key;
using testing::Pair;

grpc::Status Create(OpenServer& server, const v1::CreateSessionRequest& request,
                    v1::Session* session) {
  Context context;
  return server.sessions().CreateSession(&context, request, session);
}

grpc::Status Get(OpenServer& server, const std::string& name,
                 v1::Session* session) {
  Context context;
  v1::GetSessionRequest request;
  request.set_name(name);
  return server.sessions().GetSession(&context, request, session);
}

grpc::Status Delete(OpenServer& server, const std::string& name) {
  Context context;
  v1::DeleteSessionRequest request;
  request.set_name(name);
  google::protobuf::Empty empty;
  return server.sessions().DeleteSession(&context, request, &empty);
}

grpc::Status List(OpenServer& server, int page_size, const std::string& token,
                  v1::ListSessionsResponse* response) {
  Context context;
  v1::ListSessionsRequest request;
  request.set_page_size(page_size);
  request.set_page_token(token);
  response->Clear();
  return server.sessions().ListSessions(&context, request, response);
}

TEST(SessionServiceTest, NormsAreShownWhenTheyAreAskedFor) {
  OpenServer server;
  const std::string name = server.CreateSession();
  server.Step(StepOf(name, {1, 2, 3}));
  v1::Session shown;
  ASSERT_THAT(Get(server, name, &shown), IsOk());
  EXPECT_EQ(shown.state_norms_size(), 0);
  v1::GetSessionRequest request;
  request.set_name(name);
  request.set_state_norms(true);
  {
    Context context;
    ASSERT_THAT(server.sessions().GetSession(&context, request, &shown),
                IsOk());
  }
  EXPECT_EQ(shown.name(), name);
  EXPECT_EQ(shown.position(), 3u);
  // What it does is not what asked for them.
  EXPECT_EQ(shown.state(), v1::Session::IDLE);
  EXPECT_FALSE(shown.state_not_finite());
  const auto& slots = server.model().state_layout().slots();
  ASSERT_EQ(shown.state_norms_size(), static_cast<int>(slots.size()));
  for (int i = 0; i < shown.state_norms_size(); ++i) {
    const v1::SlotNorm& norm = shown.state_norms(i);
    EXPECT_EQ(norm.layer(), slots[static_cast<size_t>(i)].layer);
    EXPECT_EQ(norm.name(), slots[static_cast<size_t>(i)].name);
    EXPECT_GE(norm.l2_norm(), norm.max_abs());
    EXPECT_GT(norm.max_abs(), 0);
    EXPECT_EQ(norm.non_finite(), 0u);
  }
  request.set_name("sessions/none");
  Context context;
  EXPECT_THAT(server.sessions().GetSession(&context, request, &shown),
              HasReason(ErrorReason::kSessionNotFound));
}

TEST(SessionServiceTest, NormsThatNoMessageHoldsAreRefused) {
  OpenServerOptions options;
  options.server.max_message_bytes = 64 << 10;
  options.model.layers = 250;
  options.model.short_conv = true;  // four slots a layer
  OpenServer server(options);
  v1::GetSessionRequest request;
  request.set_name(server.CreateSession());
  request.set_state_norms(true);
  v1::Session shown;
  Context context;
  EXPECT_THAT(server.sessions().GetSession(&context, request, &shown),
              HasReason(ErrorReason::kMessageTooLarge));
}

TEST(SessionServiceTest, CreatedSessionIsShownAsItIs) {
  OpenServer server;
  v1::CreateSessionRequest request;
  request.set_session_id("my-session");
  request.mutable_session()->mutable_ttl()->set_seconds(90);
  (*request.mutable_session()->mutable_labels())["tenant"] = "a b";
  request.mutable_session()->set_position(77);  // output only: ignored
  v1::Session created;
  ASSERT_THAT(Create(server, request, &created), IsOk());
  EXPECT_EQ(created.name(), "sessions/my-session");
  EXPECT_EQ(created.model(),
            absl::StrCat("models/", server.model().description().id));
  EXPECT_EQ(created.position(), 0u);
  EXPECT_EQ(created.state_bytes(), server.session_bytes());
  EXPECT_EQ(created.state(), v1::Session::IDLE);
  EXPECT_EQ(created.ttl().seconds(), 90);
  EXPECT_EQ(created.labels().at("tenant"), "a b");
  EXPECT_EQ(created.create_time().seconds(),
            created.last_step_time().seconds());
  EXPECT_EQ(created.expire_time().seconds(),
            created.last_step_time().seconds() + 90);

  server.Step(StepOf(created.name(), {1, 2, 3}));
  v1::Session shown;
  ASSERT_THAT(Get(server, created.name(), &shown), IsOk());
  EXPECT_EQ(shown.position(), 3u);
  EXPECT_EQ(shown.state_bytes(), created.state_bytes());
}

TEST(SessionServiceTest, IdsOfTheServerAreDistinctAndValid) {
  OpenServer server;
  std::set<std::string> names;
  for (int i = 0; i < 50; ++i) names.insert(server.CreateSession());
  EXPECT_EQ(names.size(), 50u);
  for (const std::string& name : names) {
    v1::Session session;
    EXPECT_THAT(Get(server, name, &session), IsOk());
  }
}

TEST(SessionServiceTest, TakenIdIsRefused) {
  OpenServer server;
  v1::CreateSessionRequest request;
  request.set_session_id("twice");
  v1::Session session;
  ASSERT_THAT(Create(server, request, &session), IsOk());
  const grpc::Status status = Create(server, request, &session);
  EXPECT_THAT(status, HasReason(ErrorReason::kSessionAlreadyExists));
  EXPECT_THAT(ToWireError(status).metadata,
              Contains(Pair("session", "sessions/twice")));
}

TEST(SessionServiceTest, UnknownAndDeletedSessionsAreNotFound) {
  OpenServer server;
  v1::Session session;
  EXPECT_THAT(Get(server, "sessions/none", &session),
              HasReason(ErrorReason::kSessionNotFound));
  EXPECT_THAT(Delete(server, "sessions/none"),
              HasReason(ErrorReason::kSessionNotFound));
  const std::string name = server.CreateSession();
  EXPECT_THAT(Delete(server, name), IsOk());
  EXPECT_THAT(Delete(server, name), HasReason(ErrorReason::kSessionNotFound));
  EXPECT_THAT(Get(server, name, &session),
              HasReason(ErrorReason::kSessionNotFound));
}

TEST(SessionServiceTest, MalformedNamesAreRefused) {
  OpenServer server;
  v1::Session session;
  for (const char* name : {"", "x", "sessions/UP", "sessions/a/b"}) {
    EXPECT_THAT(Get(server, name, &session), IsAboutField("name"));
    EXPECT_THAT(Delete(server, name), IsAboutField("name"));
  }
}

TEST(SessionServiceTest, ExpiredSessionSaysWhen) {
  ManualClock clock;
  OpenServerOptions options;
  options.clock = &clock;
  OpenServer server(options);
  v1::CreateSessionRequest request;
  request.mutable_session()->mutable_ttl()->set_seconds(10);
  v1::Session session;
  ASSERT_THAT(Create(server, request, &session), IsOk());
  const std::string name = session.name();
  const absl::Time expiry =
      absl::FromUnixSeconds(session.expire_time().seconds());
  clock.Advance(absl::Seconds(11));
  const grpc::Status status = Get(server, name, &session);
  EXPECT_THAT(status, HasReason(ErrorReason::kSessionExpired));
  auto metadata = ToWireError(status).metadata;
  EXPECT_EQ(metadata["session"], name);
  absl::Time told;
  std::string error;
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, metadata["expire_time"],
                              &told, &error))
      << metadata["expire_time"] << ": " << error;
  EXPECT_LT(absl::AbsDuration(told - expiry), absl::Seconds(1));
}

TEST(SessionServiceTest, SpentBudgetIsToldBeforeAnythingIsCharged) {
  OpenServerOptions options;
  options.session_budget = 2;
  OpenServer server(options);
  const std::string first = server.CreateSession();
  server.CreateSession();
  v1::Session session;
  Context context;
  const grpc::Status status =
      server.sessions().CreateSession(&context, {}, &session);
  EXPECT_THAT(status, HasReason(ErrorReason::kStateBudgetExhausted));
  const WireError error = ToWireError(status);
  EXPECT_TRUE(error.retry_after.has_value());
  EXPECT_THAT(error.metadata, Contains(Key("session_bytes")));
  EXPECT_THAT(error.metadata, Contains(Key("budget_bytes")));
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              Contains(Key("grpc-retry-pushback-ms")));
  EXPECT_THAT(Delete(server, first), IsOk());
  server.CreateSession();
}

TEST(SessionServiceTest, PagesGoThroughAllSessionsInOrder) {
  OpenServer server;
  std::set<std::string> names;
  for (const std::string& name : server.CreateSessions(25)) names.insert(name);
  std::vector<std::string> seen;
  std::string token;
  v1::ListSessionsResponse page;
  do {
    ASSERT_THAT(List(server, 10, token, &page), IsOk());
    EXPECT_LE(page.sessions_size(), 10);
    for (const v1::Session& session : page.sessions()) {
      seen.push_back(session.name());
    }
    token = page.next_page_token();
  } while (!token.empty());
  EXPECT_EQ(seen, std::vector<std::string>(names.begin(), names.end()));
}

TEST(SessionServiceTest, PageSizeAndTokenAreChecked) {
  OpenServer server;
  server.CreateSessions(3);
  v1::ListSessionsResponse page;
  EXPECT_THAT(List(server, -1, "", &page), IsAboutField("page_size"));
  EXPECT_THAT(List(server, 0, "", &page), IsOk());
  EXPECT_EQ(page.sessions_size(), 3);
  EXPECT_THAT(List(server, 2'000'000'000, "", &page), IsOk());
  EXPECT_EQ(page.sessions_size(), 3);
  EXPECT_THAT(List(server, 1, "no token", &page),
              HasReason(ErrorReason::kInvalidPageToken));
}

TEST(SessionServiceTest, ListsWhatMatches) {
  OpenServer server;
  v1::CreateSessionRequest request;
  v1::Session session;
  for (const char* id : {"load-1", "load-2", "other", "load-13"}) {
    request.set_session_id(id);
    (*request.mutable_session()->mutable_labels())["run"] =
        id == std::string("load-2") ? "b" : "a";
    ASSERT_THAT(Create(server, request, &session), IsOk());
  }
  const auto list = [&server](v1::ListSessionsRequest what) {
    Context context;
    v1::ListSessionsResponse page;
    EXPECT_THAT(server.sessions().ListSessions(&context, what, &page), IsOk());
    std::vector<std::string> names;
    for (const v1::Session& found : page.sessions()) {
      names.push_back(found.name());
    }
    return names;
  };
  v1::ListSessionsRequest what;
  what.set_match("load-?");
  EXPECT_THAT(list(what), ElementsAre("sessions/load-1", "sessions/load-2"));
  (*what.mutable_labels())["run"] = "a";
  EXPECT_THAT(list(what), ElementsAre("sessions/load-1"));
  what.set_match("*");
  EXPECT_THAT(list(what), ElementsAre("sessions/load-1", "sessions/load-13",
                                      "sessions/other"));
  what.clear_match();
  what.set_page_size(2);
  EXPECT_THAT(list(what), ElementsAre("sessions/load-1", "sessions/load-13"));
  (*what.mutable_labels())["other"] = "a";
  EXPECT_THAT(list(what), ElementsAre());
  what.clear_labels();
  what.set_match(std::string(129, '*'));
  Context context;
  v1::ListSessionsResponse page;
  EXPECT_THAT(server.sessions().ListSessions(&context, what, &page),
              IsAboutField("match"));
}

TEST(SessionServiceTest, APageNeverExceedsAMessage) {
  OpenServerOptions options;
  options.server.max_message_bytes = 64 << 10;
  OpenServer server(options);
  v1::CreateSessionRequest request;
  for (int i = 0; i < 16; ++i) {
    (*request.mutable_session()
          ->mutable_labels())[absl::StrCat(std::string(50, 'k'), i)] =
        std::string(60, 'v');
  }
  v1::Session session;
  for (int i = 0; i < 60; ++i) {
    ASSERT_THAT(Create(server, request, &session), IsOk());
  }
  int seen = 0;
  std::string token;
  v1::ListSessionsResponse page;
  do {
    ASSERT_THAT(List(server, 1000, token, &page), IsOk());
    EXPECT_LE(page.ByteSizeLong(), size_t{64} << 10);
    seen += page.sessions_size();
    token = page.next_page_token();
  } while (!token.empty());
  EXPECT_EQ(seen, 60);
}

// More than are described at once, and than fit on gRPC's threads.
TEST(SessionServiceTest, ALongPageHasAllInOrder) {
  OpenServer server;
  const std::vector<std::string> made = server.CreateSessions(150);
  std::vector<std::string> expected = made;
  std::sort(expected.begin(), expected.end());
  for (const int page_size : {64, 128, 149, 150, 1000}) {
    std::vector<std::string> names;
    std::string token;
    v1::ListSessionsResponse page;
    do {
      ASSERT_THAT(List(server, page_size, token, &page), IsOk());
      EXPECT_LE(page.sessions_size(), page_size);
      for (const v1::Session& session : page.sessions()) {
        names.push_back(session.name());
      }
      token = page.next_page_token();
      EXPECT_TRUE(token.empty() || page.sessions_size() == page_size);
    } while (!token.empty());
    EXPECT_EQ(names, expected) << page_size;
  }
}

TEST(SessionServiceTest, DrainingServerMakesNoSessions) {
  OpenServer server;
  server.CreateSession();
  server.engine().BeginDrain();
  v1::Session session;
  const grpc::Status status = Create(server, {}, &session);
  EXPECT_THAT(status, HasReason(ErrorReason::kDraining));
  EXPECT_TRUE(ToWireError(status).retry_after.has_value());
}

TEST(SessionServiceTest, CallsAreCountedByMethodAndCode) {
  OpenServer server;
  server.CreateSession();
  v1::Session session;
  Get(server, "sessions/none", &session);
  constexpr char kCount[] = "steadystate_request_duration_seconds_count";
  constexpr char kService[] = "steadystate.v1.SessionService";
  EXPECT_EQ(server.MetricValue(absl::StrCat(kCount, "{code=\"OK\",method=\"",
                                            kService, "/CreateSession\"}")),
            1);
  EXPECT_EQ(
      server.MetricValue(absl::StrCat(kCount, "{code=\"NOT_FOUND\",method=\"",
                                      kService, "/GetSession\"}")),
      1);
  EXPECT_EQ(server.MetricValue(
                "steadystate_errors_total{reason=\"SESSION_NOT_FOUND\"}"),
            1);
}

}  // namespace
}  // namespace steadystate::session_service_test
