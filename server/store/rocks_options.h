#ifndef STEADYSTATE_SERVER_STORE_ROCKS_OPTIONS_H_
#define STEADYSTATE_SERVER_STORE_ROCKS_OPTIONS_H_

#include "rocksdb/options.h"

namespace steadystate {

// How the database of a store is opened: its messages go to the server's log,
// and whoever has it gets it going again after an error.
rocksdb::DBOptions DatabaseOptions();

// Of a column family, and of one whose values are large and replaced as a
// whole.
rocksdb::ColumnFamilyOptions FamilyOptions();
rocksdb::ColumnFamilyOptions BlobFamilyOptions();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROCKS_OPTIONS_H_
