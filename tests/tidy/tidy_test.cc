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
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
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

std::vector<SourceFile> ReadSources() {
  std::vector<SourceFile> files;
  const fs::path root = STEADYSTATE_SOURCE_DIR;
  for (const char* folder :
       {"proto", "kernels", "server", "client", "deploy", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string path = fs::relative(entry.path(), root).string();
      if (!entry.is_regular_file() ||
          !HasAnySuffix(path, {".h", ".cc", ".proto"})) {
        continue;
      }
      std::ifstream stream(entry.path());
      const std::string text{std::istreambuf_iterator<char>(stream), {}};
      files.push_back({path, absl::StrSplit(text, '\n')});
    }
  }
  return files;
}

const std::vector<SourceFile>& Sources() {
  static const auto* const files = new std::vector(ReadSources());
  return *files;
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
    {"client/steadystate/main.cc", {"client/", "absl/synchronization/mutex.h"}},
    {"client/", {"client/", "steadystate/v1/", "google/", "grpc"}},
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
}  // namespace steadystate
