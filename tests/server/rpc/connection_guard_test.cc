// Goal: connections that misbehave are cut off, those that send much are not.
// Method: a real server, raw HTTP/2 and gRPC's own client.
#include "server/rpc/connection_guard.h"

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/listener.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/http2.h"
#include "tests/testing/tcp_client.h"

namespace steadystate::connection_guard_test {
namespace {

// Sends until the peer has closed, `limit` bytes at most. Whether it has.
template <typename Next>
bool IsCut(TcpClient& client, size_t limit, Next next) {
  for (size_t sent = 0; sent < limit;) {
    const std::string bytes = next();
    if (!client.Send(bytes)) return true;
    sent += bytes.size();
    // gRPC reads no more from whoever does not read.
    char answers[4096];
    while (recv(client.fd(), answers, sizeof(answers), MSG_DONTWAIT) > 0) {
    }
  }
  return client.ReceiveAll() != TcpClient::kMissing;
}

// A server that was held up finds megabytes in a socket, of any number of
// calls.
TEST(ConnectionGuardTest, CountsWhatHasBeenRead) {
  const auto listener = Listen("127.0.0.1:0", AnyAddress::kIpv4Only);
  ASSERT_TRUE(listener.ok());
  TcpClient client(listener->port);
  const Descriptor socket(
      accept4(listener->sockets.front().get(), nullptr, nullptr, 0));
  ASSERT_TRUE(client.Send(std::string(60'000, 'x')));
  EXPECT_EQ(BytesRead(socket.get()), 0u);
  std::string bytes(20'000, '\0');
  ASSERT_EQ(recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(BytesRead(socket.get()), 20'000u);
  EXPECT_EQ(BytesRead(-1), 0u);
}

TEST(ConnectionGuardTest, CutsOffWhoResetsWithoutEnd) {
  OpenServer server;
  TcpClient client(server.server().port());
  ASSERT_TRUE(client.Send(Http2Preface()));
  const std::string headers =
      RequestHeaders("/steadystate.v1.GenerationService/Step");
  uint32_t stream = 1;
  EXPECT_TRUE(IsCut(client, size_t{64} << 20, [&] {
    std::string bytes;
    for (int i = 0; i < 100; ++i, stream += 2) {
      absl::StrAppend(&bytes,
                      Frame(Http2Frame::kHeaders, kEndHeaders, stream, headers),
                      Frame(Http2Frame::kReset, 0, stream, BigEndian(8, 4)));
    }
    return bytes;
  }));
  server.WaitForMetric(
      "steadystate_grpc_connections_cut_total{reason=\"resets\"}", 1);
  server.CreateSession();  // by a connection of its own
}

TEST(ConnectionGuardTest, CutsOffAHeaderWithoutEnd) {
  OpenServerOptions options;
  options.server.max_message_bytes = 64 << 10;
  OpenServer server(options);
  TcpClient client(server.server().port());
  ASSERT_TRUE(client.Send(Http2Preface()));
  // One of 64 MiB: the length in groups of 7 bits, less 127.
  ASSERT_TRUE(
      client.Send(Frame(Http2Frame::kHeaders, 0, 1,
                        absl::StrCat("\x83\x86", std::string(1, '\0'), "\x01x",
                                     "\x7f\x81\xff\xff\x1f"))));
  const std::string more =
      Frame(Http2Frame::kContinuation, 0, 1, std::string(16384, 'a'));
  EXPECT_TRUE(IsCut(client, size_t{64} << 20, [&] { return more; }));
  server.WaitForMetric(
      "steadystate_grpc_connections_cut_total{reason=\"bytes\"}", 1);
  server.CreateSession();
}

TEST(ConnectionGuardTest, CutsOffMessagesThatDoNotEnd) {
  OpenServerOptions options;
  options.server.max_message_bytes = 64 << 10;
  options.server.max_unfinished_bytes = 4 << 20;
  OpenServer server(options);
  Context context;
  const auto other = server.generation().StreamStep(&context);
  TcpClient client(server.server().port());
  ASSERT_TRUE(client.Send(Http2Preface()));
  const std::string headers =
      RequestHeaders("/steadystate.v1.GenerationService/Step");
  uint32_t stream = 1;
  // Calls with a message that lacks its last byte; each is within the window
  // that a stream begins with.
  EXPECT_TRUE(IsCut(client, size_t{64} << 20, [&] {
    constexpr size_t kBytes = 16000;
    const std::string begin =
        absl::StrCat(std::string(1, '\0'), BigEndian(kBytes + 1, 4),
                     std::string(kBytes, 'x'));
    const std::string bytes =
        absl::StrCat(Frame(Http2Frame::kHeaders, kEndHeaders, stream, headers),
                     Frame(Http2Frame::kData, 0, stream, begin));
    stream += 2;
    return bytes;
  }));
  server.WaitForMetric(
      "steadystate_grpc_connections_cut_total{reason=\"unfinished\"}", 1);
  // The other one goes on.
  v1::StreamStepRequest request;
  *request.mutable_step() = StepOf(server.CreateSession(), {1});
  v1::StreamStepResponse response;
  EXPECT_TRUE(other->Write(request));
  EXPECT_TRUE(other->Read(&response));
  EXPECT_TRUE(response.results(0).has_step()) << response.DebugString();
}

TEST(ConnectionGuardTest, LeavesBusyClientsAlone) {
  OpenServerOptions options;
  options.server.max_message_bytes = 64 << 10;
  OpenServer server(options);
  // Many times what may come without progress, on one stream.
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  v1::StreamStepRequest request;
  request.set_request_id("x");
  *request.mutable_step() =
      StepOf("sessions/none", std::vector<int32_t>(30'000, 1));
  v1::StreamStepResponse response;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  for (const char* reason : {"resets", "bytes", "unfinished"}) {
    EXPECT_EQ(
        server.MetricValue(absl::StrCat(
            "steadystate_grpc_connections_cut_total{reason=\"", reason, "\"}")),
        0);
  }
}

}  // namespace
}  // namespace steadystate::connection_guard_test
