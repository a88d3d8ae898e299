#ifndef STEADYSTATE_CLIENT_JINJA_EXPRESSION_PARSER_H_
#define STEADYSTATE_CLIENT_JINJA_EXPRESSION_PARSER_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/jinja/lexer.h"
#include "client/jinja/node.h"

namespace steadystate::jinja {

// Reads expressions, with Jinja's precedence. After the first error it gives
// empty nodes, and stands at the end. Confined to one thread.
class ExpressionParser {
 public:
  // REQUIRES: the last of `tokens` is kEnd.
  explicit ExpressionParser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)) {}

  NodePtr Expression();
  NodePtr Or();  // an expression without "if"

  const Token& token() const { return tokens_[at_]; }
  Token Take();
  bool Is(Token::Type type, absl::string_view text) const;
  bool IsOperator(absl::string_view text) const;
  bool IsName(absl::string_view text) const;
  // Takes it if it is there.
  bool TryOperator(absl::string_view text);
  bool TryName(absl::string_view text);
  // An error if it is not there.
  void Expect(Token::Type type, absl::string_view text);
  std::string Name();

  NodePtr Make(Node::Kind kind, std::string text = "") const;
  void Fail(absl::string_view what);
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

  // Templates nest so deep; more is an error. Of each Enter, one Leave.
  bool Enter();
  void Leave() { --depth_; }

 private:
  NodePtr And();
  NodePtr Not();
  NodePtr Compare();
  NodePtr Binary(size_t level);
  NodePtr Unary(bool with_filters);
  NodePtr Primary();
  NodePtr PrimaryName();
  NodePtr Items(Node::Kind kind, absl::string_view end, NodePtr list);
  NodePtr Bracket();
  NodePtr Postfix(NodePtr node);
  NodePtr Subscript(NodePtr node);
  NodePtr Filters(NodePtr node);
  NodePtr Test(NodePtr node);
  void Arguments(Node& call);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_EXPRESSION_PARSER_H_
