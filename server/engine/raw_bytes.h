#ifndef STEADYSTATE_SERVER_ENGINE_RAW_BYTES_H_
#define STEADYSTATE_SERVER_ENGINE_RAW_BYTES_H_

#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// Numbers one after the other, as they lie in memory: the form of recorded
// answers (RequestRecord::answer).

template <typename T>
void AppendRaw(T value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes the first one off. REQUIRES: there is one.
template <typename T>
T TakeRaw(absl::string_view& from) {
  T value;
  std::memcpy(&value, from.data(), sizeof(value));
  from.remove_prefix(sizeof(value));
  return value;
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_RAW_BYTES_H_
