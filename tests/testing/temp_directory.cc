#include "tests/testing/temp_directory.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace steadystate {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "test set-up failed: %s\n", what.c_str());
  std::abort();
}

}  // namespace

TempDirectory::TempDirectory() {
  std::string name =
      (std::filesystem::temp_directory_path() / "steadystate-test-XXXXXX")
          .string();
  if (mkdtemp(name.data()) == nullptr) Die("cannot make a directory");
  path_ = name;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDirectory::Write(absl::string_view name,
                                 absl::string_view bytes) const {
  const std::string path = absl::StrCat(path_, "/", name);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) Die(absl::StrCat("cannot write ", path));
  return path;
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Die(absl::StrCat("cannot read ", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace steadystate
