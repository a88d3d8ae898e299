#ifndef STEADYSTATE_SERVER_RPC_LIBRARY_LOGS_H_
#define STEADYSTATE_SERVER_RPC_LIBRARY_LOGS_H_

namespace steadystate {

// Sends what gRPC and Protobuf log to our own log, where --log_level holds for
// it, and as much of it as a LogLimiter for each admits: clients choose how
// often they are complained of. Call before gRPC serves; may be repeated.
void LogWhatLibrariesSay();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_LIBRARY_LOGS_H_
