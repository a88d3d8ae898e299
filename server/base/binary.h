#ifndef STEADYSTATE_SERVER_BASE_BINARY_H_
#define STEADYSTATE_SERVER_BASE_BINARY_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace steadystate {

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");
static_assert(std::numeric_limits<float>::is_iec559 &&
              std::numeric_limits<double>::is_iec559);

// Appends numbers, texts and arrays to bytes that may be kept for ever: numbers
// little-endian, without padding. Thread-compatible.
class BinaryWriter {
 public:
  // Borrows it.
  explicit BinaryWriter(std::string& to) : to_(to) {}

  template <typename T>
  requires std::is_arithmetic_v<T>
  void Number(T value) { Bytes(&value, sizeof(value)); }

  // Its length, 32 bits, and its bytes. REQUIRES: it is shorter than 4 GiB.
  void Text(absl::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    Bytes(text.data(), text.size());
  }

  // Without their count.
  template <typename T>
  void Numbers(std::span<const T> values) {
    Bytes(values.data(), values.size_bytes());
  }

  void Bytes(const void* bytes, size_t count) {
    if (count > 0) to_.append(static_cast<const char*>(bytes), count);
  }

 private:
  std::string& to_;
};

// Takes apart what BinaryWriter has written, or anybody else: what is not there
// reads as zeros, and ok() is false from then on. Thread-compatible.
class BinaryReader {
 public:
  // Borrows them.
  explicit BinaryReader(absl::string_view bytes) : left_(bytes) {}

  // False once something was read that is not there.
  bool ok() const { return ok_; }
  // All there was has been read, and nothing else.
  bool complete() const { return ok_ && left_.empty(); }
  size_t left() const { return left_.size(); }

  template <typename T>
  requires std::is_arithmetic_v<T> T Number() {
    T value{};
    const absl::string_view bytes = Bytes(sizeof(value));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  // Lent.
  absl::string_view Text() { return Bytes(Number<uint32_t>()); }

  // All of them or zeros.
  template <typename T>
  void Numbers(std::span<T> to) {
    const absl::string_view bytes = Bytes(to.size_bytes());
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }

  // So many bytes, lent; none if there are fewer.
  absl::string_view Bytes(size_t count) {
    if (count > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const absl::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }

 private:
  absl::string_view left_;
  bool ok_ = true;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_BINARY_H_
