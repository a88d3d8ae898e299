#include "client/jinja/template.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/jinja/builtins.h"
#include "client/jinja/parser.h"

namespace steadystate::jinja {
namespace {

using Kind = Node::Kind;

// Of one rendering: nodes evaluated and bytes and items made, and how deep
// calls and expressions nest.
constexpr int64_t kMaxWork = 20'000'000;
// The same for each byte of the variables: words may be long.
constexpr int64_t kMaxWorkPerByte = 500;
constexpr int kMaxRenderDepth = 400;

// Stands for a function that is named and not called.
constexpr const Node* kFunction = nullptr;

// Variables of the template, of a loop's round or of a macro's call.
struct Scope {
  Scope* outer;  // whose variables are seen here, too
  Variables variables{};
};

int64_t BytesIn(const Value& value) {
  int64_t bytes = 0;
  if (const Text* text = value.As<Text>()) {
    bytes = static_cast<int64_t>(text->bytes.size());
  } else if (const ListPtr* list = value.As<ListPtr>()) {
    for (const Value& item : **list) bytes += BytesIn(item);
  } else if (const MapPtr* map = value.As<MapPtr>()) {
    for (const auto& [name, member] : (*map)->members) {
      bytes += BytesIn(member);
    }
  }
  return bytes;
}

// What a statement has done to the loop around it.
enum class Flow { kOn, kBreak, kContinue };

// Renders once. After the first error it does nothing more.
class Renderer {
 public:
  Renderer(Variables variables, absl::Time now)
      : root_{nullptr, std::move(variables)}, now_(now) {
    for (const auto& [name, value] : root_.variables) {
      max_work_ += kMaxWorkPerByte * BytesIn(value);
    }
  }

  absl::StatusOr<Text> Run(const Node& root) {
    Text written;
    Body(root.body, root_, written);
    if (!status_.ok()) return status_;
    return written;
  }

 private:
  Flow Body(const std::vector<NodePtr>& body, Scope& scope, Text& written);
  Flow Statement(const Node& node, Scope& scope, Text& written);
  Flow For(const Node& node, Scope& scope, Text& written);
  void Set(const Node& node, Scope& scope);

  Value Evaluate(const Node& node, Scope& scope);
  Value Found(const Node& node, Scope& scope);
  Value Call(const Node& node, Scope& scope);
  Value CallMacro(const Node& call, const Node& macro,
                  const Arguments& arguments);
  Value ListOf(const Node& node, Scope& scope);
  Value DictOf(const Node& node, Scope& scope);
  Value SliceOf(const Node& node, Scope& scope);
  ListView Chosen(const Node& node, Scope& scope);
  bool Bind(const Node& node, const Value& item, Scope& scope);
  Arguments ArgumentsOf(const Node& node, Scope& scope);
  Value Named(const Node& node, const Scope& scope);
  static const Value* Look(absl::string_view name, const Scope& scope);

  // What a call of builtins has given.
  template <typename T>
  T Taken(const Node& node, absl::StatusOr<T> given) {
    if (given.ok()) return *std::move(given);
    Fail(node, given.status());
    return T();
  }
  void Fail(const Node& node, const absl::Status& status);
  void Fail(const Node& node, absl::string_view what) {
    Fail(node, absl::UnimplementedError(what));
  }
  bool Spend(const Node& node, int64_t work) {
    work_ += work;
    if (work_ > max_work_) Fail(node, "it takes too long");
    return status_.ok();
  }

  Scope root_;
  const absl::Time now_;
  absl::Status status_;
  int64_t max_work_ = kMaxWork;
  int64_t work_ = 0;
  int depth_ = 0;
};

void Renderer::Fail(const Node& node, const absl::Status& status) {
  if (!status_.ok()) return;
  status_ = absl::IsInvalidArgument(status)
                ? status
                : absl::UnimplementedError(
                      absl::StrCat("line ", node.line, ": ", status.message()));
}

int64_t SizeOf(const Value& value) {
  if (const Text* text = value.As<Text>()) {
    return static_cast<int64_t>(text->bytes.size());
  }
  if (const ListPtr* list = value.As<ListPtr>()) {
    return static_cast<int64_t>((*list)->size()) * 8;
  }
  return 0;
}

Flow Renderer::Body(const std::vector<NodePtr>& body, Scope& scope,
                    Text& written) {
  for (const NodePtr& node : body) {
    if (!status_.ok()) break;
    if (++depth_ > kMaxRenderDepth) Fail(*node, "it nests too deep");
    const Flow flow = Statement(*node, scope, written);
    --depth_;
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Flow Renderer::Statement(const Node& node, Scope& scope, Text& written) {
  if (!Spend(node, 1)) return Flow::kOn;
  switch (node.kind) {
    case Kind::kData:
      written.Append(Text(node.text));
      break;
    case Kind::kOutput: {
      const Value value = Evaluate(*node.parts[0], scope);
      const std::optional<Text> text = TextOf(value);
      if (text) {
        written.Append(*text);
      } else {
        Fail(node,
             absl::StrCat("to write ", KindOf(value), " is not understood"));
      }
      break;
    }
    case Kind::kIf: {
      const bool holds = IsTrue(Evaluate(*node.parts[0], scope));
      return Body(holds ? node.body : node.otherwise, scope, written);
    }
    case Kind::kFor:
      return For(node, scope, written);
    case Kind::kSet:
    case Kind::kSetBlock:
      Set(node, scope);
      break;
    case Kind::kMacro:
      scope.variables.insert_or_assign(node.text, Value(&node));
      break;
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    default:
      return Body(node.body, scope, written);
  }
  return Flow::kOn;
}

bool HoldsOthers(const Value& value) {
  const ListPtr* list = value.As<ListPtr>();
  return list != nullptr &&
         std::any_of((*list)->begin(), (*list)->end(), [](const Value& item) {
           return item.Is<MapPtr>() || item.Is<ListPtr>();
         });
}

void Renderer::Set(const Node& node, Scope& scope) {
  Value value;
  if (node.kind == Kind::kSet) {
    value = Evaluate(*node.parts[0], scope);
  } else {
    Text text;
    Body(node.body, scope, text);
    value = std::move(text);
  }
  if (node.names.size() == 1) {
    scope.variables.insert_or_assign(node.names[0], std::move(value));
    return;
  }
  const Value* owner = Look(node.names[0], scope);
  const MapPtr* map = owner == nullptr ? nullptr : owner->As<MapPtr>();
  if (map == nullptr || (*map)->kind != Map::Kind::kNamespace) {
    return Fail(node, absl::StrCat("'", node.names[0], "' is no namespace"));
  }
  // Such values could come to hold themselves, and would never be freed.
  if (value.Is<MapPtr>() || HoldsOthers(value)) {
    return Fail(node, absl::StrCat("such ", KindOf(value),
                                   " in a namespace is not understood"));
  }
  (*map)->Set(node.names[1], std::move(value));
}

// What a loop goes over, of which its "if" may leave out some; null: the
// template failed.
ListView Renderer::Chosen(const Node& node, Scope& scope) {
  ListView items = Taken(node, ViewOf(Evaluate(*node.parts[0], scope)));
  if (!node.parts[1] || items == nullptr) return items;
  auto chosen = std::make_shared<List>();
  for (const Value& item : *items) {
    Scope round{&scope};
    if (!Spend(node, 1) || !Bind(node, item, round)) break;
    if (IsTrue(Evaluate(*node.parts[1], round))) chosen->push_back(item);
  }
  return chosen;
}

bool Renderer::Bind(const Node& node, const Value& item, Scope& scope) {
  if (node.names.size() == 1) {
    scope.variables[node.names[0]] = item;
    return true;
  }
  const ListPtr* parts = item.As<ListPtr>();
  if (parts == nullptr || (*parts)->size() != node.names.size()) {
    Fail(node, "a loop over this by several names is not understood");
    return false;
  }
  for (size_t i = 0; i < node.names.size(); ++i) {
    scope.variables[node.names[i]] = (**parts)[i];
  }
  return true;
}

Flow Renderer::For(const Node& node, Scope& scope, Text& written) {
  const ListView chosen = Chosen(node, scope);
  if (chosen == nullptr) return Flow::kOn;
  const List& items = *chosen;
  if (items.empty()) return Body(node.otherwise, scope, written);
  const auto size = static_cast<int64_t>(items.size());
  for (int64_t i = 0; i < size && Spend(node, 1); ++i) {
    Scope round{&scope};
    Map loop{.kind = Map::Kind::kLoop};
    loop.members = {{"index0", i},          {"index", i + 1},
                    {"revindex", size - i}, {"revindex0", size - i - 1},
                    {"length", size},       {"first", i == 0},
                    {"last", i + 1 == size}};
    const auto at = static_cast<size_t>(i);
    loop.Set("previtem", i == 0 ? Value() : items[at - 1]);
    loop.Set("nextitem", i + 1 == size ? Value() : items[at + 1]);
    round.variables["loop"] = MakeMap(std::move(loop));
    if (!Bind(node, items[at], round)) break;
    if (Body(node.body, round, written) == Flow::kBreak) break;
  }
  return Flow::kOn;
}

Value Renderer::Evaluate(const Node& node, Scope& scope) {
  if (++depth_ > kMaxRenderDepth) Fail(node, "it nests too deep");
  Value value;
  if (Spend(node, 1)) value = Found(node, scope);
  Spend(node, SizeOf(value));
  --depth_;
  return value;
}

Value Renderer::Found(const Node& node, Scope& scope) {
  const auto part = [&](size_t i) { return Evaluate(*node.parts[i], scope); };
  switch (node.kind) {
    case Kind::kString:
      return MakeText(node.text);
    case Kind::kInteger:
      return node.number;
    case Kind::kTrue:
    case Kind::kFalse:
      return node.kind == Kind::kTrue;
    case Kind::kNone:
      return None();
    case Kind::kName:
      return Named(node, scope);
    case Kind::kList:
      return ListOf(node, scope);
    case Kind::kDict:
      return DictOf(node, scope);
    case Kind::kMember:
      return Taken(node, Member(part(0), node.text));
    case Kind::kItem: {
      const Value owner = part(0);
      return Taken(node, Item(owner, part(1)));
    }
    case Kind::kSlice:
      return SliceOf(node, scope);
    case Kind::kCall:
      return Call(node, scope);
    case Kind::kFilter: {
      const Value filtered = part(0);
      return Taken(node, Filter(node.text, filtered, ArgumentsOf(node, scope)));
    }
    case Kind::kTest: {
      const Value tested = part(0);
      return Taken(node, Test(node.text, tested, ArgumentsOf(node, scope)));
    }
    case Kind::kNot:
      return !IsTrue(part(0));
    case Kind::kNegative:
      return Taken(node, Operator("-", int64_t{0}, part(0)));
    case Kind::kAnd:
    case Kind::kOr: {
      Value left = part(0);
      return IsTrue(left) == (node.kind == Kind::kAnd) ? part(1) : left;
    }
    case Kind::kBinary: {
      const Value left = part(0);
      return Taken(node, Operator(node.text, left, part(1)));
    }
    case Kind::kChoice:
      if (IsTrue(part(1))) return part(0);
      return node.parts[2] ? part(2) : Value();
    default:
      Fail(node, "this is not understood");
      return Value();
  }
}

const Value* Renderer::Look(absl::string_view name, const Scope& scope) {
  for (const Scope* in = &scope; in != nullptr; in = in->outer) {
    const auto found = in->variables.find(name);
    if (found != in->variables.end()) return &found->second;
  }
  return nullptr;
}

Value Renderer::Named(const Node& node, const Scope& scope) {
  const Value* found = Look(node.text, scope);
  if (found != nullptr) return *found;
  const std::string name = absl::StrCat(" ", node.text, " ");
  // Templates ask whether these are there.
  if (absl::StrContains(
          " cycler dict joiner lipsum namespace raise_exception range "
          "strftime_now ",
          name)) {
    return kFunction;
  }
  if (absl::StrContains(" caller kwargs self varargs ", name)) {
    Fail(node, absl::StrCat("'", node.text, "' is not understood"));
  }
  return Value();
}

Value Renderer::ListOf(const Node& node, Scope& scope) {
  List list;
  for (const NodePtr& item : node.parts) list.push_back(Evaluate(*item, scope));
  return MakeList(std::move(list));
}

Value Renderer::DictOf(const Node& node, Scope& scope) {
  Map map;
  for (size_t i = 0; i + 1 < node.parts.size(); i += 2) {
    const Value key = Evaluate(*node.parts[i], scope);
    // Keys do not know who has written them.
    if (!key.Is<Text>() || !key.As<Text>()->OfTemplate()) {
      Fail(node, "a key that is not the template's own is not understood");
      break;
    }
    map.Set(key.As<Text>()->bytes, Evaluate(*node.parts[i + 1], scope));
  }
  return MakeMap(std::move(map));
}

Value Renderer::SliceOf(const Node& node, Scope& scope) {
  const Value whole = Evaluate(*node.parts[0], scope);
  List bounds;
  for (size_t i = 1; i < 4; ++i) {
    bounds.push_back(node.parts[i] ? Evaluate(*node.parts[i], scope)
                                   : Value(None()));
  }
  return Taken(node, Slice(whole, bounds[0], bounds[1], bounds[2]));
}

Arguments Renderer::ArgumentsOf(const Node& node, Scope& scope) {
  Arguments arguments;
  for (const Node::Argument& argument : node.arguments) {
    Value value = Evaluate(*argument.value, scope);
    if (!argument.name.empty()) {
      arguments.names.emplace_back(argument.name, std::move(value));
    } else if (arguments.names.empty()) {
      arguments.places.push_back(std::move(value));
    } else {
      Fail(node, "an argument after one with a name is not understood");
    }
  }
  return arguments;
}

Value Renderer::Call(const Node& node, Scope& scope) {
  const Node& callee = *node.parts[0];
  if (callee.kind == Kind::kMember) {
    const Value owner = Evaluate(*callee.parts[0], scope);
    return Taken(node, Method(callee.text, owner, ArgumentsOf(node, scope)));
  }
  if (callee.kind != Kind::kName) {
    Fail(node, "a call of this is not understood");
    return Value();
  }
  Arguments arguments = ArgumentsOf(node, scope);
  if (!status_.ok()) return Value();
  const Value* found = Look(callee.text, scope);
  if (found == nullptr) {
    return Taken(node, Function(callee.text, arguments, now_));
  }
  const Node* const* macro = found->As<const Node*>();
  if (macro == nullptr || *macro == kFunction) {
    Fail(node, absl::StrCat("'", callee.text, "' is no macro"));
    return Value();
  }
  return CallMacro(node, **macro, arguments);
}

Value Renderer::CallMacro(const Node& call, const Node& macro,
                          const Arguments& arguments) {
  // Macros see the template's variables, and none of who calls.
  Scope scope{&root_};
  size_t used = arguments.places.size();
  for (size_t i = 0; i < macro.arguments.size(); ++i) {
    const Node::Argument& parameter = macro.arguments[i];
    const Value* given = arguments.At(i, parameter.name);
    if (i >= arguments.places.size() && given != nullptr) ++used;
    if (given != nullptr) {
      scope.variables[parameter.name] = *given;
    } else if (parameter.value) {
      scope.variables[parameter.name] = Evaluate(*parameter.value, scope);
    } else {
      scope.variables[parameter.name] = Value();
    }
  }
  if (arguments.places.size() > macro.arguments.size() ||
      used != arguments.places.size() + arguments.names.size()) {
    Fail(call, absl::StrCat("the macro '", macro.text,
                            "' does not take these arguments"));
  }
  Text written;
  Body(macro.body, scope, written);
  return written;
}

}  // namespace

absl::StatusOr<Template> Template::Parse(absl::string_view source) {
  auto root = jinja::Parse(source);
  if (!root.ok()) return root.status();
  return Template(*std::move(root));
}

absl::StatusOr<Text> Template::Render(Variables variables,
                                      absl::Time now) const {
  return Renderer(std::move(variables), now).Run(*root_);
}

}  // namespace steadystate::jinja
