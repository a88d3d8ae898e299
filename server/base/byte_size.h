#ifndef STEADYSTATE_SERVER_BASE_BYTE_SIZE_H_
#define STEADYSTATE_SERVER_BASE_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// Parses "4GiB", "512MiB", "64KiB", "1000000" or "1000000B", also decimal
// "2GB", "500MB", "1kB", and fractions ("1.5GiB", rounded down to whole bytes).
// "4Gi" is 4GiB, and capitals do not matter. INVALID_ARGUMENT for anything
// else, negatives and overflow; for "4G", which means 4GiB to some and 4GB to
// others, with both.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

// "4GiB", "1000000": what ParseByteSize reads, without rounding.
std::string UnparseByteSize(uint64_t bytes);

// "128.0 KiB", "4.0 GiB", "37 B".
std::string FormatByteSize(uint64_t bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_BYTE_SIZE_H_
