#include "tests/testing/tcp_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace steadystate {
namespace {

sockaddr_in Address(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

}  // namespace

TcpClient::TcpClient() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval minute = {60, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &minute, sizeof(minute));
}

bool TcpClient::Connect(int port, const char* source) {
  const sockaddr_in from = Address(source, 0);
  const sockaddr_in to = Address("127.0.0.1", port);
  connected_ =
      bind(fd_, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0 &&
      connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  return connected_;
}

TcpClient::~TcpClient() { close(fd_); }

bool TcpClient::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

std::string TcpClient::Receive() {
  std::array<char, 65536> buffer;
  const ssize_t count = recv(fd_, buffer.data(), buffer.size(), 0);
  if (count <= 0) return "";
  return std::string(buffer.data(), static_cast<size_t>(count));
}

std::string TcpClient::ReceiveAll() {
  std::string all;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = recv(fd_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EAGAIN) return std::string(kMissing);
    if (count <= 0) return all;
    all.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace steadystate
