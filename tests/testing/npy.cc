#include "tests/testing/npy.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

void Require(bool holds, const char* what, const std::string& path) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", path.c_str(), what);
  std::abort();
}

size_t Byte(const std::string& bytes, size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

}  // namespace

NpyArray ReadNpy(const std::string& path) {
  const std::string bytes = ReadWholeFile(path);
  Require(bytes.size() > 12 && absl::StartsWith(bytes, "\x93NUMPY"),
          "no .npy file", path);
  size_t start = 10;
  size_t length = Byte(bytes, 8) | Byte(bytes, 9) << 8;
  if (bytes[6] == 2) {
    start = 12;
    length |= Byte(bytes, 10) << 16 | Byte(bytes, 11) << 24;
  }
  Require(start + length <= bytes.size(), "truncated", path);
  const absl::string_view header(bytes.data() + start, length);
  Require(absl::StrContains(header, "'descr': '<f8'") &&
              absl::StrContains(header, "'fortran_order': False"),
          "not float64 in C order", path);

  NpyArray array;
  size_t count = 1;
  const size_t open = header.find('(');
  const size_t close = header.find(')');
  Require(open < close && close < header.size(), "no shape", path);
  for (absl::string_view text :
       absl::StrSplit(header.substr(open + 1, close - open - 1), ',',
                      absl::SkipWhitespace())) {
    size_t dimension = 0;
    Require(absl::SimpleAtoi(text, &dimension), "bad shape", path);
    array.shape.push_back(dimension);
    count *= dimension;
  }
  Require(bytes.size() == start + length + count * sizeof(double), "wrong size",
          path);
  array.values.resize(count);
  std::memcpy(array.values.data(), bytes.data() + start + length,
              count * sizeof(double));
  return array;
}

}  // namespace steadystate
