#ifndef STEADYSTATE_SERVER_BASE_FETCHED_FILE_H_
#define STEADYSTATE_SERVER_BASE_FETCHED_FILE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// INVALID_ARGUMENT, with what to do, if the bytes of a file of a model are what
// stands in its place where it has not been fetched: what Git LFS leaves there,
// or a web page.
absl::Status CheckIsFetched(absl::string_view path, absl::string_view bytes);

// The text of a file of a model, of at most `max_bytes`; nothing if there is
// none of that name. NOT_FOUND, with what to do, for a link to a file that is
// not there, as a cache has them that was cleared in part: the model has the
// file. Otherwise errors of ReadFile and CheckIsFetched.
absl::StatusOr<std::optional<std::string>> ReadModelFile(
    const std::string& path, size_t max_bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_FETCHED_FILE_H_
