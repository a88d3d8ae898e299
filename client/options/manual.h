#ifndef STEADYSTATE_CLIENT_OPTIONS_MANUAL_H_
#define STEADYSTATE_CLIENT_OPTIONS_MANUAL_H_

#include <string>

#include "client/options/program.h"

namespace steadystate::client {

// The manual page of a program, section 1, for man(1): all that its help says.
std::string FormatManual(const Program& program);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_OPTIONS_MANUAL_H_
