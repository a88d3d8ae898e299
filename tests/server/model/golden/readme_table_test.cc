// Goal: the table of errors in the mixers' README has a row for each family and
// no other. That its bounds hold is checked where errors are measured. Method:
// compare with the registry.
#include "tests/server/model/golden/readme_table.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "server/model/registry.h"

namespace steadystate::readme_table_test {
namespace {

TEST(ReadmeTableTest, HasTheRowsOfTheRegistry) {
  std::set<std::string> families;
  for (const Family& family : Families()) {
    families.insert(std::string(family.model_type));
  }
  std::set<std::string> rows;
  for (const auto& [name, bounds] : ReadmeErrorBounds()) {
    rows.insert(name);
    EXPECT_GT(bounds.f32, 0) << name;
    EXPECT_LE(bounds.f32, 1e-5) << name;
    EXPECT_GT(bounds.bf16, bounds.f32) << name;
  }
  EXPECT_EQ(rows, families);
}

}  // namespace
}  // namespace steadystate::readme_table_test
