#ifndef STEADYSTATE_SERVER_STORE_ROCKS_OPTIONS_H_
#define STEADYSTATE_SERVER_STORE_ROCKS_OPTIONS_H_

#include <cstdint>

#include "rocksdb/options.h"

namespace steadystate {

// How the database of a store is opened: its messages go to the server's log,
// and whoever has it gets it going again after an error.
rocksdb::DBOptions DatabaseOptions();

// Of a column family, and of one whose values are large and replaced as a
// whole.
rocksdb::ColumnFamilyOptions FamilyOptions();
rocksdb::ColumnFamilyOptions BlobFamilyOptions();

// What of the oldest values, of `bytes` in all, a compaction writes anew so
// that the room of those that were replaced becomes free
// (blob_garbage_collection_age_cutoff).
double CollectedShare(uint64_t bytes);
// About so much is put there from one compaction to the next.
inline constexpr uint64_t kBytesOfCompaction = uint64_t{64} << 20;

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROCKS_OPTIONS_H_
