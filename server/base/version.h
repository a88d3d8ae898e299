#ifndef STEADYSTATE_SERVER_BASE_VERSION_H_
#define STEADYSTATE_SERVER_BASE_VERSION_H_

namespace steadystate {

// The project's version, from CMakeLists.txt.
inline constexpr char kVersion[] = STEADYSTATE_VERSION;

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_VERSION_H_
