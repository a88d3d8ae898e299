#include "server/base/byte_size.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/ascii.h"
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

// "4Gi" is what Kubernetes calls 4GiB; capitals do not matter.
bool HasSuffix(absl::string_view text, absl::string_view suffix) {
  return absl::EndsWithIgnoreCase(text, suffix) ||
         (absl::EndsWith(suffix, "iB") &&
          absl::EndsWithIgnoreCase(text, suffix.substr(0, 2)));
}

// REQUIRES: HasSuffix.
size_t SuffixSize(absl::string_view text, absl::string_view suffix) {
  return absl::EndsWithIgnoreCase(text, suffix) ? suffix.size() : 2;
}

// "4G": Docker and Java mean 4GiB by it, Kubernetes 4GB.
bool NamesOneLetter(absl::string_view text) {
  return text.size() > 1 &&
         absl::string_view("KMGTkmgt").find(text.back()) !=
             absl::string_view::npos &&
         absl::string_view("0123456789").find(text[text.size() - 2]) !=
             absl::string_view::npos;
}

absl::Status OneLetter(absl::string_view text) {
  const absl::string_view number = text.substr(0, text.size() - 1);
  const char unit =
      absl::ascii_toupper(static_cast<unsigned char>(text.back()));
  const std::string letter(1, unit);
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' may be ", number, letter, "iB or ", number,
                   unit == 'K' ? "k" : letter, "B: say which of them"));
}

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
    if (HasSuffix(number, unit.suffix)) {
      number.remove_suffix(SuffixSize(number, unit.suffix));
      unit_bytes = unit.bytes;
      break;
    }
  }
  // Digits and at most a point: no sign, exponent, blank, "inf" or "nan".
  if (number.empty() ||
      number.find_first_not_of("0123456789.") != absl::string_view::npos) {
    return NamesOneLetter(text) ? OneLetter(text) : bad();
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

std::string UnparseByteSize(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    const bool binary = absl::EndsWith(unit.suffix, "iB");
    if (binary && bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return absl::StrCat(bytes / unit.bytes, unit.suffix);
    }
  }
  return absl::StrCat(bytes);
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
