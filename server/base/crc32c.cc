#include "server/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>

namespace steadystate {

void Crc32c::Update(absl::string_view bytes) {
  // The library counts bytes in an int.
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty()) {
    const absl::string_view part = bytes.substr(0, kMost);
    // It reads them, whatever its declaration says.
    auto* const data = const_cast<char*>(part.data());
    // NOLINTNEXTLINE: bytes are bytes.
    state_ = crc32_iscsi(reinterpret_cast<unsigned char*>(data),
                         static_cast<int>(part.size()), state_);
    bytes.remove_prefix(part.size());
  }
}

uint32_t Crc32cOf(absl::string_view bytes) {
  Crc32c crc;
  crc.Update(bytes);
  return crc.value();
}

}  // namespace steadystate
