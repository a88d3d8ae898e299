#ifndef STEADYSTATE_SERVER_BASE_CRC32C_H_
#define STEADYSTATE_SERVER_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace steadystate {

// CRC32C (RFC 3720, appendix B.4) of bytes that arrive in pieces, by ISA-L.
// How they were cut does not matter. Thread-compatible.
class Crc32c {
 public:
  void Update(absl::string_view bytes);

  // Of all bytes so far.
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = UINT32_MAX;
};

// Of these bytes alone.
uint32_t Crc32cOf(absl::string_view bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_CRC32C_H_
