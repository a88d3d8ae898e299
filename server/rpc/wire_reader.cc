#include "server/rpc/wire_reader.h"

namespace steadystate {
namespace {

// As protobuf's parser has it.
constexpr size_t kMaxVarintBytes = 10;
constexpr size_t kMaxTagBytes = 5;
constexpr size_t kMaxGroupDepth = 100;

}  // namespace

bool WireReader::ReadVarint(uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < kMaxVarintBytes && i < rest_.size(); ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    value |= uint64_t{byte & 0x7FU} << (7 * i);
    if (byte < 0x80) return Advance(i + 1);
  }
  return false;
}

bool WireReader::ReadTag(WireTag& tag) {
  uint32_t value = 0;
  for (size_t i = 0; i < kMaxTagBytes && i < rest_.size(); ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    // The bits of the last byte that do not fit are lost there, too.
    value |= (byte & 0x7FU) << (7 * i);
    if (byte >= 0x80) continue;
    tag.field = value >> 3;
    tag.type = static_cast<WireType>(value & 7);
    return tag.field != 0 && tag.type <= WireType::kFixed32 && Advance(i + 1);
  }
  return false;
}

bool WireReader::ReadBytes(absl::string_view& bytes) {
  uint64_t size = 0;
  if (!ReadVarint(size) || size > rest_.size()) return false;
  bytes = rest_.substr(0, size);
  return Advance(size);
}

bool WireReader::Skip(WireTag tag) {
  size_t depth = 0;
  do {
    if (depth > 0 && !ReadTag(tag)) return false;
    uint64_t value = 0;
    absl::string_view bytes;
    bool good = true;
    switch (tag.type) {
      case WireType::kVarint:
        good = ReadVarint(value);
        break;
      case WireType::kFixed64:
        good = Advance(sizeof(uint64_t));
        break;
      case WireType::kBytes:
        good = ReadBytes(bytes);
        break;
      case WireType::kGroupBegin:
        good = ++depth <= kMaxGroupDepth;
        break;
      case WireType::kGroupEnd:
        good = depth > 0;
        if (good) --depth;
        break;
      case WireType::kFixed32:
        good = Advance(sizeof(uint32_t));
        break;
    }
    if (!good) return false;
  } while (depth > 0);
  return true;
}

bool WireReader::Advance(size_t bytes) {
  if (bytes > rest_.size()) return false;
  rest_.remove_prefix(bytes);
  return true;
}

}  // namespace steadystate
