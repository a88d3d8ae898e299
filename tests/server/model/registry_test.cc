// Goal: the table of families is complete: every row has its source, its golden
// case, and a name of its own. Method: compare with the tree.
#include "server/model/mixers/registry.h"

#include <filesystem>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = STEADYSTATE_SOURCE_DIR;

TEST(RegistryTest, EveryMixerFileHasARow) {
  std::set<std::string> sources;
  for (const MixerFamily& family : MixerFamilies()) {
    sources.insert(std::string(family.source));
  }
  std::set<std::string> files;
  for (const auto& entry :
       fs::directory_iterator(kRoot / "server/model/mixers")) {
    const fs::path& path = entry.path();
    if (path.extension() == ".cc" && path.filename() != "registry.cc") {
      files.insert(path.filename());
    }
  }
  EXPECT_EQ(sources, files);
}

TEST(RegistryTest, EveryFamilyHasAGoldenCaseOfItsName) {
  for (const MixerFamily& family : MixerFamilies()) {
    const fs::path folder =
        kRoot / "tests/golden" / std::string(family.model_type);
    EXPECT_TRUE(fs::exists(folder / "logits.npy")) << folder;
  }
}

TEST(RegistryTest, FamiliesAreFoundByName) {
  std::set<absl::string_view> names;
  for (const MixerFamily& family : MixerFamilies()) {
    EXPECT_EQ(FindMixerFamily(family.model_type), &family);
    EXPECT_TRUE(names.insert(family.model_type).second);
    EXPECT_NE(family.all_softmax,
              family.make != nullptr || family.make_layer != nullptr);
  }
  EXPECT_EQ(FindMixerFamily("nothing"), nullptr);
}

}  // namespace
}  // namespace steadystate
