#include "client/jinja/expression_parser.h"

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace steadystate::jinja {
namespace {

using Kind = Node::Kind;
using Type = Token::Type;

constexpr int kMaxExpressionDepth = 150;
constexpr size_t kMaxDigits = 9;

}  // namespace

Token ExpressionParser::Take() {
  Token taken = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return taken;
}

bool ExpressionParser::Is(Type type, absl::string_view text) const {
  return token().type == type && token().text == text;
}

bool ExpressionParser::IsOperator(absl::string_view text) const {
  return Is(Type::kOperator, text);
}

bool ExpressionParser::IsName(absl::string_view text) const {
  return Is(Type::kName, text);
}

bool ExpressionParser::TryOperator(absl::string_view text) {
  const bool there = IsOperator(text);
  if (there) Take();
  return there;
}

bool ExpressionParser::TryName(absl::string_view text) {
  const bool there = IsName(text);
  if (there) Take();
  return there;
}

void ExpressionParser::Expect(Type type, absl::string_view text) {
  if (Is(type, text)) {
    Take();
  } else {
    const std::string& found = token().text;
    Fail(found.empty() ? "a tag that ends here is not understood"
                       : absl::StrCat("'", found, "' is not understood here"));
  }
}

std::string ExpressionParser::Name() {
  if (token().type == Type::kName) return Take().text;
  Fail("a name is missing");
  return "";
}

NodePtr ExpressionParser::Make(Kind kind, std::string text) const {
  return std::make_unique<Node>(
      Node{.kind = kind, .line = token().line, .text = std::move(text)});
}

void ExpressionParser::Fail(absl::string_view what) {
  if (failed()) return;
  error_ = absl::StrCat("line ", token().line, ": ", what);
  at_ = tokens_.size() - 1;
}

bool ExpressionParser::Enter() {
  if (++depth_ > kMaxExpressionDepth) Fail("it nests too deep");
  return !failed();
}

NodePtr ExpressionParser::Expression() {
  NodePtr node = Make(Kind::kNone);
  if (Enter()) {
    node = Or();
    while (TryName("if")) {
      NodePtr choice = Make(Kind::kChoice);
      choice->parts.push_back(std::move(node));
      choice->parts.push_back(Or());
      choice->parts.push_back(TryName("else") ? Expression() : nullptr);
      node = std::move(choice);
    }
  }
  Leave();
  return node;
}

NodePtr ExpressionParser::Or() {
  NodePtr node = And();
  while (TryName("or")) {
    NodePtr both = Make(Kind::kOr);
    both->parts.push_back(std::move(node));
    both->parts.push_back(And());
    node = std::move(both);
  }
  return node;
}

NodePtr ExpressionParser::And() {
  NodePtr node = Not();
  while (TryName("and")) {
    NodePtr both = Make(Kind::kAnd);
    both->parts.push_back(std::move(node));
    both->parts.push_back(Not());
    node = std::move(both);
  }
  return node;
}

NodePtr ExpressionParser::Not() {
  NodePtr node = Make(Kind::kNot);
  if (!TryName("not")) return Compare();
  if (Enter()) node->parts.push_back(Not());
  Leave();
  return node;
}

NodePtr ExpressionParser::Compare() {
  NodePtr node = Binary(0);
  for (int count = 0; !failed(); ++count) {
    std::string name;
    for (const char* one : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (IsOperator(one)) name = one;
    }
    if (IsName("in") || IsName("not")) name = token().text;
    if (name.empty()) break;
    if (count > 0) Fail("a chain of comparisons is not understood");
    NodePtr compared = Make(Kind::kBinary, name);
    Take();
    if (name == "not") {
      Expect(Type::kName, "in");
      compared->text = "not in";
    }
    compared->parts.push_back(std::move(node));
    compared->parts.push_back(Binary(0));
    node = std::move(compared);
  }
  return node;
}

// Operators that bind closer have higher levels.
NodePtr ExpressionParser::Binary(size_t level) {
  constexpr std::array<std::array<const char*, 4>, 4> kLevels = {{
      {"+", "-", "", ""},
      {"~", "", "", ""},
      {"*", "/", "//", "%"},
      {"**", "", "", ""},
  }};
  if (level == kLevels.size()) return Unary(/*with_filters=*/true);
  NodePtr node = Binary(level + 1);
  while (token().type == Type::kOperator) {
    bool found = false;
    for (const char* one : kLevels[level]) found |= token().text == one;
    if (!found) break;
    NodePtr both = Make(Kind::kBinary, Take().text);
    both->parts.push_back(std::move(node));
    both->parts.push_back(Binary(level + 1));
    node = std::move(both);
  }
  return node;
}

NodePtr ExpressionParser::Unary(bool with_filters) {
  NodePtr node = Make(Kind::kNegative);
  if (TryOperator("-")) {
    if (Enter()) node->parts.push_back(Unary(/*with_filters=*/false));
    Leave();
  } else {
    node = Postfix(Primary());
  }
  return with_filters ? Filters(std::move(node)) : std::move(node);
}

NodePtr ExpressionParser::Primary() {
  if (token().type == Type::kName) return PrimaryName();
  if (token().type == Type::kString) {
    NodePtr node = Make(Kind::kString);
    while (token().type == Type::kString) node->text += Take().text;
    return node;
  }
  if (token().type == Type::kInteger) {
    NodePtr node = Make(Kind::kInteger);
    const std::string digits = Take().text;
    if (digits.size() > kMaxDigits ||
        !absl::SimpleAtoi(digits, &node->number)) {
      Fail("a number is too large");
    }
    return node;
  }
  return Bracket();
}

NodePtr ExpressionParser::PrimaryName() {
  const std::string& name = token().text;
  Kind kind = Kind::kName;
  if (name == "true" || name == "True") kind = Kind::kTrue;
  if (name == "false" || name == "False") kind = Kind::kFalse;
  if (name == "none" || name == "None") kind = Kind::kNone;
  NodePtr node = Make(kind, name);
  Take();
  return node;
}

NodePtr ExpressionParser::Items(Kind kind, absl::string_view end,
                                NodePtr list) {
  while (!failed() && !IsOperator(end)) {
    list->parts.push_back(Expression());
    if (kind == Kind::kDict) {
      Expect(Type::kOperator, ":");
      list->parts.push_back(Expression());
    }
    if (!TryOperator(",")) break;
  }
  Expect(Type::kOperator, end);
  return list;
}

NodePtr ExpressionParser::Bracket() {
  NodePtr list = Make(Kind::kList);
  if (TryOperator("[")) return Items(Kind::kList, "]", std::move(list));
  if (TryOperator("{")) {
    list->kind = Kind::kDict;
    return Items(Kind::kDict, "}", std::move(list));
  }
  Expect(Type::kOperator, "(");
  if (failed()) return list;
  if (TryOperator(")")) return list;
  NodePtr first = Expression();
  if (TryOperator(")")) return first;
  list->parts.push_back(std::move(first));
  Expect(Type::kOperator, ",");
  return Items(Kind::kList, ")", std::move(list));
}

NodePtr ExpressionParser::Postfix(NodePtr node) {
  while (!failed()) {
    if (TryOperator(".")) {
      NodePtr member = Make(Kind::kMember);
      member->text = Name();
      member->parts.push_back(std::move(node));
      node = std::move(member);
    } else if (TryOperator("[")) {
      node = Subscript(std::move(node));
    } else if (IsOperator("(")) {
      NodePtr call = Make(Kind::kCall);
      call->parts.push_back(std::move(node));
      Arguments(*call);
      node = std::move(call);
    } else {
      break;
    }
  }
  return node;
}

NodePtr ExpressionParser::Subscript(NodePtr node) {
  NodePtr item = Make(Kind::kItem);
  item->parts.push_back(std::move(node));
  item->parts.push_back(IsOperator(":") ? nullptr : Expression());
  while (TryOperator(":")) {
    item->kind = Kind::kSlice;
    const bool missing = IsOperator(":") || IsOperator("]");
    item->parts.push_back(missing ? nullptr : Expression());
  }
  if (item->parts.size() > 4) Fail("a slice is malformed");
  if (item->kind == Kind::kSlice) item->parts.resize(4);
  Expect(Type::kOperator, "]");
  return item;
}

NodePtr ExpressionParser::Filters(NodePtr node) {
  while (!failed()) {
    if (TryOperator("|")) {
      NodePtr filter = Make(Kind::kFilter);
      filter->text = Name();
      filter->parts.push_back(std::move(node));
      if (IsOperator("(")) Arguments(*filter);
      node = std::move(filter);
    } else if (TryName("is")) {
      node = Test(std::move(node));
    } else if (IsOperator("(")) {
      Fail("a call of this is not understood");
    } else {
      break;
    }
  }
  return node;
}

NodePtr ExpressionParser::Test(NodePtr node) {
  const bool negated = TryName("not");
  NodePtr test = Make(Kind::kTest);
  test->text = Name();
  test->parts.push_back(std::move(node));
  const Type type = token().type;
  if (IsOperator("(")) {
    Arguments(*test);
  } else if (type == Type::kString || type == Type::kInteger ||
             IsOperator("[") || IsOperator("{")) {
    test->arguments.push_back({"", Postfix(Primary())});
  } else if (type == Type::kName && !IsName("else") && !IsName("or") &&
             !IsName("and")) {
    // Jinja would take the name for the test's argument.
    Fail(absl::StrCat("'", token().text, "' after a test is not understood"));
  }
  if (!negated) return test;
  NodePtr negative = Make(Kind::kNot);
  negative->parts.push_back(std::move(test));
  return negative;
}

void ExpressionParser::Arguments(Node& call) {
  Expect(Type::kOperator, "(");
  while (!failed() && !IsOperator(")")) {
    Node::Argument argument;
    const bool named = token().type == Type::kName &&
                       tokens_[at_ + 1].type == Type::kOperator &&
                       tokens_[at_ + 1].text == "=";
    if (named) {
      argument.name = Take().text;
      Take();
    }
    argument.value = Expression();
    call.arguments.push_back(std::move(argument));
    if (!TryOperator(",")) break;
  }
  Expect(Type::kOperator, ")");
}

}  // namespace steadystate::jinja
