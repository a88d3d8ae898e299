#ifndef STEADYSTATE_SERVER_FLAG_TABLE_H_
#define STEADYSTATE_SERVER_FLAG_TABLE_H_

#include "client/options/options.h"
#include "server/flags.h"

namespace steadystate {

// The flags that set something, their targets in `flags`, which must outlive
// the table; what `flags` holds now is shown as the default. A flag is added
// here, in one of the functions that the table is made of, and nowhere else.
client::OptionTable FlagTable(Flags& flags);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_FLAG_TABLE_H_
