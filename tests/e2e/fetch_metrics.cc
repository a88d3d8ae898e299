#include "tests/e2e/fetch_metrics.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace steadystate {

HttpAnswer FetchPage(const std::string& server, const std::string& path) {
  int port = 0;
  if (!absl::SimpleAtoi(server.substr(server.rfind(':') + 1), &port)) return {};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  std::string response;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
          0 &&
      write(fd, request.data(), request.size()) ==
          static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t n = read(fd, buffer, sizeof(buffer)); n > 0;
         n = read(fd, buffer, sizeof(buffer))) {
      response.append(buffer, static_cast<size_t>(n));
    }
  }
  close(fd);
  const size_t body = response.find("\r\n\r\n");
  if (body == std::string::npos) return {};
  HttpAnswer answer{.body = response.substr(body + 4)};
  const size_t status = response.find(' ') + 1;
  if (!absl::SimpleAtoi(response.substr(status, 3), &answer.status)) return {};
  return answer;
}

std::string FetchMetrics(const std::string& server) {
  return FetchPage(server, "/metrics").body;
}

}  // namespace steadystate
