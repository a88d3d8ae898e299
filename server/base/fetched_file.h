#ifndef STEADYSTATE_SERVER_BASE_FETCHED_FILE_H_
#define STEADYSTATE_SERVER_BASE_FETCHED_FILE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// INVALID_ARGUMENT, with what to do, if the bytes of a file of a model are what
// stands in its place where it has not been fetched: what Git LFS leaves there,
// or a web page.
absl::Status CheckIsFetched(absl::string_view path, absl::string_view bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_FETCHED_FILE_H_
