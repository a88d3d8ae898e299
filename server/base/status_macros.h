#ifndef STEADYSTATE_SERVER_BASE_STATUS_MACROS_H_
#define STEADYSTATE_SERVER_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status of `expr` from the enclosing function if it is not OK.
#define STEADYSTATE_RETURN_IF_ERROR(expr)         \
  do {                                            \
    absl::Status steadystate_status_ = (expr);    \
    if (!steadystate_status_.ok()) [[unlikely]] { \
      return steadystate_status_;                 \
    }                                             \
  } while (false)

// Evaluates `expr`, a StatusOr; returns its status if it is not OK, else
// initialises or assigns `lhs` from its value. Two statements: not for the
// unbraced body of an if.
#define STEADYSTATE_ASSIGN_OR_RETURN(lhs, expr) \
  STEADYSTATE_ASSIGN_OR_RETURN_(                \
      STEADYSTATE_CONCAT_(steadystate_or_, __LINE__), lhs, expr)

#define STEADYSTATE_ASSIGN_OR_RETURN_(var, lhs, expr) \
  auto var = (expr);                                  \
  if (!var.ok()) [[unlikely]] {                       \
    return std::move(var).status();                   \
  }                                                   \
  lhs = std::move(var).value()

#define STEADYSTATE_CONCAT_(a, b) STEADYSTATE_CONCAT_INNER_(a, b)
#define STEADYSTATE_CONCAT_INNER_(a, b) a##b

#endif  // STEADYSTATE_SERVER_BASE_STATUS_MACROS_H_
