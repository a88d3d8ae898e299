// Goal: equal numerics have equal fingerprints, and whatever moves or retypes a
// byte of a state has another. Method: layouts that differ in one thing, and
// one fingerprint by SHA-256 of its text.
#include "server/session/numerics.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/sha256.h"

namespace steadystate::numerics_test {
namespace {

struct Shape {
  StateDType dtype = StateDType::kF32;
  const char* name = "S";
  std::vector<size_t> shape = {2, 32, 64};
  size_t layer = 0;
  uint64_t cap = 8;
  size_t hidden_size = 24;
};

StateLayout MakeLayout(const Shape& shape) {
  StateLayoutBuilder builder(shape.dtype);
  EXPECT_TRUE(builder.AddMatrices(shape.layer, shape.name, shape.shape).ok());
  EXPECT_TRUE(builder.AddPerToken(1, "kv", shape.cap, {2, 16}).ok());
  return std::move(builder).Build();
}

std::string FingerprintOf(const Shape& shape) {
  const StateLayout state = MakeLayout(shape);
  const auto numerics = NumericsOf(SessionLayout(state, shape.hidden_size, 16));
  EXPECT_TRUE(numerics.ok());
  return numerics->Fingerprint().value();
}

TEST(NumericsTest, EqualLayoutsHaveEqualFingerprints) {
  EXPECT_EQ(FingerprintOf({}), FingerprintOf({}));
  EXPECT_EQ(FingerprintOf({}).size(), 64u);
}

TEST(NumericsTest, WhateverDecidesBytesShows) {
  const std::set<std::string> fingerprints = {
      FingerprintOf({}),
      FingerprintOf({.dtype = StateDType::kBf16}),
      FingerprintOf({.dtype = StateDType::kInt16}),
      FingerprintOf({.name = "T"}),
      FingerprintOf({.shape = {2, 64, 32}}),
      FingerprintOf({.layer = 1}),
      FingerprintOf({.hidden_size = 25}),
  };
  EXPECT_EQ(fingerprints.size(), 7u);
}

TEST(NumericsTest, HowManyTokensThereIsRoomForDecidesNothing) {
  EXPECT_EQ(FingerprintOf({.cap = 8}), FingerprintOf({.cap = 9}));
}

TEST(NumericsTest, WhateverComputesShows) {
  const StateLayout state = MakeLayout({});
  const SessionLayout layout(state, 24, 16);
  ModelDescription model;
  model.linear.weight_dtype = "bf16";
  model.linear.shapes.push_back({.in = 8,
                                 .block = 64,
                                 .decode_tiles = {1, 2},
                                 .prefill_tiles = {64},
                                 .implementation = "brg"});
  std::vector<ModelDescription> others(7, model);
  others[1].linear.weight_dtype = "f32";
  others[2].linear.isa = "AVX2";
  others[3].linear.onednn_version = "3.1";
  others[4].kernel_target = "AVX3";
  others[5].linear.shapes[0].prefill_tiles = {64, 128};
  others[6].linear.shapes[0].implementation = "panels+brg";
  std::set<std::string> fingerprints = {
      NumericsOf(layout, model, 128)->Fingerprint().value()};
  for (const ModelDescription& other : others) {
    fingerprints.insert(NumericsOf(layout, other, 64)->Fingerprint().value());
  }
  EXPECT_EQ(fingerprints.size(), 8u);
}

TEST(NumericsTest, FactsStandInTheirOrder) {
  const StateLayout state = MakeLayout({.dtype = StateDType::kInt16});
  Numerics numerics = NumericsOf(SessionLayout(state, 24, 16)).value();
  ASSERT_EQ(numerics.facts().size(), 3u);
  EXPECT_EQ(numerics.facts()[0],
            std::make_pair(std::string("layout_version"), std::string("1")));
  EXPECT_EQ(numerics.facts()[1].first, "state_dtype");
  EXPECT_EQ(numerics.facts()[1].second, state.dtype());
  EXPECT_EQ(numerics.facts()[2].first, "slots");
  const std::string before = numerics.Fingerprint().value();
  numerics.Add("weight_dtype", "bf16");
  EXPECT_NE(numerics.Fingerprint().value(), before);
}

TEST(NumericsTest, TheFingerprintIsThatOfTheFactsLines) {
  Numerics numerics;
  numerics.Add("a", "1");
  numerics.Add("b", "two words");
  EXPECT_EQ(numerics.ToString(), "a=1 b=two words");
  Sha256 expected;
  const std::string lines = "a=1\nb=two words\n";
  expected.Update(std::as_bytes(std::span(lines)));
  EXPECT_EQ(numerics.Fingerprint().value(), expected.FinishHex().value());
}

TEST(DifferenceTest, NamesWhatIsNotAlike) {
  Numerics there;
  there.Add("same", "1");
  there.Add("isa", "avx2");
  there.Add("slots", std::string(64, 'a'));
  there.Add("old", "x");
  Numerics here;
  here.Add("same", "1");
  here.Add("isa", "avx512");
  here.Add("slots", std::string(64, 'b'));
  here.Add("new", "a\nb");
  EXPECT_EQ(Difference(there, here),
            "isa=avx2 (here avx512), new=nothing (here a\\nb), old=x (here "
            "nothing), slots=aaaaaaaa... (here bbbbbbbb...)");
  EXPECT_EQ(Difference(here, here), "");
}

}  // namespace
}  // namespace steadystate::numerics_test
