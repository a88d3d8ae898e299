#ifndef STEADYSTATE_CLIENT_JINJA_PARSER_H_
#define STEADYSTATE_CLIENT_JINJA_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/jinja/node.h"

namespace steadystate::jinja {

// A template as a kBlock. UNIMPLEMENTED: something that is not understood, and
// where; what is malformed is one of these.
absl::StatusOr<NodePtr> Parse(absl::string_view source);

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_PARSER_H_
