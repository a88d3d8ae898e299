#ifndef STEADYSTATE_CLIENT_JINJA_LEXER_H_
#define STEADYSTATE_CLIENT_JINJA_LEXER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate::jinja {

struct Token {
  enum class Type {
    kData,           // what stands between tags, without what these strip
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kName,
    kString,  // without quotes and escapes
    kInteger,
    kOperator,
    kEnd,  // of the template
  };
  Type type;
  std::string text;
  int line;  // from 1 on
};

// A template in pieces, the last of which is kEnd. Blanks beside tags are
// those of an environment with trim_blocks and lstrip_blocks, as chat templates
// are written for. UNIMPLEMENTED: something that is not understood, and where.
absl::StatusOr<std::vector<Token>> Lex(absl::string_view source);

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_LEXER_H_
