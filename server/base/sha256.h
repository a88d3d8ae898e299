#ifndef STEADYSTATE_SERVER_BASE_SHA256_H_
#define STEADYSTATE_SERVER_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace steadystate {

// SHA-256 (FIPS 180-4) of bytes that arrive in pieces. How they were cut does
// not matter. Thread-compatible.
class Sha256 {
 public:
  void Update(std::span<const std::byte> bytes);

  // The digest of all bytes as 64 lower-case hexadecimal digits. Last call.
  std::string FinishHex();

 private:
  static constexpr size_t kBlockBytes = 64;

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                    0xa54ff53a, 0x510e527f, 0x9b05688c,
                                    0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> block_{};  // bytes not yet mixed in
  uint64_t total_bytes_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_SHA256_H_
