#ifndef STEADYSTATE_CLIENT_JINJA_NODE_H_
#define STEADYSTATE_CLIENT_JINJA_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace steadystate::jinja {

struct Node;
using NodePtr = std::unique_ptr<Node>;

// A part of a template, as the parser has it.
struct Node {
  enum class Kind {
    // Expressions.
    kString,   // text
    kInteger,  // number
    kTrue,
    kFalse,
    kNone,
    kName,      // text
    kList,      // of parts
    kDict,      // of pairs of parts
    kMember,    // parts[0].text
    kItem,      // parts[0][parts[1]]
    kSlice,     // parts[0][1:2:3], of which each may be missing
    kCall,      // parts[0](arguments)
    kFilter,    // parts[0] | text(arguments)
    kTest,      // parts[0] is text(arguments)
    kNot,       // parts[0]
    kNegative,  // parts[0]
    kAnd,
    kOr,
    kBinary,  // parts[0] text parts[1], also comparisons
    kChoice,  // parts[0] if parts[1] else parts[2], which may be missing
    // Statements.
    kData,      // text
    kOutput,    // parts[0]
    kBlock,     // body
    kIf,        // parts[0], body, otherwise
    kFor,       // names in parts[0] if parts[1], which may be missing
    kSet,       // names[0] = parts[0], or names[0].names[1]
    kSetBlock,  // names[0] = body
    kMacro,     // text(names = defaults), body
    kBreak,
    kContinue,
  };
  struct Argument {
    std::string name;  // "": by its place
    NodePtr value;     // of a macro's parameter: nullptr without a default
  };

  Kind kind;
  int line;
  std::string text{};
  int64_t number = 0;
  std::vector<NodePtr> parts{};
  std::vector<Argument> arguments{};
  std::vector<std::string> names{};
  std::vector<NodePtr> body{};
  std::vector<NodePtr> otherwise{};
};

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_NODE_H_
