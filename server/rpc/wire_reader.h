#ifndef STEADYSTATE_SERVER_RPC_WIRE_READER_H_
#define STEADYSTATE_SERVER_RPC_WIRE_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace steadystate {

// How a field is written in protobuf's wire format.
enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroupBegin = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

struct WireTag {
  uint32_t field = 0;
  WireType type = WireType::kVarint;
};

// Goes through the fields of a message in protobuf's wire format without
// building anything. Lets through what protobuf's own parser does, and perhaps
// more. A call that returns false has found a fault; there is no going on then.
// Borrows the bytes. Thread-compatible.
class WireReader {
 public:
  explicit WireReader(absl::string_view wire) : rest_(wire) {}

  bool done() const { return rest_.empty(); }
  // What has not been read.
  absl::string_view rest() const { return rest_; }

  bool ReadTag(WireTag& tag);
  bool ReadVarint(uint64_t& value);
  // The contents of a field of type kBytes.
  bool ReadBytes(absl::string_view& bytes);
  // Passes over the contents of a field, a group with all that is in it.
  bool Skip(WireTag tag);

 private:
  bool Advance(size_t bytes);

  absl::string_view rest_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_WIRE_READER_H_
