#ifndef STEADYSTATE_SERVER_RPC_PARSED_BYTES_H_
#define STEADYSTATE_SERVER_RPC_PARSED_BYTES_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace steadystate {

// Numbers in lists apart, a request has fewer parts by far: texts, lists,
// entries of maps, messages, fields that are unknown. To read so many takes a
// few milliseconds.
inline constexpr size_t kMostParts = 16384;

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

#endif  // STEADYSTATE_SERVER_RPC_PARSED_BYTES_H_
