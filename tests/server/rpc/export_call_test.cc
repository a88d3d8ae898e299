// Goal: a session's snapshot comes over the wire whole, while the session goes
// on, and a client that goes or does not read costs nobody anything. Method: a
// real server and client on a tiny model; threads are held in between.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::export_call_test {
namespace {

struct Exported {
  grpc::Status status;
  std::string snapshot;
  uint64_t position = 0;
  uint64_t announced = 0;
  size_t messages = 0;
};

Exported Export(OpenServer& server, const v1::ExportSessionRequest& request) {
  Exported result;
  Context context;
  const auto reader = server.sessions().ExportSession(&context, request);
  v1::ExportSessionResponse part;
  while (reader->Read(&part)) {
    if (result.messages++ == 0) {
      result.position = part.position();
      result.announced = part.snapshot_bytes();
    }
    result.snapshot += part.chunk();
  }
  result.status = reader->Finish();
  return result;
}

// All but the time of the last request, which an export is, too.
bool SameSession(OpenServer& server, const std::string& a,
                 const std::string& b) {
  const auto one = server.engine().snapshots().Read(a);
  const auto other = server.engine().snapshots().Read(b);
  return one.ok() && other.ok() && one->slots == other->slots &&
         one->card.uid == other->card.uid &&
         one->contents.history == other->contents.history &&
         one->contents.pending_hidden == other->contents.pending_hidden;
}

v1::ExportSessionRequest RequestOf(const std::string& name) {
  v1::ExportSessionRequest request;
  request.set_name(name);
  return request;
}

TEST(ExportCallTest, TheSnapshotComesWhole) {
  OpenServer server;
  const std::string session = server.CreateSession();
  server.Step(StepOf(session, SomeTokens(20, 1)));
  const Exported exported = Export(server, RequestOf(session));
  ASSERT_THAT(exported.status, IsOk());
  EXPECT_EQ(exported.position, 20u);
  EXPECT_EQ(exported.announced, exported.snapshot.size());
  const auto snapshot = server.engine().snapshots().Read(exported.snapshot);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ("sessions/" + snapshot->card.id, session);
  EXPECT_EQ(snapshot->contents.position, 20u);
  EXPECT_TRUE(SameSession(server, exported.snapshot,
                          Export(server, RequestOf(session)).snapshot));
  EXPECT_EQ(server.PositionOf(session), 20u);
}

TEST(ExportCallTest, LargeSnapshotsComeInChunksThatFit) {
  OpenServerOptions options;
  options.engine.history = 100'000;
  options.server.max_message_bytes = size_t{64} << 10;
  options.engine.max_step_tokens = 100'000;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  for (uint32_t i = 0; i < 10; ++i) {
    server.Step(StepOf(session, SomeTokens(5000, i)));
  }
  const Exported exported = Export(server, RequestOf(session));
  ASSERT_THAT(exported.status, IsOk());
  EXPECT_GT(exported.snapshot.size(), 200'000u);
  EXPECT_GE(exported.messages, 4u);
  EXPECT_TRUE(server.engine().snapshots().Read(exported.snapshot).ok());
}

TEST(ExportCallTest, WrongRequestsAreRefused) {
  OpenServer server;
  EXPECT_THAT(Export(server, RequestOf("")).status, IsAboutField("name"));
  EXPECT_THAT(Export(server, RequestOf("sessions/none")).status,
              HasReason(ErrorReason::kSessionNotFound));
  v1::ExportSessionRequest request = RequestOf(server.CreateSession());
  request.set_expected_position(1);
  EXPECT_THAT(Export(server, request).status,
              HasReason(ErrorReason::kPositionMismatch));
  request.set_expected_position(0);
  EXPECT_THAT(Export(server, request).status, IsOk());
}

TEST(ExportCallTest, AGenerationGoesOn) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::GenerateRequest endless;
  endless.set_session(session);
  endless.set_text("a");
  endless.set_ignore_eos(true);
  Context context;
  const auto stream = server.generation().Generate(&context, endless);
  v1::GenerateResponse token;
  ASSERT_TRUE(stream->Read(&token));
  const Exported exported = Export(server, RequestOf(session));
  ASSERT_THAT(exported.status, IsOk());
  EXPECT_GE(exported.position, 1u);
  ASSERT_TRUE(stream->Read(&token));
  context.TryCancel();
  stream->Finish();
}

TEST(ExportCallTest, AClientThatGoesLeavesNothing) {
  OpenServer server;
  const std::string session = server.CreateSession();
  server.Step(StepOf(session, SomeTokens(20, 1)));
  for (const char* const place :
       {"ExportCall::Submit", "WorkOrder::Submit", "SessionKeeper::DoJob",
        "ExportCall::Act, write started", "ExportCall::Act, finished"}) {
    ThreadHold hold(place);
    Context context;
    const auto reader =
        server.sessions().ExportSession(&context, RequestOf(session));
    hold.WaitUntilHeld();
    context.TryCancel();
    hold.Release();
    v1::ExportSessionResponse part;
    while (reader->Read(&part)) continue;
    reader->Finish();
    server.WaitForMetric("steadystate_outbound_bytes", 0);
    EXPECT_THAT(Export(server, RequestOf(session)).status, IsOk()) << place;
  }
}

TEST(ExportCallTest, ItWaitsForRoom) {
  OpenServerOptions options;
  options.server.max_outbound_bytes = size_t{16} << 20;
  options.engine.history = 1'000'000;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  server.Step(StepOf(session, {1}));
  // Each is expected to take some 5 MB, more than a connection's share: one
  // after the other, and all get there.
  std::vector<std::thread> clients;
  std::vector<Exported> results(6);
  for (Exported& result : results) {
    clients.emplace_back([&] { result = Export(server, RequestOf(session)); });
  }
  for (std::thread& client : clients) client.join();
  for (const Exported& result : results) {
    EXPECT_THAT(result.status, IsOk());
    EXPECT_TRUE(SameSession(server, result.snapshot, results[0].snapshot));
  }
}

// An export that is taken slowly while another waits for the room.
class SlowExport : public testing::Test {
 protected:
  SlowExport() : server_(Options(&clock_)) {
    for (uint32_t i = 0; i < 30; ++i) {
      server_.Step(StepOf(session_, SomeTokens(5000, i)));
    }
    // More than a connection's share, and in no larger part on its way than a
    // client can have that does not read.
    grpc::ChannelArguments little;
    little.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    slow_ = v1::SessionService::NewStub(server_.NewChannel(little));
    reader_ = slow_->ExportSession(&context_, RequestOf(session_));
    EXPECT_TRUE(reader_->Read(&part_));
    whole_ = part_.snapshot_bytes();
    taken_ = part_.chunk().size();
    waiting_ =
        std::thread([this] { other_ = Export(server_, RequestOf(session_)); });
    server_.WaitForMetric("steadystate_outbound_waiting", 1);
  }

  static OpenServerOptions Options(ManualClock* clock) {
    OpenServerOptions options;
    options.clock = clock;
    options.server.max_message_bytes = size_t{64} << 10;
    options.server.max_outbound_bytes = size_t{16} << 20;
    options.engine.history = 1'000'000;
    options.engine.max_step_tokens = 5000;
    return options;
  }

  // Takes parts until the server finds that too slow; never still for long.
  void TakeSlowly() {
    for (int i = 0; i < 4; ++i) {
      clock_.Advance(absl::Seconds(10));
      ASSERT_TRUE(reader_->Read(&part_));
      taken_ += part_.chunk().size();
    }
  }

  grpc::Status TakeTheRest() {
    while (reader_->Read(&part_)) taken_ += part_.chunk().size();
    return reader_->Finish();
  }

  void ExpectThatTheOtherGetsIts() {
    waiting_.join();
    EXPECT_THAT(other_.status, IsOk());
    server_.WaitForMetric("steadystate_outbound_bytes", 0);
  }

  ManualClock clock_;
  OpenServer server_;
  const std::string session_ = server_.CreateSession();
  std::unique_ptr<v1::SessionService::Stub> slow_;
  Context context_;
  std::unique_ptr<grpc::ClientReader<v1::ExportSessionResponse>> reader_;
  v1::ExportSessionResponse part_;
  uint64_t whole_ = 0;
  uint64_t taken_ = 0;
  Exported other_;
  std::thread waiting_;
};

TEST_F(SlowExport, DoesNotKeepOthersWaiting) {
  ThreadHold hold("ExportCall::Tick, lags");
  TakeSlowly();
  hold.WaitUntilHeld();
  hold.Release();
  EXPECT_THAT(TakeTheRest(), HasReason(ErrorReason::kDeadlineExceeded));
  EXPECT_LT(taken_, whole_);
  ExpectThatTheOtherGetsIts();
}

TEST_F(SlowExport, ItsClientMayGoAsItIsCut) {
  ThreadHold hold("ExportCall::Tick, lags");
  TakeSlowly();
  hold.WaitUntilHeld();
  context_.TryCancel();
  TakeTheRest();
  hold.Release();
  ExpectThatTheOtherGetsIts();
}

}  // namespace
}  // namespace steadystate::export_call_test
