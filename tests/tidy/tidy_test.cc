// Goal: the rules of the house that a machine can check. Method: walk the tree
// and read every file of our own as text.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::tidy_test {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

struct SourceFile {
  std::string path;  // from the root, "server/base/clock.h"
  std::vector<std::string> lines;
};

bool HasAnySuffix(absl::string_view path,
                  std::initializer_list<absl::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [path](absl::string_view suffix) {
                       return absl::EndsWith(path, suffix);
                     });
}

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return absl::StrSplit(text, '\n');
}

bool IsBuildFile(absl::string_view path) {
  return HasAnySuffix(path, {"CMakeLists.txt", ".cmake"});
}

bool IsSource(absl::string_view path) {
  return HasAnySuffix(path, {".h", ".cc", ".proto"});
}

std::vector<SourceFile> ReadFiles(bool (*wanted)(absl::string_view path)) {
  std::vector<SourceFile> files;
  const fs::path root = STEADYSTATE_SOURCE_DIR;
  for (const char* folder :
       {"proto", "kernels", "server", "client", "deploy", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string path = fs::relative(entry.path(), root).string();
      if (entry.is_regular_file() && wanted(path)) {
        files.push_back({path, ReadLines(entry.path())});
      }
    }
  }
  return files;
}

const std::vector<SourceFile>& Sources() {
  static const auto* const files = new std::vector(ReadFiles(IsSource));
  return *files;
}

// Those that are built into programs.
bool IsShipped(absl::string_view path) {
  return absl::StartsWith(path, "server/") ||
         absl::StartsWith(path, "kernels/") ||
         absl::StartsWith(path, "client/");
}

bool Exists(const std::string& path) {
  return fs::exists(fs::path(STEADYSTATE_SOURCE_DIR) / path);
}

// The lines of a list beside this file, of two words each.
struct ListedPair {
  std::string where;  // "tests/tidy/tested_by.txt:2"
  std::string first;
  std::string second;
};

std::vector<ListedPair> ReadList(const std::string& name) {
  const std::string path = absl::StrCat("tests/tidy/", name);
  std::vector<ListedPair> pairs;
  size_t number = 0;
  for (const std::string& line :
       ReadLines(fs::path(STEADYSTATE_SOURCE_DIR) / path)) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const std::string where = absl::StrCat(path, ":", number);
    EXPECT_EQ(words.size(), 2) << where << " has not two words: " << line;
    if (words.size() == 2) pairs.push_back({where, words[0], words[1]});
  }
  return pairs;
}

// The file of an #include "..." line, or nothing.
std::optional<std::string> QuotedInclude(absl::string_view line) {
  constexpr absl::string_view kStart = "#include \"";
  if (!absl::StartsWith(line, kStart)) return std::nullopt;
  line.remove_prefix(kStart.size());
  return std::string(line.substr(0, line.find('"')));
}

struct Layer {
  std::string folder;
  std::vector<std::string> may_include;  // beginnings of include paths
};

// Third-party headers are listed where only some layers may have them; what
// begins with none of kGuarded is free.
const std::vector<std::string> kGuarded = {
    "kernels/", "server/", "client/",     "steadystate/",
    "google/",  "grpc",    "prometheus/", "dnnl",
    "oneapi/",  "hwy/",    "tests/",      "absl/synchronization/",
    "rocksdb/",
};

const std::vector<Layer> kLayers = {
    {"kernels/linear/", {"kernels/", "dnnl", "oneapi/", "hwy/"}},
    {"kernels/", {"kernels/", "hwy/"}},
    {"server/base/", {"server/base/"}},
    {"server/metrics/", {"server/metrics/", "server/base/", "prometheus/"}},
    {"server/text/", {"server/text/", "server/base/"}},
    {"server/checkpoint/",
     {"server/checkpoint/", "server/base/", "kernels/dtype.h",
      "kernels/pointwise/activation.h"}},
    {"server/model/",
     {"server/model/", "server/checkpoint/", "server/text/", "server/base/",
      "kernels/"}},
    {"server/session/",
     {"server/session/", "server/model/", "server/base/", "server/metrics/"}},
    {"server/store/",
     {"server/store/", "server/session/", "server/base/", "rocksdb/"}},
    {"server/engine/",
     {"server/engine/", "server/session/", "server/model/", "server/text/",
      "server/metrics/", "server/base/", "kernels/thread_pool.h",
      "kernels/pointwise/"}},
    {"server/rpc/",
     {"server/rpc/", "server/engine/", "server/session/", "server/model/",
      "server/text/", "server/metrics/", "server/base/", "steadystate/v1/",
      "google/", "grpc"}},
    // The mains say how Abseil's mutexes behave, which gRPC uses.
    {"server/main.cc",
     {"server/", "kernels/dtype.h", "absl/synchronization/mutex.h"}},
    {"client/cli/main.cc", {"client/cli/", "absl/synchronization/mutex.h"}},
    {"client/cli/",
     {"client/cli/", "client/jinja/", "client/load/", "client/options/",
      "client/mutex.h", "steadystate/", "google/", "grpc"}},
    {"client/jinja/", {"client/jinja/"}},
    // The server's command line is read with the same code.
    {"client/options/", {"client/options/"}},
    {"server/flag", {"server/", "kernels/dtype.h", "client/options/"}},
    {"client/load/",
     {"client/load/", "client/mutex.h", "steadystate/", "google/"}},
    {"client/steadystate/",
     {"client/mutex.h", "steadystate/", "google/", "grpc"}},
    {"client/", {"client/"}},
};

bool BeginsWithAny(absl::string_view path,
                   const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [path](const std::string& start) {
                       return absl::StartsWith(path, start);
                     });
}

TEST(TidyTest, IncludesPointDownTheLayersOnly) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    const auto layer = std::find_if(
        kLayers.begin(), kLayers.end(), [&file](const Layer& candidate) {
          return absl::StartsWith(file.path, candidate.folder);
        });
    if (layer == kLayers.end()) continue;
    for (const std::string& line : file.lines) {
      const auto include = QuotedInclude(line);
      if (include.has_value() && BeginsWithAny(*include, kGuarded) &&
          !BeginsWithAny(*include, layer->may_include)) {
        wrong.push_back(absl::StrCat(file.path, " includes ", *include));
      }
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

// The floors of server/model, the ground floor first: beginnings of paths. A
// file includes files of its own floor and of those below.
const std::vector<std::vector<std::string>> kModelFloors = {
    {"sampler", "scratch_plan", "slot_handles", "state_layout", "state_norms",
     "workspace", "norm", "weight_names", "attention_options"},
    {"mixer.h"},
    {"mixer_builder.h"},
    {"family.h"},
    {"parts/"},
    {"mixers/"},
    {"registry", "generation_config"},
    {"layer"},
    {"decoder"},
    {"model."},
};

// The floor of a file of server/model; kModelFloors.size() if it has none.
size_t ModelFloor(absl::string_view path) {
  absl::ConsumePrefix(&path, "server/model/");
  const auto floor = std::find_if(
      kModelFloors.begin(), kModelFloors.end(),
      [path](const auto& files) { return BeginsWithAny(path, files); });
  return static_cast<size_t>(floor - kModelFloors.begin());
}

TEST(TidyTest, IncludesWithinTheModelPointDownItsFloors) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    if (!absl::StartsWith(file.path, "server/model/")) continue;
    const size_t floor = ModelFloor(file.path);
    if (floor == kModelFloors.size()) {
      wrong.push_back(absl::StrCat(file.path, " stands on no floor"));
    }
    for (const std::string& line : file.lines) {
      const auto include = QuotedInclude(line);
      if (include.has_value() && absl::StartsWith(*include, "server/model/") &&
          ModelFloor(*include) > floor) {
        wrong.push_back(absl::StrCat(file.path, " includes ", *include));
      }
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

// The client library's headers are installed, and nothing else is.
TEST(TidyTest, PublishedHeadersIncludeOnlyWhatIsPublished) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    if (!absl::StartsWith(file.path, "client/steadystate/") ||
        !absl::EndsWith(file.path, ".h")) {
      continue;
    }
    for (const std::string& line : file.lines) {
      const auto include = QuotedInclude(line);
      if (include.has_value() && absl::StartsWith(*include, "client/")) {
        wrong.push_back(absl::StrCat(file.path, " includes ", *include));
      }
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(TidyTest, OneFileKnowsOneDnn) {
  std::set<std::string> includers;
  for (const SourceFile& file : Sources()) {
    for (const std::string& line : file.lines) {
      if (absl::StartsWith(line, "#include") &&
          (absl::StrContains(line, "dnnl") ||
           absl::StrContains(line, "oneapi/"))) {
        includers.insert(file.path);
      }
    }
  }
  EXPECT_THAT(includers, testing::ElementsAre("kernels/linear/tile_matmul.cc"));
}

TEST(TidyTest, FilesAreShort) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    if (absl::EndsWith(file.path, ".proto")) continue;
    size_t bound = absl::EndsWith(file.path, ".h") ? 250 : 500;
    if (absl::StartsWith(file.path, "tests/")) bound = 800;
    if (file.lines.size() > bound) {
      wrong.push_back(absl::StrCat(file.path, " has ", file.lines.size(),
                                   " lines, at most ", bound));
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

// In formatted sources a function's body ends at a brace in the first column;
// so do types and namespaces, which are told by how they begin.
TEST(TidyTest, FunctionsAreShort) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    if (absl::EndsWith(file.path, ".proto")) continue;
    const size_t bound = absl::StartsWith(file.path, "tests/") ? 80 : 60;
    size_t start = kNone;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      if (!line.empty() &&
          (absl::ascii_isalpha(static_cast<unsigned char>(line[0])) ||
           line[0] == '[')) {
        start = i;
        for (const char* word : {"namespace", "class", "struct", "enum",
                                 "const", "static const", "union", "extern"}) {
          if (absl::StartsWith(line, word) && !absl::StrContains(line, "(")) {
            start = kNone;
          }
        }
      }
      if (line != "}" || start == kNone) continue;
      if (i - start + 1 > bound) {
        wrong.push_back(absl::StrCat(file.path, ":", start + 1, " is ",
                                     i - start + 1, " lines long, at most ",
                                     bound));
      }
      start = kNone;
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(TidyTest, LinesAreNarrowAsciiWithoutTrailingBlanks) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const std::string where = absl::StrCat(file.path, ":", i + 1);
      if (line.size() > 80 && !absl::StrContains(line, "://") &&
          !absl::StartsWith(line, "#include")) {
        wrong.push_back(where + " is wider than 80 columns");
      }
      if (!line.empty() && line.back() == ' ') {
        wrong.push_back(where + " ends in a blank");
      }
      if (std::any_of(line.begin(), line.end(), [](char c) {
            return !absl::ascii_isascii(static_cast<unsigned char>(c)) ||
                   c == '\t' || c == '\r';
          })) {
        wrong.push_back(where + " has a tab or a byte beyond ASCII");
      }
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(TidyTest, BuildFilesAreNarrow) {
  std::vector<SourceFile> files = ReadFiles(IsBuildFile);
  files.push_back(
      {"CMakeLists.txt",
       ReadLines(fs::path(STEADYSTATE_SOURCE_DIR) / "CMakeLists.txt")});
  std::vector<std::string> wrong;
  for (const SourceFile& file : files) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (file.lines[i].size() > 80) {
        wrong.push_back(
            absl::StrCat(file.path, ":", i + 1, " is wider than 80 columns"));
      }
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

// "tests/server/base/json_test.cc" of "server/base/json.cc"; the client library
// and the command line have theirs in one folder.
std::string TestOf(absl::string_view source) {
  const absl::string_view stem = source.substr(0, source.size() - 3);
  return absl::StrCat(
      "tests/",
      absl::StrReplaceAll(stem, {{"client/steadystate/", "client/"},
                                 {"client/cli/", "client/"}}),
      "_test.cc");
}

TEST(TidyTest, EverySourceHasATestOfItsNameOrASuiteThatCoversIt) {
  const char* const kList = "tests/tidy/tested_by.txt";
  std::vector<std::string> wrong;
  std::set<std::string> listed;
  for (const ListedPair& pair : ReadList("tested_by.txt")) {
    if (!listed.insert(pair.first).second) {
      wrong.push_back(absl::StrCat(pair.where, ": ", pair.first,
                                   " is there twice: delete one line"));
    }
    if (!Exists(pair.first)) {
      wrong.push_back(absl::StrCat(pair.where, ": ", pair.first,
                                   " is gone: delete the line, or name the "
                                   "file that its code is in now"));
    } else if (Exists(TestOf(pair.first))) {
      wrong.push_back(absl::StrCat(pair.where, ": ", pair.first, " has ",
                                   TestOf(pair.first), ": delete the line"));
    }
    if (!absl::StartsWith(pair.second, "tests/") || !Exists(pair.second)) {
      wrong.push_back(absl::StrCat(pair.where, ": there is no ", pair.second,
                                   ": name the suite that covers ",
                                   pair.first));
    }
  }
  for (const SourceFile& file : Sources()) {
    if (absl::EndsWith(file.path, ".cc") && IsShipped(file.path) &&
        listed.count(file.path) == 0 && !Exists(TestOf(file.path))) {
      wrong.push_back(absl::StrCat(file.path, " has no ", TestOf(file.path),
                                   ": write it, or add the line '", file.path,
                                   " tests/...' to ", kList,
                                   ", which names the suite that covers it"));
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

// The code of a file: less comments and the preprocessor's lines.
std::string CodeOf(const SourceFile& file) {
  std::string code;
  for (absl::string_view line : file.lines) {
    if (absl::StartsWith(line, "#")) continue;
    absl::StrAppend(&code, line.substr(0, line.find("//")), "\n");
  }
  return code;
}

struct ParameterList {
  std::string function;
  size_t count = 0;
};

// What stands in parentheses after a name, counted by its outermost commas.
std::vector<ParameterList> ParameterLists(const std::string& code) {
  const auto in_name = [&code](size_t at) {
    const auto c = static_cast<unsigned char>(code[at]);
    return absl::ascii_isalnum(c) || c == '_';
  };
  std::vector<ParameterList> lists;
  for (size_t open = code.find('('); open != std::string::npos;
       open = code.find('(', open + 1)) {
    size_t start = open;
    while (start > 0 && in_name(start - 1)) --start;
    if (start == open) continue;
    ParameterList list{.function = code.substr(start, open - start)};
    int depth = 0;
    bool empty = true;
    for (size_t i = open + 1; i < code.size() && depth >= 0; ++i) {
      const char c = code[i];
      const bool arrow = c == '>' && code[i - 1] == '-';
      if (absl::StrContains("([{<", c)) ++depth;
      if (absl::StrContains(")]}>", c) && !arrow) --depth;
      if (c == ',' && depth == 0) ++list.count;
      if (depth >= 0 && !absl::ascii_isspace(static_cast<unsigned char>(c))) {
        empty = false;
      }
    }
    if (!empty) ++list.count;
    lists.push_back(std::move(list));
  }
  return lists;
}

TEST(TidyTest, ParameterListsAreCounted) {
  const auto counts = [](const std::string& code) {
    std::vector<size_t> found;
    for (const ParameterList& list : ParameterLists(code)) {
      found.push_back(list.count);
    }
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(counts("void Take();"), ElementsAre(0));
  EXPECT_THAT(counts("int Take(std::map<int, int> map, int more = 1);"),
              ElementsAre(2));
  EXPECT_THAT(counts("void Take(const std::function<void(int, int)>& call,\n"
                     "          int (&three)[3], int last) const {"),
              ElementsAre(3, 2));
}

TEST(TidyTest, FunctionsHaveFewParameters) {
  constexpr size_t kMost = 8;
  std::vector<std::string> wrong;
  std::map<std::pair<std::string, std::string>, std::string> unused;
  for (const ListedPair& pair : ReadList("many_parameters.txt")) {
    unused[{pair.first, pair.second}] = pair.where;
  }
  const auto listed = unused;
  for (const SourceFile& file : Sources()) {
    if (!absl::EndsWith(file.path, ".h") || !IsShipped(file.path)) continue;
    for (const ParameterList& list : ParameterLists(CodeOf(file))) {
      if (list.count <= kMost) continue;
      unused.erase({file.path, list.function});
      if (listed.count({file.path, list.function}) > 0) continue;
      wrong.push_back(
          absl::StrCat(file.path, ": ", list.function, " has ", list.count,
                       " parameters, at most ", kMost,
                       ": gather those that belong together in a struct"));
    }
  }
  for (const auto& [function, where] : unused) {
    wrong.push_back(absl::StrCat(where, ": ", function.second, " of ",
                                 function.first, " has no more than ", kMost,
                                 " parameters: delete the line"));
  }
  EXPECT_THAT(wrong, IsEmpty());
}

// Several test files are one source to the compiler: what two of them call by
// one name must not meet.
TEST(TidyTest, TestFilesHaveNamespacesOfTheirOwn) {
  for (const SourceFile& file : Sources()) {
    if (!absl::StartsWith(file.path, "tests/") ||
        !absl::EndsWith(file.path, "_test.cc")) {
      continue;
    }
    const std::string end =
        absl::StrCat("::", fs::path(file.path).stem().string(), " {");
    const auto opens = [&end](const std::string& line) {
      return absl::EndsWith(line, end);
    };
    EXPECT_TRUE(std::any_of(file.lines.begin(), file.lines.end(), opens))
        << file.path << ": no line \"namespace steadystate" << end << "\"";
  }
}

TEST(TidyTest, HeadersHaveTheGuardOfTheirPath) {
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    if (!absl::EndsWith(file.path, ".h") ||
        absl::EndsWith(file.path, "-inl.h")) {
      continue;
    }
    std::string guard = absl::StrCat("STEADYSTATE_", file.path, "_");
    for (char& c : guard) {
      c = absl::ascii_isalnum(static_cast<unsigned char>(c))
              ? absl::ascii_toupper(static_cast<unsigned char>(c))
              : '_';
    }
    const auto has = [&file](const std::string& line) {
      return std::find(file.lines.begin(), file.lines.end(), line) !=
             file.lines.end();
    };
    if (!has("#ifndef " + guard) || !has("#define " + guard)) {
      wrong.push_back(absl::StrCat(file.path, " lacks the guard ", guard));
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(TidyTest, NothingThatTheHouseDoesWithout) {
  const std::map<std::string, std::string> kBanned = {
      {"absl::Mutex", "server/base/mutex.h, which ThreadSanitizer understands"},
      {"std::rand(", "a seeded generator"},
      {"sleep_for(", "waiting on a condition"},
      {"using namespace ", "names in full"},
      {"#pragma once", "an include guard"},
      {"-march=native", "run-time dispatch"},
  };
  std::vector<std::string> wrong;
  for (const SourceFile& file : Sources()) {
    if (file.path == "tests/tidy/tidy_test.cc") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const auto& [banned, instead] : kBanned) {
        if (absl::StrContains(file.lines[i], banned)) {
          wrong.push_back(absl::StrCat(file.path, ":", i + 1, " has ", banned,
                                       ": use ", instead));
        }
      }
    }
  }
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(TidyTest, TheTopLevelIsFixed) {
  const std::set<std::string> kNames = {
      "proto",     "server",  "client",         "kernels",
      "deploy",    "tests",   "CMakeLists.txt", "Dockerfile",
      "README.md", "LICENSE", "build",          "CMakePresets.json"};
  std::vector<std::string> wrong;
  for (const auto& entry : fs::directory_iterator(STEADYSTATE_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && kNames.count(name) == 0) wrong.push_back(name);
  }
  EXPECT_THAT(wrong, IsEmpty());
}

}  // namespace
}  // namespace steadystate::tidy_test
