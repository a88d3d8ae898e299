#ifndef STEADYSTATE_SERVER_SESSION_RECORD_FORM_H_
#define STEADYSTATE_SERVER_SESSION_RECORD_FORM_H_

#include "server/base/binary.h"
#include "server/session/session_memory.h"

namespace steadystate {

// Appends a record in the form that snapshots and the log have it in, see
// SNAPSHOT.md.
void WriteRecord(const RequestRecord& record, BinaryWriter& to);
// Reads one; lent by the reader's bytes. What is not there reads as zeros: ask
// the reader.
RequestRecord ReadRecord(BinaryReader& from);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_RECORD_FORM_H_
