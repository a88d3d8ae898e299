#ifndef STEADYSTATE_TESTS_TESTING_TCP_CLIENT_H_
#define STEADYSTATE_TESTS_TESTING_TCP_CLIENT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// A TCP connection to a port of 127.0.0.1, for tests that send bytes as they
// please. Nothing waits longer than a minute.
class TcpClient {
 public:
  // Not connected yet.
  TcpClient();
  explicit TcpClient(int port) : TcpClient() { Connect(port); }
  ~TcpClient();
  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;

  // Whether the connection was made; `source` is the address to come from.
  bool Connect(int port, const char* source = "127.0.0.1");
  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  // False if the peer has closed.
  bool Send(absl::string_view bytes);
  // Some bytes, at least one; empty once the peer has closed.
  std::string Receive();
  // All that comes until the peer closes, `kMissing` if that takes too long.
  std::string ReceiveAll();
  static constexpr absl::string_view kMissing = "(the peer does not close)";

 private:
  int fd_ = -1;
  bool connected_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_TCP_CLIENT_H_
