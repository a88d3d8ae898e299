#include "client/jinja/parser.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/jinja/expression_parser.h"
#include "client/jinja/lexer.h"

namespace steadystate::jinja {
namespace {

using Kind = Node::Kind;
using Type = Token::Type;
using Names = std::initializer_list<const char*>;

// Reads statements.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : read_(std::move(tokens)) {}

  absl::StatusOr<NodePtr> Run() {
    NodePtr block = read_.Make(Kind::kBlock);
    block->body = Body({});
    if (read_.failed()) return absl::UnimplementedError(read_.error());
    return block;
  }

 private:
  // Up to a tag of one of these names, which is at the position then, without
  // its beginning; of none: up to the end.
  std::vector<NodePtr> Body(Names ends);
  NodePtr Statement();
  NodePtr If();
  NodePtr For();
  NodePtr Set();
  NodePtr Macro();

  void EndTag() { read_.Expect(Type::kBlockEnd, ""); }
  void End(absl::string_view name) {
    read_.Expect(Type::kName, name);
    EndTag();
  }

  ExpressionParser read_;
  int loops_ = 0;   // around the position
  int inside_ = 0;  // loops and macros around it
};

std::vector<NodePtr> Parser::Body(Names ends) {
  std::vector<NodePtr> body;
  while (!read_.failed()) {
    const Type type = read_.token().type;
    if (type == Type::kEnd) {
      if (ends.size() > 0) read_.Fail("a block does not end");
      break;
    }
    const Token begin = read_.Take();
    if (type == Type::kData) {
      body.push_back(read_.Make(Kind::kData, begin.text));
    } else if (type == Type::kVariableBegin) {
      NodePtr output = read_.Make(Kind::kOutput);
      output->parts.push_back(read_.Expression());
      read_.Expect(Type::kVariableEnd, "");
      body.push_back(std::move(output));
    } else {
      for (const char* end : ends) {
        if (read_.IsName(end)) return body;
      }
      if (read_.Enter()) body.push_back(Statement());
      read_.Leave();
    }
  }
  return body;
}

NodePtr Parser::Statement() {
  NodePtr block = read_.Make(Kind::kBlock);
  if (read_.TryName("if")) return If();
  if (read_.TryName("for")) return For();
  if (read_.TryName("set")) return Set();
  if (read_.TryName("macro")) return Macro();
  if (read_.TryName("generation")) {
    // Says to trainers what the model writes.
    EndTag();
    block->body = Body({"endgeneration"});
    End("endgeneration");
    return block;
  }
  if (loops_ > 0 && (read_.IsName("break") || read_.IsName("continue"))) {
    block->kind = read_.IsName("break") ? Kind::kBreak : Kind::kContinue;
    read_.Take();
    EndTag();
    return block;
  }
  read_.Fail(absl::StrCat("{% ", read_.token().text, " %} is not understood"));
  return block;
}

NodePtr Parser::If() {
  NodePtr node = read_.Make(Kind::kIf);
  node->parts.push_back(read_.Expression());
  EndTag();
  node->body = Body({"elif", "else", "endif"});
  if (read_.TryName("elif")) {
    if (read_.Enter()) node->otherwise.push_back(If());
    read_.Leave();
    return node;
  }
  if (read_.TryName("else")) {
    EndTag();
    node->otherwise = Body({"endif"});
  }
  End("endif");
  return node;
}

NodePtr Parser::For() {
  NodePtr node = read_.Make(Kind::kFor);
  node->names.push_back(read_.Name());
  while (read_.TryOperator(",")) node->names.push_back(read_.Name());
  read_.Expect(Type::kName, "in");
  // "if" here chooses what the loop is for.
  node->parts.push_back(read_.Or());
  node->parts.push_back(read_.TryName("if") ? read_.Expression() : nullptr);
  EndTag();
  ++loops_, ++inside_;
  node->body = Body({"else", "endfor"});
  --loops_, --inside_;
  if (read_.TryName("else")) {
    EndTag();
    node->otherwise = Body({"endfor"});
  }
  End("endfor");
  return node;
}

NodePtr Parser::Set() {
  NodePtr node = read_.Make(Kind::kSet);
  node->names.push_back(read_.Name());
  if (read_.TryOperator(".")) node->names.push_back(read_.Name());
  if (read_.TryOperator("=")) {
    node->parts.push_back(read_.Expression());
    EndTag();
    return node;
  }
  EndTag();
  node->kind = Kind::kSetBlock;
  node->body = Body({"endset"});
  End("endset");
  return node;
}

NodePtr Parser::Macro() {
  if (inside_ > 0) read_.Fail("a macro in a loop or a macro is not understood");
  NodePtr node = read_.Make(Kind::kMacro);
  node->text = read_.Name();
  read_.Expect(Type::kOperator, "(");
  while (!read_.failed() && !read_.IsOperator(")")) {
    Node::Argument parameter{.name = read_.Name(), .value = nullptr};
    if (read_.TryOperator("=")) parameter.value = read_.Expression();
    node->arguments.push_back(std::move(parameter));
    if (!read_.TryOperator(",")) break;
  }
  read_.Expect(Type::kOperator, ")");
  EndTag();
  const int loops = std::exchange(loops_, 0);
  ++inside_;
  node->body = Body({"endmacro"});
  --inside_;
  loops_ = loops;
  End("endmacro");
  return node;
}

}  // namespace

absl::StatusOr<NodePtr> Parse(absl::string_view source) {
  absl::StatusOr<std::vector<Token>> tokens = Lex(source);
  if (!tokens.ok()) return tokens.status();
  return Parser(*std::move(tokens)).Run();
}

}  // namespace steadystate::jinja
