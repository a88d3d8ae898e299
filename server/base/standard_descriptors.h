#ifndef STEADYSTATE_SERVER_BASE_STANDARD_DESCRIPTORS_H_
#define STEADYSTATE_SERVER_BASE_STANDARD_DESCRIPTORS_H_

namespace steadystate {

// Opens /dev/null in place of standard input, output or error where the process
// was started without it: else a connection or a file would get its number, and
// what is written to it. Reading or writing it still fails, as it would if it
// were closed. The first thing that main does.
void OpenStandardDescriptors();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_STANDARD_DESCRIPTORS_H_
