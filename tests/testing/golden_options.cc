#include "tests/testing/golden_options.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/direct_session.h"

namespace steadystate {

std::vector<float> GoldenLogitsWith(const std::string& golden_case,
                                    const nlohmann::json& changes) {
  const auto model = LoadGoldenWith(golden_case, changes);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  EXPECT_TRUE((*model)->description().warnings.empty())
      << (*model)->description().warnings.front();
  return DirectSession(**model).Feed(std::vector<int32_t>{1, 2, 3, 5, 8, 13});
}

ModelConfig ReadConfigText(const std::string& text) {
  const auto config = Config::Parse(text, "config.json");
  const auto model = ReadModelConfig(*config);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.value_or(ModelConfig());
}

void ExpectRefusals(const std::string& golden_case,
                    std::span<const Refusal> refusals) {
  for (const auto& [key, value, code] : refusals) {
    SCOPED_TRACE(absl::StrCat(key, " = ", value.dump()));
    const auto model = LoadGoldenWith(golden_case, {{key, value}});
    EXPECT_EQ(model.status().code(), code) << model.status();
    EXPECT_TRUE(absl::StrContains(model.status().message(), key))
        << model.status();
  }
}

}  // namespace steadystate
