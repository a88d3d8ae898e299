#ifndef STEADYSTATE_TESTS_TESTING_HTTP2_H_
#define STEADYSTATE_TESTS_TESTING_HTTP2_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// Bytes of HTTP/2, for tests that send what no library would.

enum class Http2Frame : char {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kWindowUpdate = 8,
  kContinuation = 9,
};

constexpr char kEndStream = 1;
constexpr char kEndHeaders = 4;

std::string BigEndian(uint32_t value, int bytes);

std::string Frame(Http2Frame type, char flags, uint32_t stream,
                  absl::string_view payload);

// What a connection begins with; the settings are the defaults.
std::string Http2Preface();

// The header block of a gRPC call; `path` has fewer than 127 bytes.
std::string RequestHeaders(absl::string_view path);

// A message in gRPC's framing.
std::string GrpcMessage(absl::string_view body);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_HTTP2_H_
