// Goal: a client that watches sessions is told everything that happens, once
// and in order, also over several calls; one that does not read, or has gone,
// costs nobody anything; all are told why a call ends. Method: a real server
// and client on a tiny model; threads are held in between; an event of another
// owner is added by hand where many are wanted.
#include "server/rpc/watch_call.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/answer.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::watch_call_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kWatchers[] = "steadystate_session_watchers";

// "FORKED sessions/b 3 of sessions/a".
std::string TextOf(const v1::SessionEvent& event) {
  std::string text = absl::StrCat(v1::SessionEvent::Kind_Name(event.kind()),
                                  " ", event.session(), " ", event.position());
  if (!event.parent().empty()) absl::StrAppend(&text, " of ", event.parent());
  return text;
}

v1::WatchSessionsRequest From(const std::string& cursor,
                              const std::string& session = "") {
  v1::WatchSessionsRequest request;
  request.set_cursor(cursor);
  request.set_session(session);
  return request;
}

// One call.
class Watch {
 public:
  explicit Watch(OpenServer& server, const v1::WatchSessionsRequest& request =
                                         v1::WatchSessionsRequest())
      : reader_(server.sessions().WatchSessions(&context_, request)) {}
  ~Watch() {
    context_.TryCancel();
    End();
  }

  // The next message's events; nothing at the end.
  std::optional<std::vector<std::string>> Next() {
    v1::WatchSessionsResponse message;
    if (!reader_->Read(&message)) return std::nullopt;
    cursor_ = message.cursor();
    std::vector<std::string> events;
    for (const v1::SessionEvent& event : message.events()) {
      events.push_back(TextOf(event));
    }
    return events;
  }
  // The next `count` events, however many messages they come in.
  std::vector<std::string> Events(size_t count) {
    std::vector<std::string> events;
    while (events.size() < count) {
      const auto next = Next();
      if (!next.has_value()) break;
      events.insert(events.end(), next->begin(), next->end());
    }
    return events;
  }
  // After the last message.
  const std::string& cursor() const { return cursor_; }

  void Cancel() { context_.TryCancel(); }
  // Reads to the end.
  const grpc::Status& End() {
    while (!status_.has_value() && Next().has_value()) continue;
    if (!status_.has_value()) status_ = reader_->Finish();
    return *status_;
  }

 private:
  Context context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchSessionsResponse>> reader_;
  std::string cursor_;
  std::optional<grpc::Status> status_;
};

void Create(OpenServer& server, const std::string& id) {
  Context context;
  v1::CreateSessionRequest request;
  request.set_session_id(id);
  v1::Session session;
  EXPECT_THAT(server.sessions().CreateSession(&context, request, &session),
              IsOk());
}

void Delete(OpenServer& server, const std::string& id) {
  Context context;
  v1::DeleteSessionRequest request;
  request.set_name("sessions/" + id);
  google::protobuf::Empty nothing;
  EXPECT_THAT(server.sessions().DeleteSession(&context, request, &nothing),
              IsOk());
}

void Fork(OpenServer& server, const std::string& id, const std::string& to) {
  Context context;
  v1::ForkSessionRequest request;
  request.set_name("sessions/" + id);
  request.add_session_ids(to);
  v1::ForkSessionResponse response;
  EXPECT_THAT(server.sessions().ForkSession(&context, request, &response),
              IsOk());
}

// Events that the server's clients do not see.
void AddOthers(OpenServer& server, size_t count) {
  SessionEvent event;
  event.owner = "somebody else";
  for (size_t i = 0; i < count; ++i) {
    event.id = absl::StrCat(i);
    server.engine().session_events().Add(event);
  }
}

TEST(WatchCallTest, TellsWhatHappensFromTheFirstMessageOn) {
  OpenServer server;
  Create(server, "before");
  Watch watch(server);
  EXPECT_THAT(watch.Next(), testing::Optional(IsEmpty()));
  EXPECT_FALSE(watch.cursor().empty());
  server.WaitForMetric(kWatchers, 1);
  Create(server, "a");
  server.Step(StepOf("sessions/a", {1, 2, 3}));
  Fork(server, "a", "b");
  Delete(server, "a");
  EXPECT_THAT(watch.Events(3), ElementsAre("CREATED sessions/a 0",
                                           "FORKED sessions/b 3 of sessions/a",
                                           "DELETED sessions/a 3"));
  watch.Cancel();
  EXPECT_EQ(watch.End().error_code(), grpc::StatusCode::CANCELLED);
  server.WaitForMetric(kWatchers, 0);
  server.WaitForMetric("steadystate_outbound_bytes", 0);
}

TEST(WatchCallTest, AnEventHasAllThatIsToldOfIt) {
  OpenServer server;
  Context context;
  const auto reader = server.sessions().WatchSessions(&context, From(""));
  v1::WatchSessionsResponse message;
  ASSERT_TRUE(reader->Read(&message));
  Create(server, "a");
  ASSERT_TRUE(reader->Read(&message));
  ASSERT_EQ(message.events_size(), 1);
  const auto info = server.engine().GetSession("a");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(message.events(0).uid(), info->uid);
  EXPECT_EQ(absl::FromUnixSeconds(message.events(0).time().seconds()) +
                absl::Nanoseconds(message.events(0).time().nanos()),
            info->create_time);
  context.TryCancel();
  reader->Finish();
}

TEST(WatchCallTest, AnotherCallGoesOnAfterTheCursor) {
  OpenServer server;
  std::string cursor;
  {
    Watch watch(server);
    EXPECT_THAT(watch.Next(), testing::Optional(IsEmpty()));
    Create(server, "a");
    EXPECT_THAT(watch.Events(1), ElementsAre("CREATED sessions/a 0"));
    cursor = watch.cursor();
  }
  Create(server, "b");
  Delete(server, "a");
  for (int i = 0; i < 2; ++i) {
    Watch watch(server, From(cursor));
    EXPECT_THAT(watch.Next(),
                testing::Optional(ElementsAre("CREATED sessions/b 0",
                                              "DELETED sessions/a 0")));
  }
  Watch one(server, From(cursor, "sessions/a"));
  EXPECT_THAT(one.Next(),
              testing::Optional(ElementsAre("DELETED sessions/a 0")));
  Create(server, "c");
  Create(server, "a");
  EXPECT_THAT(one.Next(),
              testing::Optional(ElementsAre("CREATED sessions/a 0")));
}

TEST(WatchCallTest, ManyEventsComeInSeveralMessages) {
  OpenServer server;
  Watch first(server);
  first.Next();
  const std::string start = first.cursor();
  std::vector<std::string> expected;
  for (size_t i = 0; i < 3 * WatchCall::kMostEvents; ++i) {
    SessionEvent event;
    event.id = absl::StrCat("s", i);
    server.engine().session_events().Add(event);
    expected.push_back(absl::StrCat("CREATED sessions/s", i, " 0"));
  }
  EXPECT_EQ(first.Events(expected.size()), expected);
  Watch second(server, From(start));
  const auto message = second.Next();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->size(), WatchCall::kMostEvents);
  const std::vector<std::string> rest =
      second.Events(expected.size() - message->size());
  EXPECT_EQ(rest.back(), expected.back());
}

TEST(WatchCallTest, WrongRequestsAreRefused) {
  OpenServer server;
  EXPECT_THAT(Watch(server, From("", "b")).End(), IsAboutField("session"));
  EXPECT_THAT(Watch(server, From("", "checkpoints/b")).End(),
              IsAboutField("session"));
  EXPECT_THAT(Watch(server, From("x")).End(), IsAboutField("cursor"));
  EXPECT_THAT(Watch(server, From(std::string(100'000, '0'))).End(),
              IsAboutField("cursor"));
  OpenServer other;
  Watch there(other);
  there.Next();
  EXPECT_THAT(Watch(server, From(there.cursor())).End(),
              HasReason(ErrorReason::kCursorExpired));
  server.WaitForMetric("steadystate_outbound_bytes", 0);
}

TEST(WatchCallTest, ACursorThatIsForgottenIsRefused) {
  OpenServer server;
  std::string cursor;
  {
    Watch watch(server);
    watch.Next();
    cursor = watch.cursor();
  }
  AddOthers(server, SessionEvents::kCapacity + 1);
  EXPECT_THAT(Watch(server, From(cursor)).End(),
              HasReason(ErrorReason::kCursorExpired));
}

TEST(WatchCallTest, WhoIsToldNothingForLongGetsANewCursor) {
  OpenServer server;
  Watch watch(server);
  EXPECT_THAT(watch.Next(), testing::Optional(IsEmpty()));
  const std::string cursor = watch.cursor();
  AddOthers(server, SessionEvents::kCapacity / 2);
  EXPECT_THAT(watch.Next(), testing::Optional(IsEmpty()));
  EXPECT_NE(watch.cursor(), cursor);
  Create(server, "a");
  EXPECT_THAT(watch.Events(1), ElementsAre("CREATED sessions/a 0"));
}

TEST(WatchCallTest, WhoFallsBehindIsTold) {
  OpenServer server;
  Watch watch(server);
  EXPECT_THAT(watch.Next(), testing::Optional(IsEmpty()));
  ThreadHold hold("SessionWatchers::Loop");
  Create(server, "a");
  hold.WaitUntilHeld();
  AddOthers(server, SessionEvents::kCapacity);
  hold.Release();
  EXPECT_EQ(watch.Next(), std::nullopt);
  EXPECT_THAT(watch.End(), HasReason(ErrorReason::kCursorExpired));
  server.WaitForMetric(kWatchers, 0);
}

TEST(WatchCallTest, AClientThatDoesNotReadCostsOneMessage) {
  // Much more than a connection takes unread, and less than is remembered.
  constexpr size_t kEvents = SessionEvents::kCapacity / 2;
  OpenServer server;
  Watch watch(server);
  EXPECT_THAT(watch.Next(), testing::Optional(IsEmpty()));
  server.WaitForMetric("steadystate_outbound_bytes", WatchCall::kMessageMemory);
  SessionEvent event;
  event.id = std::string(63, 'x');
  for (event.position = 0; event.position < kEvents; ++event.position) {
    server.engine().session_events().Add(event);
  }
  // Others are told meanwhile.
  {
    Watch another(server);
    EXPECT_THAT(another.Next(), testing::Optional(IsEmpty()));
    Create(server, "last");
    EXPECT_THAT(another.Events(1), ElementsAre("CREATED sessions/last 0"));
    EXPECT_EQ(server.MetricValue("steadystate_outbound_bytes"),
              2 * WatchCall::kMessageMemory);
  }
  server.WaitForMetric("steadystate_outbound_bytes", WatchCall::kMessageMemory);
  const std::vector<std::string> events = watch.Events(kEvents + 1);
  ASSERT_EQ(events.size(), kEvents + 1);
  for (size_t i = 0; i < kEvents; ++i) {
    ASSERT_EQ(events[i], absl::StrCat("CREATED sessions/", event.id, " ", i));
  }
  EXPECT_EQ(events.back(), "CREATED sessions/last 0");
}

// As large as events can be.
TEST(WatchCallTest, AMessageTakesNoMoreThanIsCounted) {
  SessionEvent event;
  event.kind = SessionEventKind::kForked;
  event.id = std::string(63, 'x');
  event.parent = std::string(63, 'y');
  event.uid = {UINT64_MAX, UINT64_MAX};
  event.position = UINT64_MAX;
  event.time = absl::FromUnixNanos(1'780'000'000'123'456'789);
  v1::WatchSessionsResponse message;
  for (size_t i = 0; i < WatchCall::kMostEvents; ++i) {
    ToProto(event, *message.add_events());
  }
  message.set_cursor(SessionEvents().CursorOf(UINT64_MAX));
  EXPECT_LE(message.SpaceUsedLong() + message.ByteSizeLong(),
            WatchCall::kMessageMemory);
}

TEST(WatchCallTest, ExpiryIsToldByAnIdleServer) {
  ManualClock clock;
  OpenServerOptions options;
  options.clock = &clock;
  OpenServer server(options);
  Watch watch(server);
  watch.Next();
  Create(server, "a");
  EXPECT_THAT(watch.Events(1), ElementsAre("CREATED sessions/a 0"));
  clock.Advance(absl::Hours(1));
  EXPECT_THAT(watch.Events(1), ElementsAre("EXPIRED sessions/a 0"));
}

TEST(WatchCallTest, AShutdownEndsIt) {
  OpenServer server;
  Watch watch(server);
  watch.Next();
  ASSERT_TRUE(server.server().Shutdown(absl::Seconds(60)).ok());
  EXPECT_THAT(watch.End(), HasReason(ErrorReason::kDraining));
}

TEST(WatchCallTest, AConnectionMayHaveItsShare) {
  OpenServer server;
  std::vector<std::unique_ptr<Watch>> watches;
  while (true) {
    watches.push_back(std::make_unique<Watch>(server));
    if (!watches.back()->Next().has_value()) break;
    ASSERT_LE(watches.size(), SessionWatchers::kMost);
  }
  const WireError error = ToWireError(watches.back()->End());
  EXPECT_EQ(error.reason, "QUEUE_FULL");
  EXPECT_EQ(error.retry_after, absl::Seconds(1));
  EXPECT_LE(watches.size(), SessionWatchers::kMost / SessionWatchers::kParts);
  EXPECT_GE(watches.size(), 100u);
  // Another connection has room.
  const auto stub = v1::SessionService::NewStub(server.NewChannel());
  Context context;
  const auto reader = stub->WatchSessions(&context, From(""));
  v1::WatchSessionsResponse message;
  EXPECT_TRUE(reader->Read(&message));
  context.TryCancel();
  reader->Finish();
  watches.clear();
  server.WaitForMetric(kWatchers, 0);
  EXPECT_THAT(Watch(server).Next(), testing::Optional(IsEmpty()));
}

TEST(WatchCallTest, AClientThatGoesLeavesNothing) {
  OpenServer server;
  int round = 0;
  for (const char* const place :
       {"WatchCall::OnOutboundRoom", "WatchCall::Look", "WatchCall::Act",
        "WatchCall::Act, write started", "WatchCall::Act, finished",
        "SessionWatchers::Loop", "SessionEvents::Read"}) {
    // No thread is at work any more for the call before, and could be held.
    server.WaitForMetric(kWatchers, 0);
    {
      ThreadHold hold(place);
      Watch watch(server);
      if (place == std::string("WatchCall::Act, finished")) {
        // The server may never hear of a call that is cancelled before.
        EXPECT_TRUE(watch.Next().has_value());
        watch.Cancel();
      }
      hold.WaitUntilHeld();
      watch.Cancel();
      hold.Release();
      watch.End();
    }
    server.WaitForMetric(kWatchers, 0);
    server.WaitForMetric("steadystate_outbound_bytes", 0);
    Watch watch(server);
    watch.Next();
    Create(server, absl::StrCat(round));
    EXPECT_THAT(watch.Events(1),
                ElementsAre(absl::StrCat("CREATED sessions/", round++, " 0")))
        << place;
  }
}

// All see the same, whether they read on or come again.
TEST(WatchCallTest, ManyWhoWatchSeeTheSame) {
  constexpr size_t kThreads = 2;
  constexpr size_t kEach = 60;
  constexpr size_t kEvents = 2 * kThreads * kEach;
  OpenServer server;
  const Parking parking;
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < 4; ++i) {
    watches.push_back(std::make_unique<Watch>(server));
    EXPECT_THAT(watches.back()->Next(), testing::Optional(IsEmpty()));
  }
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&server, thread] {
      for (size_t i = 0; i < kEach; ++i) {
        const std::string id = absl::StrCat("s", thread, "-", i);
        Create(server, id);
        Delete(server, id);
      }
    });
  }
  std::vector<std::vector<std::string>> seen(watches.size());
  for (size_t i = 0; i < watches.size(); ++i) {
    threads.emplace_back([&server, &watch = watches[i], &events = seen[i], i] {
      while (events.size() < kEvents) {
        const auto next = watch->Next();
        ASSERT_TRUE(next.has_value());
        events.insert(events.end(), next->begin(), next->end());
        if (i % 2 == 0) continue;
        const std::string cursor = watch->cursor();
        watch = std::make_unique<Watch>(server, From(cursor));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string>& events : seen) {
    EXPECT_EQ(events.size(), kEvents);
    EXPECT_EQ(events, seen[0]);
  }
}

}  // namespace
}  // namespace steadystate::watch_call_test
