#include "tests/testing/http2.h"

#include "absl/strings/str_cat.h"

namespace steadystate {
namespace {

// A header that no table keeps; of fewer than 127 bytes.
std::string Literal(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'),
                      std::string(1, static_cast<char>(name.size())), name,
                      std::string(1, static_cast<char>(value.size())), value);
}

}  // namespace

std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(value >> (8 * i)));
  }
  return text;
}

std::string Frame(Http2Frame type, char flags, uint32_t stream,
                  absl::string_view payload) {
  return absl::StrCat(BigEndian(static_cast<uint32_t>(payload.size()), 3),
                      std::string({static_cast<char>(type), flags}),
                      BigEndian(stream, 4), payload);
}

std::string Http2Preface() {
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                      Frame(Http2Frame::kSettings, 0, 0, ""));
}

std::string RequestHeaders(absl::string_view path) {
  return absl::StrCat("\x83\x86", Literal(":path", path),
                      Literal(":authority", "x"), Literal("te", "trailers"),
                      Literal("content-type", "application/grpc"));
}

std::string GrpcMessage(absl::string_view body) {
  return absl::StrCat(std::string(1, '\0'),
                      BigEndian(static_cast<uint32_t>(body.size()), 4), body);
}

}  // namespace steadystate
