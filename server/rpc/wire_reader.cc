#include "server/rpc/wire_reader.h"

#include <algorithm>
#include <cstdint>

namespace steadystate {
namespace {

// As protobuf's parser has it.
constexpr size_t kMaxVarintBytes = 10;
constexpr size_t kMaxTagBytes = 5;
constexpr size_t kMaxGroupDepth = 100;

using MessageDescriptor = google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// The largest of our messages without what it points to, with the heap's own
// and its place in the list that has it.
constexpr size_t kMessageBytes = 192;
// A node of a map, its place in the table, and the message that an entry
// becomes for a moment, which stays on an arena.
constexpr size_t kMapEntryBytes = 128;
// A string object with the heap's own.
constexpr size_t kStringBytes = 64;
// An unknown field in a list that grows by doubling.
constexpr size_t kUnknownBytes = 40;
// Arrays grow by doubling, and an arena keeps the outgrown ones.
constexpr size_t kGrowth = 2;
constexpr int kMaxDepth = 100;

size_t SizeOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return sizeof(bool);
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return sizeof(uint64_t);
    default:
      return sizeof(uint32_t);
  }
}

// The least that one element takes on the wire.
size_t WireSizeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return sizeof(uint64_t);
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return sizeof(uint32_t);
    default:
      return 1;
  }
}

size_t PackedCount(const FieldDescriptor& field, absl::string_view bytes) {
  if (WireSizeOf(field) > 1) return bytes.size() / WireSizeOf(field);
  // A number ends with a byte below 0x80.
  return static_cast<size_t>(std::count_if(
      bytes.begin(), bytes.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; }));
}

struct Sum {
  size_t bytes = 0;
  size_t parts = 0;
  const size_t most;

  bool TooMuch() const { return bytes > most || parts > kMostParts; }
};

// Goes on to the end, a fault or the most; false if it did not get to the end.
// `type`: null for an unknown group.
bool Add(WireReader& wire, const MessageDescriptor* type, int depth, Sum& sum);

// What a field of bytes that is no message takes: a string, a packed list, or
// what is kept as unknown.
size_t ContentsBytes(absl::string_view bytes, const FieldDescriptor* field) {
  if (field != nullptr &&
      field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return kStringBytes + bytes.size();
  }
  if (field != nullptr && field->is_repeated()) {
    return PackedCount(*field, bytes) * SizeOf(*field) * kGrowth;
  }
  return kUnknownBytes + kStringBytes + bytes.size();
}

// False as Add.
bool AddContents(absl::string_view bytes, const FieldDescriptor* field,
                 int depth, Sum& sum) {
  if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE) {
    sum.bytes += ContentsBytes(bytes, field);
    return true;
  }
  sum.bytes += field->is_map() ? kMapEntryBytes : kMessageBytes;
  WireReader within(bytes);
  return Add(within, field->message_type(), depth + 1, sum);
}

// A number, by itself or in a list; or what is no such field.
void AddNumber(const FieldDescriptor* field, Sum& sum) {
  if (field == nullptr ||
      field->cpp_type() == FieldDescriptor::CPPTYPE_STRING ||
      field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    ++sum.parts;
    sum.bytes += kUnknownBytes;
  } else if (field->is_repeated()) {
    sum.bytes += SizeOf(*field) * kGrowth;
  }
}

bool Add(WireReader& wire, const MessageDescriptor* type, int depth, Sum& sum) {
  if (depth > kMaxDepth) return false;
  WireTag tag;
  while (!wire.done()) {
    if (sum.TooMuch() || !wire.ReadTag(tag)) return false;
    const FieldDescriptor* const field =
        type == nullptr ? nullptr
                        : type->FindFieldByNumber(static_cast<int>(tag.field));
    switch (tag.type) {
      case WireType::kBytes: {
        ++sum.parts;
        absl::string_view bytes;
        if (!wire.ReadBytes(bytes)) return false;
        if (!AddContents(bytes, field, depth, sum)) return false;
        break;
      }
      case WireType::kGroupBegin:
        ++sum.parts;
        sum.bytes += kUnknownBytes + kStringBytes;
        if (!Add(wire, nullptr, depth + 1, sum)) return false;
        break;
      case WireType::kGroupEnd:
        return type == nullptr;
      default:
        AddNumber(field, sum);
        if (!wire.Skip(tag)) return false;
    }
  }
  return true;
}

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

size_t ParsedBytes(absl::string_view wire, const MessageDescriptor& type,
                   size_t most) {
  Sum sum{.bytes = kMessageBytes, .most = most};
  WireReader reader(wire);
  Add(reader, &type, 0, sum);
  return sum.parts > kMostParts ? SIZE_MAX : sum.bytes;
}

}  // namespace steadystate
