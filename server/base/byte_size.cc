#include "server/base/byte_size.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace steadystate {
namespace {

struct Unit {
  absl::string_view suffix;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"TiB", uint64_t{1} << 40},
    {"GiB", uint64_t{1} << 30},
    {"MiB", uint64_t{1} << 20},
    {"KiB", uint64_t{1} << 10},
    {"TB", 1'000'000'000'000},
    {"GB", 1'000'000'000},
    {"MB", 1'000'000},
    {"kB", 1'000},
    {"B", 1},
};

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text) {
  const auto bad = [text] {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is not a size: give a number of bytes or a number with ",
        "one of KiB, MiB, GiB, TiB, kB, MB, GB, TB, for instance 4GiB"));
  };
  absl::string_view number = text;
  uint64_t unit_bytes = 1;
  for (const Unit& unit : kUnits) {
    if (absl::EndsWith(number, unit.suffix)) {
      number.remove_suffix(unit.suffix.size());
      unit_bytes = unit.bytes;
      break;
    }
  }
  // Digits and at most a point: no sign, exponent, blank, "inf" or "nan".
  if (number.empty() ||
      number.find_first_not_of("0123456789.") != absl::string_view::npos) {
    return bad();
  }
  uint64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    if (whole > UINT64_MAX / unit_bytes) return bad();
    return whole * unit_bytes;
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value)) return bad();
  const double bytes = std::floor(value * static_cast<double>(unit_bytes));
  if (!(bytes < 18446744073709551616.0)) return bad();
  return static_cast<uint64_t>(bytes);
}

std::string FormatByteSize(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (absl::EndsWith(unit.suffix, "iB") && bytes >= unit.bytes) {
      return absl::StrFormat(
          "%.1f %s",
          static_cast<double>(bytes) / static_cast<double>(unit.bytes),
          unit.suffix);
    }
  }
  return absl::StrCat(bytes, " B");
}

}  // namespace steadystate
