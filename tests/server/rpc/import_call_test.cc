// Goal: a session that is made of a snapshot goes on as the one that it was
// taken of, on the same server and on another; whatever is wrong with a
// snapshot or its upload is told, and leaves nothing behind. Method: real
// servers and clients on tiny models; clients that stop, go, or send what they
// did not announce; threads held in between.
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

namespace steadystate::import_call_test {
namespace {

std::string Export(OpenServer& server, const std::string& session) {
  v1::ExportSessionRequest request;
  request.set_name(session);
  Context context;
  const auto reader = server.sessions().ExportSession(&context, request);
  std::string snapshot;
  v1::ExportSessionResponse part;
  while (reader->Read(&part)) snapshot += part.chunk();
  EXPECT_THAT(reader->Finish(), IsOk());
  return snapshot;
}

// An upload that a test takes step by step.
struct Upload {
  explicit Upload(OpenServer& server) : Upload(server.sessions()) {}
  explicit Upload(v1::SessionService::Stub& sessions)
      : writer(sessions.ImportSession(&context, &session)) {}

  grpc::Status End() {
    writer->WritesDone();
    return writer->Finish();
  }

  Context context;
  v1::Session session;
  std::unique_ptr<grpc::ClientWriter<v1::ImportSessionRequest>> writer;
};

struct Imported {
  grpc::Status status;
  v1::Session session;
};

Imported Import(OpenServer& server, const std::string& snapshot,
                v1::ImportSessionRequest first = {}, size_t chunk = 1000) {
  Upload upload(server);
  first.set_snapshot_bytes(snapshot.size());
  for (size_t at = 0; at < snapshot.size(); at += chunk) {
    first.set_chunk(snapshot.substr(at, chunk));
    if (!upload.writer->Write(first)) break;
    first.Clear();
  }
  Imported result;
  result.status = upload.End();
  result.session = upload.session;
  return result;
}

v1::ImportSessionRequest As(const std::string& id) {
  v1::ImportSessionRequest request;
  request.set_session_id(id);
  return request;
}

std::vector<float> LogitsAfter(OpenServer& server, const std::string& session) {
  const v1::StepResponse response =
      server.Step(LogitsStepOf(session, {1, 2, 3}));
  return {response.logits().begin(), response.logits().end()};
}

// Until a message that has been sent has made room for itself.
void WaitUntilTaken(OpenServer& server) {
  server.WaitForSome("steadystate_outbound_bytes");
}

std::string NewSessionAt20(OpenServer& server) {
  std::string session = server.CreateSession();
  server.Step(StepOf(session, SomeTokens(20, 1)));
  return session;
}

TEST(ImportCallTest, ItGoesOnWhereTheOtherWas) {
  OpenServer server;
  v1::CreateSessionRequest create;
  create.set_session_id("first");
  (*create.mutable_session()->mutable_labels())["kind"] = "test";
  create.mutable_session()->mutable_ttl()->set_seconds(77);
  Context context;
  v1::Session first;
  ASSERT_THAT(server.sessions().CreateSession(&context, create, &first),
              IsOk());
  server.Step(StepOf(first.name(), SomeTokens(20, 1)));
  const std::string snapshot = Export(server, first.name());
  const Imported imported = Import(server, snapshot, As("second"));
  ASSERT_THAT(imported.status, IsOk());
  EXPECT_EQ(imported.session.name(), "sessions/second");
  EXPECT_EQ(imported.session.position(), 20u);
  EXPECT_EQ(imported.session.labels().at("kind"), "test");
  EXPECT_EQ(imported.session.ttl().seconds(), 77);
  EXPECT_NE(imported.session.uid(), first.uid());
  EXPECT_FALSE(imported.session.other_numerics());
  EXPECT_EQ(LogitsAfter(server, "sessions/second"),
            LogitsAfter(server, first.name()));
}

TEST(ImportCallTest, AlsoOnAnotherServer) {
  OpenServer one;
  OpenServer other;
  v1::CreateSessionRequest create;
  create.set_session_id("moved");
  Context context;
  v1::Session session;
  ASSERT_THAT(one.sessions().CreateSession(&context, create, &session), IsOk());
  one.Step(StepOf(session.name(), SomeTokens(20, 1)));
  const Imported imported = Import(other, Export(one, session.name()));
  ASSERT_THAT(imported.status, IsOk());
  EXPECT_EQ(imported.session.name(), "sessions/moved");
  EXPECT_EQ(LogitsAfter(other, session.name()),
            LogitsAfter(one, session.name()));
}

TEST(ImportCallTest, WhatWasRecordedIsRepeatedThere) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::StepRequest step = StepOf(session, SomeTokens(20, 1));
  step.set_request_id("once");
  step.set_expected_position(0);
  server.Step(step);
  const Imported imported = Import(server, Export(server, session), As("two"));
  ASSERT_THAT(imported.status, IsOk());
  step.set_session(imported.session.name());
  const v1::StepResponse again = server.Step(step);
  EXPECT_TRUE(again.replayed());
  EXPECT_EQ(again.position(), 20u);
}

TEST(ImportCallTest, ASessionAtItsBeginning) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const Imported imported = Import(server, Export(server, session), As("two"));
  ASSERT_THAT(imported.status, IsOk());
  EXPECT_EQ(imported.session.position(), 0u);
  EXPECT_EQ(LogitsAfter(server, imported.session.name()),
            LogitsAfter(server, session));
}

TEST(ImportCallTest, WhatIsWrongIsToldAndLeavesNothing) {
  OpenServer server;
  const std::string session = NewSessionAt20(server);
  const std::string snapshot = Export(server, session);
  EXPECT_THAT(Import(server, snapshot).status,
              HasReason(ErrorReason::kSessionAlreadyExists));
  EXPECT_THAT(Import(server, snapshot, As("Not an id")).status,
              IsAboutField("session_id"));
  std::string changed = snapshot;
  changed[changed.size() / 2] = static_cast<char>(~changed[changed.size() / 2]);
  EXPECT_THAT(Import(server, changed, As("x")).status,
              HasReason(ErrorReason::kSnapshotCorrupt));
  EXPECT_THAT(Import(server, "nonsense", As("x")).status,
              HasReason(ErrorReason::kSnapshotCorrupt));
  Upload nothing(server);
  EXPECT_THAT(nothing.End(), IsAboutField("snapshot_bytes"));
  v1::ImportSessionRequest first;
  Upload no_size(server);
  no_size.writer->Write(first);
  EXPECT_THAT(no_size.End(), IsAboutField("snapshot_bytes"));
  Upload too_large(server);
  first.set_snapshot_bytes(uint64_t{1} << 40);
  too_large.writer->Write(first);
  EXPECT_THAT(too_large.End(), IsAboutField("snapshot_bytes"));
  Upload too_short(server);
  first.set_snapshot_bytes(10);
  first.set_chunk("123456789");
  too_short.writer->Write(first);
  EXPECT_THAT(too_short.End(), IsAboutField("snapshot_bytes"));
  Upload too_long(server);
  first.set_chunk("12345678901");
  too_long.writer->Write(first);
  EXPECT_THAT(too_long.End(), IsAboutField("snapshot_bytes"));
  Upload large_chunk(server);
  first.set_snapshot_bytes(2 << 20);
  first.set_chunk(std::string((1 << 20) + 1, 'x'));
  large_chunk.writer->Write(first);
  EXPECT_THAT(large_chunk.End(), IsAboutField("chunk"));
  EXPECT_EQ(server.MetricValue("steadystate_sessions_created_total"), 1);
  server.WaitForMetric("steadystate_outbound_bytes", 0);
}

TEST(ImportCallTest, AnotherModelRefuses) {
  OpenServer one;
  OpenServerOptions options;
  options.model.seed = 99;
  OpenServer other(options);
  EXPECT_THAT(Import(other, Export(one, NewSessionAt20(one))).status,
              HasReason(ErrorReason::kModelFingerprintMismatch));
}

TEST(ImportCallTest, TheBudgetBoundsWhatIsImported) {
  OpenServerOptions options;
  options.session_budget = 2;
  OpenServer server(options);
  const std::string snapshot = Export(server, NewSessionAt20(server));
  ASSERT_THAT(Import(server, snapshot, As("two")).status, IsOk());
  EXPECT_THAT(Import(server, snapshot, As("three")).status,
              HasReason(ErrorReason::kStateBudgetExhausted));
}

TEST(ImportCallTest, AClientThatGoesLeavesNothing) {
  OpenServer server;
  const std::string snapshot = Export(server, NewSessionAt20(server));
  for (const char* const place :
       {"ImportCall::Act, read started", "ImportCall::TakeFirst",
        "WorkOrder::Submit", "SessionKeeper::DoJob",
        "ImportCall::Act, finished"}) {
    ThreadHold hold(place);
    Upload upload(server);
    v1::ImportSessionRequest first = As("gone");
    first.set_snapshot_bytes(snapshot.size());
    first.set_chunk(snapshot);
    upload.writer->Write(first);
    upload.writer->WritesDone();
    hold.WaitUntilHeld();
    upload.context.TryCancel();
    hold.Release();
    upload.writer->Finish();
    server.WaitForMetric("steadystate_outbound_bytes", 0);
    server.WaitForMetric("steadystate_requests_running", 0);
    // It was made, or it was not.
    v1::DeleteSessionRequest request;
    request.set_name("sessions/gone");
    google::protobuf::Empty empty;
    Context context;
    const grpc::Status deleted =
        server.sessions().DeleteSession(&context, request, &empty);
    if (!deleted.ok()) {
      EXPECT_THAT(deleted, HasReason(ErrorReason::kSessionNotFound)) << place;
    }
    const Imported after = Import(server, snapshot, As("gone"));
    if (after.status.ok()) {
      Context another;
      server.sessions().DeleteSession(&another, request, &empty);
    }
  }
}

TEST(ImportCallTest, UploadsThatStandStillLeaveRoomForOthers) {
  OpenServerOptions options;
  options.server.max_outbound_bytes = size_t{16} << 20;
  OpenServer server(options);
  const std::string snapshot = Export(server, NewSessionAt20(server));
  std::vector<std::unique_ptr<Upload>> still;
  for (int i = 0; i < 20; ++i) {
    still.push_back(std::make_unique<Upload>(server));
    v1::ImportSessionRequest first;
    // As much as any snapshot may have: more than a share.
    first.set_snapshot_bytes(server.engine().max_snapshot_bytes());
    ASSERT_TRUE(still.back()->writer->Write(first));
  }
  server.Step(StepOf(server.CreateSession(), {1, 2, 3}));
  for (auto& upload : still) upload->context.TryCancel();
  for (auto& upload : still) EXPECT_FALSE(upload->writer->Finish().ok());
  server.WaitForMetric("steadystate_outbound_bytes", 0);
  EXPECT_THAT(Import(server, snapshot, As("two")).status, IsOk());
}

TEST(ImportCallTest, AnUploadThatStandsStillIsEnded) {
  ManualClock clock;
  OpenServerOptions options;
  options.clock = &clock;
  OpenServer server(options);
  Upload upload(server);
  v1::ImportSessionRequest first;
  first.set_snapshot_bytes(1000);
  ASSERT_TRUE(upload.writer->Write(first));
  WaitUntilTaken(server);
  clock.Advance(absl::Seconds(31));
  EXPECT_THAT(upload.writer->Finish(),
              HasReason(ErrorReason::kDeadlineExceeded));
  server.WaitForMetric("steadystate_outbound_bytes", 0);
}

// Writes a message, and waits until the server has taken its chunk.
void WriteAndWait(Upload& upload, const v1::ImportSessionRequest& message) {
  ThreadHold hold("ImportCall::Append");
  ASSERT_TRUE(upload.writer->Write(message));
  hold.WaitUntilHeld();
  hold.Release();
}

TEST(ImportCallTest, AnUploadThatIsSlowDoesNotKeepOthersWaiting) {
  ManualClock clock;
  OpenServerOptions options;
  options.clock = &clock;
  options.server.max_outbound_bytes = size_t{16} << 20;
  OpenServer server(options);
  v1::ImportSessionRequest first;
  // As much as any snapshot may have: more than a share.
  first.set_snapshot_bytes(server.engine().max_snapshot_bytes());
  Upload slow(server);
  WriteAndWait(slow, first);
  clock.Advance(absl::Seconds(20));
  v1::ImportSessionRequest more;
  more.set_chunk("x");
  WriteAndWait(slow, more);
  clock.Advance(absl::Seconds(20));
  // Nobody has waited so far.
  WriteAndWait(slow, more);

  const auto channel = server.NewChannel();
  const auto sessions = v1::SessionService::NewStub(channel);
  Upload other(*sessions);
  ASSERT_TRUE(other.writer->Write(first));
  const grpc::Status ended = slow.writer->Finish();
  EXPECT_THAT(ended, HasReason(ErrorReason::kDeadlineExceeded));
  EXPECT_THAT(ended.error_message(), testing::HasSubstr("others wait"));
  other.context.TryCancel();
  other.writer->Finish();
  server.WaitForMetric("steadystate_outbound_bytes", 0);
}

TEST(ImportCallTest, AShutdownEndsUploads) {
  OpenServer server;
  Upload upload(server);
  v1::ImportSessionRequest first;
  first.set_snapshot_bytes(1000);
  ASSERT_TRUE(upload.writer->Write(first));
  // gRPC by itself cancels what comes while it ends.
  WaitUntilTaken(server);
  std::thread shutdown(
      [&] { EXPECT_TRUE(server.server().Shutdown(absl::Seconds(60)).ok()); });
  EXPECT_THAT(upload.writer->Finish(), HasReason(ErrorReason::kDraining));
  shutdown.join();
}

}  // namespace
}  // namespace steadystate::import_call_test
