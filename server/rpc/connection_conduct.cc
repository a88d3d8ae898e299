#include "server/rpc/connection_conduct.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"
#include "nlohmann/json.hpp"

namespace steadystate {
namespace {

// Resets that an answered call makes up for.
constexpr double kResetsPerAnswer = 4;

// What is received beside the bytes of messages, at most: headers of a call,
// what goes with each message either way, a part of each frame. More of these
// than usual: what is not forgiven adds up for as long as a connection has open
// calls.
constexpr uint64_t kBytesPerCall = 2 << 10;
constexpr uint64_t kBytesPerMessage = 64;
constexpr uint64_t kMessageBytesPerFrameByte = 256;
// What gRPC holds of one call, at most: a message that has not ended, and the
// window that is open for the next.
constexpr uint64_t kMessagesHeldPerCall = 2;

// The calls that have been reset, as far as can be told.
uint64_t Resets(const ConnectionActivity& activity, uint64_t may_be_open) {
  const uint64_t not_reset = activity.calls_answered + may_be_open;
  return std::max(activity.calls_reset, activity.calls_begun > not_reset
                                            ? activity.calls_begun - not_reset
                                            : 0);
}

uint64_t CallsOpen(const ConnectionActivity& activity,
                   const ConductLimits& limits) {
  return std::min(activity.calls_open(), limits.open_calls);
}

using nlohmann::json;

constexpr int64_t kSocketsPerPage = 500;
// A connection has its number somewhat before it is listed: those that are
// listed again.
constexpr int64_t kOverlap = 128;

// Takes and parses what gRPC returns; an empty object if there is nothing.
json Take(char* text) {
  if (text == nullptr) return json::object();
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  gpr_free(text);
  return value.is_object() ? value : json::object();
}

// Numbers are written as strings, and left out where they are 0.
int64_t Number(const json& object, const char* key) {
  const auto found = object.find(key);
  int64_t number = 0;
  if (found != object.end() && found->is_string() &&
      absl::SimpleAtoi(found->get<std::string>(), &number)) {
    return number;
  }
  return 0;
}

uint64_t Count(const json& object, const char* key) {
  return static_cast<uint64_t>(std::max<int64_t>(Number(object, key), 0));
}

int64_t NewestServer() {
  int64_t newest = 0;
  for (;;) {
    const json page = Take(grpc_channelz_get_servers(newest + 1));
    const json servers = page.value("server", json::array());
    for (const json& server : servers) {
      newest = std::max(
          newest, Number(server.value("ref", json::object()), "serverId"));
    }
    if (servers.empty() || page.value("end", false)) return newest;
  }
}

}  // namespace

std::optional<ConnectionCut> ConnectionConduct::Judge(
    Clock::time_point now, uint64_t bytes, const ConnectionActivity& activity,
    const ConductLimits& limits) {
  const std::chrono::duration<double> elapsed = now - last_time_.value_or(now);
  last_time_ = now;
  const auto answered =
      static_cast<double>(activity.calls_answered - last_.calls_answered);
  const uint64_t resets =
      std::max(Resets(activity, limits.open_calls), last_resets_);
  const auto reset = static_cast<double>(resets - last_resets_);
  last_resets_ = resets;
  const double made_up =
      kResetsPerAnswer * answered +
      static_cast<double>(limits.resets_per_second) * elapsed.count();
  resets_ = std::max(resets_ + reset - made_up, 0.0);
  CountUnfinished(bytes, activity, limits);
  if (activity != last_) bytes_at_progress_ = bytes;
  last_ = activity;
  if (resets_ > static_cast<double>(limits.resets)) {
    return ConnectionCut::kResets;
  }
  const uint64_t calls = std::max<uint64_t>(CallsOpen(activity, limits), 1);
  if (bytes - bytes_at_progress_ > calls * limits.bytes_per_call) {
    return ConnectionCut::kBytes;
  }
  return std::nullopt;
}

// Sums up what came since the last time less what was taken. Never below 0: a
// client that has much forgiven now cannot make use of that later. Nor more
// than the calls that are open can hold: nobody tells what gRPC has dropped of
// those that have ended, a message that was too long or that nobody wanted any
// more.
void ConnectionConduct::CountUnfinished(uint64_t bytes,
                                        const ConnectionActivity& activity,
                                        const ConductLimits& limits) {
  const uint64_t received = bytes - last_bytes_;
  last_bytes_ = bytes;
  const uint64_t taken = activity.bytes_taken - last_.bytes_taken;
  const uint64_t accounted =
      taken + taken / kMessageBytesPerFrameByte +
      kBytesPerCall * (activity.calls_begun - last_.calls_begun) +
      kBytesPerMessage * (activity.messages - last_.messages);
  unfinished_ += received;
  unfinished_ -= std::min(unfinished_, accounted);
  unfinished_ =
      std::min(unfinished_, kMessagesHeldPerCall * CallsOpen(activity, limits) *
                                limits.bytes_per_call);
}

std::string ConnectionName(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (peer.ss_family != AF_INET6) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &ipv4.sin_addr, host.data(), host.size());
    return absl::StrCat("ipv4:", host.data(), ":", ntohs(ipv4.sin_port));
  }
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(peer);
  const uint16_t port = ntohs(ipv6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
    inet_ntop(AF_INET, &ipv6.sin6_addr.s6_addr[12], host.data(), host.size());
    return absl::StrCat("ipv4:", host.data(), ":", port);
  }
  inet_ntop(AF_INET6, &ipv6.sin6_addr, host.data(), host.size());
  return absl::StrCat("ipv6:%5B", host.data(), "%5D:", port);
}

ConnectionCounters::ConnectionCounters() : server_(NewestServer()) {}

std::vector<ConnectionCounters::Socket> ConnectionCounters::NewSockets() {
  std::vector<Socket> sockets;
  int64_t next = next_socket_;
  for (bool end = false; !end;) {
    const json page =
        Take(grpc_channelz_get_server_sockets(server_, next, kSocketsPerPage));
    const json listed = page.value("socketRef", json::array());
    for (const json& socket : listed) {
      const int64_t id = Number(socket, "socketId");
      const std::string name = socket.value("name", "");
      // "chttp2 ipv4:127.0.0.1:40000"
      sockets.push_back({.id = id, .name = name.substr(name.rfind(' ') + 1)});
      next = std::max(next, id + 1);
    }
    end = listed.empty() || page.value("end", false);
  }
  next_socket_ = std::max(next - kOverlap, next_socket_);
  return sockets;
}

std::optional<ConnectionActivity> ConnectionCounters::Read(int64_t socket) {
  const json answer = Take(grpc_channelz_get_socket(socket));
  if (!answer.contains("socket")) return std::nullopt;
  const json data = answer["socket"].value("data", json::object());
  return ConnectionActivity{
      .calls_begun = Count(data, "streamsStarted"),
      .calls_answered = Count(data, "streamsSucceeded"),
      .calls_reset = Count(data, "streamsFailed"),
      .messages = Count(data, "messagesSent") + Count(data, "messagesReceived"),
  };
}

}  // namespace steadystate
