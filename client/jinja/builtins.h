#ifndef STEADYSTATE_CLIENT_JINJA_BUILTINS_H_
#define STEADYSTATE_CLIENT_JINJA_BUILTINS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/jinja/value.h"

namespace steadystate::jinja {

// Arguments of a call; the ones with names come last.
struct Arguments {
  List places{};
  std::vector<std::pair<std::string, Value>> names{};

  // The argument at `place` or called `name`; nullptr: it is not there.
  const Value* At(size_t place, absl::string_view name = "") const;
};

// Each of these gives UNIMPLEMENTED for what is not understood, and
// INVALID_ARGUMENT for what Jinja refuses, too.

// value | name(arguments)
absl::StatusOr<Value> Filter(absl::string_view name, const Value& value,
                             const Arguments& arguments);

// value is name(arguments)
absl::StatusOr<bool> Test(absl::string_view name, const Value& value,
                          const Arguments& arguments);

// value.name(arguments)
absl::StatusOr<Value> Method(absl::string_view name, const Value& value,
                             const Arguments& arguments);

// name(arguments), of which strftime_now gives the time of the local zone.
absl::StatusOr<Value> Function(absl::string_view name,
                               const Arguments& arguments, absl::Time now);

// left name right, but "and" and "or".
absl::StatusOr<Value> Operator(absl::string_view name, const Value& left,
                               const Value& right);

// value.name and value[name]; undefined: there is no such thing.
absl::StatusOr<Value> Member(const Value& value, absl::string_view name);
absl::StatusOr<Value> Item(const Value& value, const Value& index);

// value[from:to:step], of which each may be none.
absl::StatusOr<Value> Slice(const Value& value, const Value& from,
                            const Value& to, const Value& step);

// What a loop goes over; the list itself, uncopied, if that is a list.
using ListView = std::shared_ptr<const List>;
absl::StatusOr<ListView> ViewOf(const Value& value);

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_BUILTINS_H_
