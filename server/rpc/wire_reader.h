#ifndef STEADYSTATE_SERVER_RPC_WIRE_READER_H_
#define STEADYSTATE_SERVER_RPC_WIRE_READER_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

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

// Numbers in lists apart, a request has fewer parts by far: texts, lists,
// entries of maps, messages, fields that are unknown. To read so many takes a
// few milliseconds.
inline constexpr size_t kMostParts = 16384;

// Messages up to this size are read without a look at what they take.
inline constexpr size_t kSmallMessageBytes = size_t{4} << 10;

// The memory that a message of this type takes when it is parsed, found without
// parsing it: what two bytes on the wire can be is an empty message, an entry
// of a map or an unknown field, all of which take up to a hundred times as much
// in memory. Rather too much than too little. Of a message that is not well
// formed, what its part before the fault takes: the parser stops there, too.
// Looks no further than to what makes it more than `most`, or to kMostParts
// parts: SIZE_MAX if it has more. Thread-safe.
size_t ParsedBytes(absl::string_view wire,
                   const google::protobuf::Descriptor& type, size_t most);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_WIRE_READER_H_
