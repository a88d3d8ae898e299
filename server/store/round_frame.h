#ifndef STEADYSTATE_SERVER_STORE_ROUND_FRAME_H_
#define STEADYSTATE_SERVER_STORE_ROUND_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// A round of the log, as it lies in a file:
//
//   bytes of what follows the checksum (u32) | CRC32C of that (u32)
//   | number (u64) | content
//
// Numbers little-endian.
struct RoundFrame {
  uint64_t number = 0;
  absl::string_view content;
};

// Makes `to` those bytes.
void WriteFrame(const RoundFrame& round, std::string& to);

// Takes the next round off `bytes`; nothing if there is no whole one. Lent.
std::optional<RoundFrame> TakeFrame(absl::string_view& bytes);

// Where in `bytes` the next whole round begins whose number is larger than
// `after`; nothing if there is none.
std::optional<size_t> FindFrame(absl::string_view bytes, uint64_t after);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROUND_FRAME_H_
