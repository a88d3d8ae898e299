#ifndef STEADYSTATE_CLIENT_JINJA_TEMPLATE_H_
#define STEADYSTATE_CLIENT_JINJA_TEMPLATE_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/jinja/node.h"
#include "client/jinja/text.h"
#include "client/jinja/value.h"

namespace steadystate::jinja {

// A template in a part of Jinja: what chat templates use for conversations
// without tools. It writes what Jinja would write with trim_blocks,
// lstrip_blocks and the extensions of transformers, or says what it does not
// understand. What it reads need not be trusted: depth, work and memory are
// bounded. Thread-safe.
class Template {
 public:
  // UNIMPLEMENTED: something is not understood, and in which line.
  static absl::StatusOr<Template> Parse(absl::string_view source);

  // What it writes. UNIMPLEMENTED: as Parse, of what these variables lead to.
  // INVALID_ARGUMENT: the template refuses them, with its own message.
  absl::StatusOr<Text> Render(Variables variables, absl::Time now) const;

 private:
  explicit Template(NodePtr root) : root_(std::move(root)) {}

  std::shared_ptr<const Node> root_;
};

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_TEMPLATE_H_
