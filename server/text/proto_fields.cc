#include "server/text/proto_fields.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr size_t kMaxVarintBytes = 10;

// Takes a varint from the front of `rest`; false if there is none.
bool TakeVarint(absl::string_view& rest, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < kMaxVarintBytes && i < rest.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest[i]);
    value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if ((byte & 0x80) != 0) continue;
    rest.remove_prefix(i + 1);
    return true;
  }
  return false;
}

// Takes what follows the tag of a field.
bool TakeValue(absl::string_view& rest, ProtoField& field) {
  uint64_t size = 0;
  switch (field.type) {
    case ProtoField::kVarint:
      return TakeVarint(rest, field.varint);
    case ProtoField::kFixed64:
      size = 8;
      break;
    case ProtoField::kFixed32:
      size = 4;
      break;
    case ProtoField::kBytes:
      if (!TakeVarint(rest, size)) return false;
      break;
    default:
      return false;
  }
  if (size > rest.size()) return false;
  field.bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

}  // namespace

absl::Status ForEachProtoField(
    absl::string_view message,
    const std::function<absl::Status(const ProtoField&)>& visit) {
  absl::string_view rest = message;
  while (!rest.empty()) {
    const size_t at = message.size() - rest.size();
    uint64_t tag = 0;
    ProtoField field = {};
    const bool has_tag =
        TakeVarint(rest, tag) && tag <= UINT32_MAX && tag >> 3 != 0;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = static_cast<ProtoField::Type>(tag & 7);
    if (!has_tag || !TakeValue(rest, field)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no field of Protobuf's at byte ", at, " of ", message.size()));
    }
    STEADYSTATE_RETURN_IF_ERROR(visit(field));
  }
  return absl::OkStatus();
}

}  // namespace steadystate
