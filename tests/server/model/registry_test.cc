// Goal: the table of families is complete: every row has its source, its golden
// case, and a name of its own. Method: compare with the tree.
#include "server/model/registry.h"

#include <filesystem>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::registry_test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = STEADYSTATE_SOURCE_DIR;

TEST(RegistryTest, EveryMixerFileHasARow) {
  std::set<std::string> sources;
  for (const Family& family : Families()) {
    sources.insert(std::string(family.source));
  }
  std::set<std::string> files;
  for (const auto& entry :
       fs::directory_iterator(kRoot / "server/model/mixers")) {
    const fs::path& path = entry.path();
    if (path.extension() == ".cc") {
      files.insert(path.filename());
    }
  }
  EXPECT_EQ(sources, files);
}

TEST(RegistryTest, EveryFamilyHasAGoldenCaseOfItsName) {
  for (const Family& family : Families()) {
    const fs::path folder =
        kRoot / "tests/golden" / std::string(family.model_type);
    EXPECT_TRUE(fs::exists(folder / "logits.npy")) << folder;
  }
}

TEST(RegistryTest, FamiliesAreFoundByName) {
  std::set<absl::string_view> names;
  for (const Family& family : Families()) {
    EXPECT_EQ(FindFamily(family.model_type), &family);
    EXPECT_TRUE(names.insert(family.model_type).second);
    EXPECT_EQ(family.make_token_mixer != nullptr, family.layer.has_family());
    // Others make them for the layers that their config names.
    if (family.layer.channels == ChannelMixer::kFamily) {
      EXPECT_NE(family.make_channel_mixer, nullptr);
    }
  }
  EXPECT_EQ(FindFamily("nothing"), nullptr);
  EXPECT_EQ(FindFamily(""), nullptr);
  EXPECT_EQ(FindFamily("qwen3_5_text"), FindFamily("qwen3_5"));
  EXPECT_EQ(FindFamily("qwen3_5_moe_text"), FindFamily("qwen3_5_moe"));
}

}  // namespace
}  // namespace steadystate::registry_test
