// Goal: templates write what Jinja writes of them, or say what they use that is
// not understood. Method: small templates, with what Jinja made of them in the
// environment of transformers.
#include "client/jinja/template.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::jinja::template_test {
namespace {

using testing::HasSubstr;

const absl::Time kNow =
    absl::FromCivil(absl::CivilSecond(2026, 2, 3, 4, 5), absl::LocalTimeZone());

Value Message(absl::string_view role, absl::string_view content) {
  Map message;
  message.Set("role", MakeText(role));
  message.Set("content", MakeText(content));
  return MakeMap(message);
}

absl::StatusOr<Text> Render(absl::string_view source) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render({{"messages", MakeList({Message("user", " Hi "),
                                                Message("assistant", "A")})},
                         {"add_generation_prompt", true},
                         {"tools", None()},
                         {"bos_token", MakeText("<s>")},
                         {"eos_token", MakeText("</s>")}},
                        kNow);
}

std::string Written(absl::string_view source) {
  const auto text = Render(source);
  return text.ok() ? text->bytes : text.status().ToString();
}

std::string RefusalOf(absl::string_view source) {
  const auto text = Render(source);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kUnimplemented) << source;
  return std::string(text.status().message());
}

struct Case {
  const char* source;
  const char* written;
};

const Case kWritten[] = {
    {"a\n  {% if true %}\n  x\n  {% endif %}\n b\n", "a\n  x\n b"},
    {"{{ 1 }}   {% if true %}  y{% endif %}\n\nz\n\n", "1     y\nz\n"},
    {"  {%- if 1 %} q {%- endif -%}  \n r", " qr"},
    {"  {%+ if 1 %} q {%+ endif +%}\n r", "   q \n r"},
    {"{# c #}\n  {# d -#}   \n x {#- e #}\n y", "x y"},
    {"{{ 'a' 'b' ~ 1 ~ none ~ true }}", "ab1NoneTrue"},
    {"{{ '\\n\\t\\d\\\\ \\'' }}", "\n\t\\d\\ '"},
    {"{{ \"it's\" }}", "it's"},
    {"{{ messages[::-1][0].role }}", "assistant"},
    {"{{ messages[-1]['content'][::-1] }}", "A"},
    {"{{ messages[0].content[1:3] }}", "Hi"},
    {"{{ messages[5] is defined }}", "False"},
    {"{{ 'a' if false }}", ""},
    {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }}", "3 -4 2 -2"},
    {"{% for i in range(5) if i != 2 %}{{ i }}{{ loop.index }}{{ loop.length "
     "}}{{ loop.last }}{% else %}no{% endfor %}",
     "014False124False334False444True"},
    {"{% for i in range(0) %}x{% else %}no{% endfor %}", "no"},
    {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i "
     "== 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
     "02"},
    {"{% set x = 1 %}{% for i in range(2) %}{% set x = x + 1 %}{{ x }}{% "
     "endfor %}{{ x }}",
     "221"},
    {"{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a "
     "* 2 %}{% endfor %}{{ ns.a }}{{ ns.b }}",
     "8"},
    {"{% macro m(a, b='q', c=none) %}{{ a }}{{ b }}{{ c }}{{ z }}{% endmacro "
     "%}{% set z = 5 %}{{ m(1) }}{{ m(1, c=3) }}{{ m('x', 'y', 'z') }}",
     "1qNone51q35xyz5"},
    {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}", ""},
    {"{% set x %} blk {{ 1 }} {% endset %}[{{ x | trim }}]", "[blk 1]"},
    {"{{ '  a ' | trim }}|{{ 'aXbX'.split('X') | length }}|{{ "
     "'xxaxx'.strip('x') }}|{{ 'abab'.replace('a','c') }}",
     "a|3|a|cbcb"},
    {"{{ undefined_thing | default('d') }}{{ '' | default('d') }}{{ '' | "
     "default('d', true) }}{{ none | default('z') }}",
     "ddNone"},
    {"{{ 'a' in 'abc' }}{{ 'a' not in ['a','b'] }}{{ 'k' in {'k': 1} }}{{ "
     "'x' in undefd }}",
     "TrueFalseTrueFalse"},
    {"{{ 1 < 2 }}{{ 'a' < 'b' }}{{ 2 >= 2 }}", "TrueTrueTrue"},
    {"{{ not true and false or true }}", "True"},
    {"{{ (messages | length - 1) }}", "1"},
    {"{{ (messages|first).role }}{{ (messages|last).role }}", "userassistant"},
    {"{{ [1,2,3] | join(', ') }}", "1, 2, 3"},
    {"{{ {'a': 1}['a'] }}{{ {'a': 1}.a }}{{ {'a': 1}.get('b') }}{{ {'a': "
     "1}.get('b', 2) }}",
     "11None2"},
    {"{{ messages[0].get('tool_calls') is none }}", "True"},
    {"{{ x is not defined or x }}", "True"},
    {"{{ 3 is number }}{{ true is number }}{{ 'a' is iterable }}{{ undefd is "
     "iterable }}{{ none is iterable }}{{ [] is sequence }}{{ {} is mapping "
     "}}{{ undefd is mapping }}",
     "TrueTrueTrueTrueFalseTrueTrueFalse"},
    {"{% for m in messages %}{{ loop.previtem.role if loop.previtem is "
     "defined }}{{ loop.nextitem is defined }}{% endfor %}",
     "TrueuserFalse"},
    {"{% for k, v in [[1,2],[3,4]] %}{{ k }}{{ v }}{% endfor %}", "1234"},
    {"{{ 'a' ~ 1 }}", "a1"},
    {"{{ 'a' is eq 'a' }}{{ 'a' is equalto('b') }}{{ 'a' is in ['a'] }}",
     "TrueFalseTrue"},
    {"{% if x is not none and 'a' is string %}q{% endif %}", "q"},
    {"{{- '  a' -}}   \n\n  b", "  ab"},
    {"{% if true -%}  \n a {%- endif %}\n\n b", "a\n b"},
    {"x {% if true %}\n y\n{% endif %} z\n", "x  y\n z"},
    {"{{ '{{' }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}", "{{%}1"},
    {"{{ messages[0].content.startswith(' Hi') }}{{ "
     "messages[0].content.endswith('x') }}",
     "TrueFalse"},
    {"{{ -1 | string }}{{ - 3 + 4 }}", "-11"},
    {"{{ 1 if true else 2 if false else 3 }}", "1"},
    {"{{ 'a\nb' }}", "a\nb"},
    {"{{ [1,2,][0] }}{{ (1,)[0] }}{{ ()|length }}", "110"},
    {"{% for x in messages %}{{ x.role }}{{ ', ' if not loop.last }}{% "
     "endfor %}",
     "user, assistant"},
    {"{%- for m in messages -%}\n  {%- if m.role == 'user' %}\n U: {{ "
     "m.content }}\n  {%- else %}\n    O: {{ m.content }}\n  {% endif "
     "%}\n{%- endfor %}\n",
     " U:  Hi     O: A\n"},
    {"{% generation %}\nx{% endgeneration %}\n", "x"},
    {"{% if loop is defined %}l{% endif %}", ""},
    {"{% macro m() %}{{ y }}{% endmacro %}{% for i in [1] %}{% set y = 9 "
     "%}{{ m() }}{% endfor %}",
     ""},
    {"{% if false %}{% set q = 1 %}{% endif %}{{ q }}|", "|"},
    {"{% for i in [1,2] %}{{ q }}{% set q = i %}{{ q }}{% endfor %}", "12"},
    {"{{ true }}{{ True }}{{ None }}{{ none }}", "TrueTrueNoneNone"},
    {"{{ dict(a=1).a }}", "1"},
    {"{{ {'items': 2}['items'] }}", "2"},
    {"{{ '' and 'x' }}{{ 'a' or 'x' }}", "a"},
    {"{{ messages[1:][0].role }}{{ messages[:-1]|length }}{{ "
     "messages[3:1]|length }}{{ messages[-2:]|length }}",
     "assistant102"},
    {"a\r\nb{% if 1 %}\r\nc{% endif %}\r\n", "a\nbc"},
    {"{{ ' x '.lstrip() ~ '|' ~ ' x '.rstrip() }}|", "x | x|"},
    {"{% set x = messages[0].content.split(' ') %}{{ x[1] }}", "Hi"},
    {"{{ 'a'|default }}{{ u|default }}|", "a|"},
    {"{{ [[1,2],[3]]|length }}", "2"},
    {"{{ 'a' not in 'b' and not 'c' in 'd' }}", "True"},
    {"{%if true%}x{%endif%}{%-   set y=1%}{{y}}", "x1"},
    {"{{ 'abc'[-1] }}{{ 'abc'[7] }}|", "c|"},
    {"{% set role = 'x' if m is defined else 'y' %}{{ role }}", "y"},
    {"{{ 'x' is string and 'y' is string }}", "True"},
    {"{% for k in {'a':1,'b':2} %}{{ k }}{% endfor %}", "ab"},
    {"{% set ns = namespace() %}{% set ns.l = [1] %}{% set ns.l = ns.l + [2] "
     "%}{{ ns.l|length }}",
     "2"},
    {"{{ loop }}", ""},
    {"{{ messages[0].role.upper() }}", "USER"},
    {"{{ ' a ' | trim | upper }}", "A"},
    {"{{ ('a' + 'b')|upper }}{{ 'a' + 'b'|upper }}{{ 'a' ~ 'b'|upper }}",
     "ABaBaB"},
    {"{{ 5 - 2 - 1 }}", "2"},
    {"{{ bos_token }}{{ eos_token }}", "<s></s>"},
    {"{{ 'x' | replace('x','y') }}{{ 5 | replace('5', 'a') }}", "ya"},
    {"{{ 'a' | string | length }}", "1"},
    {"{{ undefd | length }}{{ undefd | trim }}|{{ undefd | list | length "
     "}}{{ undefd | first }}{{ undefd|join(',') }}",
     "0|0"},
    {"{{ false | default(true) }}{{ undefd | default(true) }}", "FalseTrue"},
    {"{{ enable_thinking is defined and enable_thinking is false }}", "False"},
    {"{{ not enable_thinking is defined }}", "True"},
    {"{% if not x is defined %}{% set x = true %}{% endif %}{{ x }}", "True"},
};

TEST(TemplateTest, WritesWhatJinjaWrites) {
  for (const Case& test : kWritten) {
    EXPECT_EQ(Written(test.source), test.written) << test.source;
  }
}

TEST(TemplateTest, LettersChangeTheirCase) {
  EXPECT_EQ(Written("{{ 'aBC d' | capitalize }}{{ 'Q'.lower() }}"), "Abc dq");
  EXPECT_EQ(Written("{{ messages[0].role.capitalize() }}"), "User");
}

TEST(TemplateTest, BracesThatAreNoTagsAreText) {
  EXPECT_EQ(Written("{"), "{");
  EXPECT_EQ(Written("{a}{ {{ 1 }}}{"), "{a}{ 1}{");
  EXPECT_EQ(Written(""), "");
}

TEST(TemplateTest, LettersBeyondAsciiAreCharacters) {
  EXPECT_EQ(Written("{{ '\xc3\xbc' | length }}{{ 'h\xc3\xbc'[::-1] }}"),
            "1\xc3\xbch");
  EXPECT_EQ(Written("{{ '\xe3\x80\x80 a\xc2\xa0' | trim }}"), "a");
  EXPECT_THAT(RefusalOf("{{ '\xc3\xbc' | upper }}"), HasSubstr("ASCII"));
}

TEST(TemplateTest, KnowsTheTime) {
  EXPECT_EQ(Written("{{ strftime_now('%d %B %Y, %b %H:%M') }}"),
            "03 February 2026, Feb 04:05");
  EXPECT_EQ(Written("{{ strftime_now is defined }}"), "True");
  EXPECT_THAT(RefusalOf("{{ strftime_now('%E') }}"), HasSubstr("'%E'"));
}

TEST(TemplateTest, RefusalsOfTheTemplateAreItsOwn) {
  const auto text = Render("{{ raise_exception('No ' ~ 1) }}");
  EXPECT_EQ(text.status(), absl::InvalidArgumentError("No 1"));
}

TEST(TemplateTest, WhatIsNotUnderstoodIsNamedWithItsLine) {
  const Case kCases[] = {
      {"\n\n{{ x | foo }}", "line 3: the filter 'foo'"},
      {"{{ messages | tojson }}", "'tojson' of a list"},
      {"{{ 'a' is foo }}", "the test 'foo'"},
      {"{{ 'a'.format() }}", "the method 'format' of a string"},
      {"{{ foo() }}", "the function 'foo'"},
      {"{% set f = range %}{{ f(2) }}", "'f' is no macro"},
      {"{{ range }}", "to write a function"},
      {"{% include 'x' %}", "{% include %}"},
      {"{% raw %}x{% endraw %}", "{% raw %}"},
      {"{% break %}", "{% break %}"},
      {"{{ 1 < 2 < 3 }}", "a chain of comparisons"},
      {"{{ 1.5 }}", "a number with a point"},
      {"{{ 12345678901 }}", "too large"},
      {"{{ 03 }}", "begins with 0"},
      {"{{ '\\x41' }}", "the escape '\\x'"},
      {"{{ 'a' + 1 }}", "'+' of a string and a number"},
      {"{{ 'a' + nothing }}", "'+' of a string and an undefined value"},
      {"{{ nothing.x }}", "'x' of an undefined value"},
      {"{{ (1, 2) == [1, 2] }}", "'==' of a list and a list"},
      {"{{ messages }}", "to write a list"},
      {"{{ messages[0]['items'] }}", "'items' of a dictionary"},
      {"{{ loop.cycle('a') if false }}{% for i in [1] %}{{ loop.depth }}"
       "{% endfor %}",
       "'depth' of a dictionary"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "the macro 'm'"},
      {"{% for i in [1] %}{% macro m() %}{% endmacro %}{% endfor %}",
       "a macro in a loop"},
      {"{% set messages.x = 1 %}", "'messages' is no namespace"},
      {"{% set n = namespace() %}{% set n.n = n %}", "in a namespace"},
      {"{% if true %}", "a block does not end"},
      {"{{ 1", "a tag does not end"},
      {"{# 1", "a comment does not end"},
      {"{{ 'a }}", "a string does not end"},
      {"{{ 1 $ 2 }}", "'$'"},
  };
  for (const Case& test : kCases) {
    EXPECT_THAT(RefusalOf(test.source), HasSubstr(test.written)) << test.source;
  }
  // What is not reached does not matter.
  EXPECT_EQ(Written("{% if tools %}{{ tools | tojson }}{% endif %}"), "");
}

// What loses sight of who has written it is not done with others' words.
TEST(TemplateTest, WordsOfOthersAreNoKeysAndNoFormats) {
  for (const char* source : {"{{ {w: 1} | first }}", "{{ strftime_now(w) }}"}) {
    const auto parsed = Template::Parse(source);
    ASSERT_TRUE(parsed.ok());
    EXPECT_TRUE(parsed->Render({{"w", Text("a")}}, kNow).ok()) << source;
    EXPECT_FALSE(parsed->Render({{"w", Text("a", 1)}}, kNow).ok()) << source;
  }
}

TEST(TemplateTest, WorkAndDepthAreBounded) {
  EXPECT_THAT(RefusalOf("{% set n = namespace(x='aaaaaaaa') %}"
                        "{% for i in range(99) %}{% set n.x = n.x + n.x %}"
                        "{% endfor %}"),
              HasSubstr("takes too long"));
  EXPECT_THAT(RefusalOf("{% for i in range(99999) %}{% for j in range(99999) %}"
                        "{% endfor %}{% endfor %}"),
              HasSubstr("takes too long"));
  EXPECT_THAT(RefusalOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("too deep"));
  EXPECT_THAT(RefusalOf(absl::StrCat("{{ ", std::string(10000, '('), "1",
                                     std::string(10000, ')'), " }}")),
              HasSubstr("too deep"));
  std::string sum = "{{ 1";
  std::string choices = "{% if 0 %}";
  for (int i = 0; i < 10000; ++i) {
    sum += "+1";
    choices += "{% elif 0 %}";
  }
  EXPECT_THAT(RefusalOf(sum + " }}"), HasSubstr("too deep"));
  EXPECT_THAT(RefusalOf(choices + "{% endif %}"), HasSubstr("too deep"));
  EXPECT_THAT(RefusalOf("{{ range(999999999) }}"), HasSubstr("range"));
}

}  // namespace
}  // namespace steadystate::jinja::template_test
