// Runs a fuzz target over kept inputs, without libFuzzer: each argument is a
// folder of them, or one input. Ends with 1 where there are none.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include "tests/testing/temp_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  std::set<std::string> inputs;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      inputs.insert(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      inputs.insert(entry.path().string());
    }
  }
  for (const std::string& path : inputs) {
    // Before it runs, for who looks for the one that ended the program.
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    const std::string input = steadystate::ReadWholeFile(path);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                           input.size());
  }
  std::printf("%zu inputs\n", inputs.size());
  return inputs.empty() ? 1 : 0;
}
