// Preloaded into a program, asks it to end while its libraries are still being
// set up, before main.
#include <signal.h>

namespace {

__attribute__((constructor)) void AskToEnd() { raise(SIGTERM); }

}  // namespace
