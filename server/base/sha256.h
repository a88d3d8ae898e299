#ifndef STEADYSTATE_SERVER_BASE_SHA256_H_
#define STEADYSTATE_SERVER_BASE_SHA256_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

// OpenSSL's, whose headers are only for the source.
struct evp_md_ctx_st;

namespace steadystate {

// SHA-256 (FIPS 180-4) of bytes that arrive in pieces, by OpenSSL. How they
// were cut does not matter. Thread-compatible.
class Sha256 {
 public:
  Sha256();

  void Update(std::span<const std::byte> bytes);

  // The digest of all bytes as 64 lower-case hexadecimal digits. Last call.
  // INTERNAL if OpenSSL is configured to do without SHA-256, or out of memory.
  absl::StatusOr<std::string> FinishHex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };

  std::unique_ptr<evp_md_ctx_st, Free> context_;
  bool failed_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_SHA256_H_
