// Goal: the norms of a session's state are those of the numbers that a snapshot
// of it has, whatever they are kept in, and are told between two tokens of a
// generation that goes on.
// Method: snapshots of models with states of each form, read number by number
// here, in long double.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::engine_norms_test {
namespace {

template <typename T>
T At(absl::string_view bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// The numbers of a slot; `units`: the bytes of the exponents, of int16.
std::vector<long double> Numbers(const StateSlot& slot, absl::string_view bytes,
                                 absl::string_view units) {
  std::vector<long double> numbers;
  for (size_t i = 0; i < bytes.size() / ElementBytes(slot.type); ++i) {
    if (slot.type == SlotType::kFloat32) {
      numbers.push_back(At<float>(bytes, i));
    } else if (slot.type == SlotType::kFloat64) {
      numbers.push_back(At<double>(bytes, i));
    } else if (slot.type == SlotType::kBfloat16) {
      const uint32_t bits = uint32_t{At<uint16_t>(bytes, i)} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      numbers.push_back(value);
    } else {
      const size_t columns = slot.shape.back();
      const size_t groups = (columns + 63) / 64;
      const auto exponent =
          At<uint8_t>(units, i / columns * groups + i % columns / 64);
      numbers.push_back(exponent == 0 ? 0
                                      : std::ldexp(static_cast<long double>(
                                                       At<int16_t>(bytes, i)),
                                                   exponent - 127));
    }
  }
  return numbers;
}

struct Form {
  std::string name;
  StateDType dtype = StateDType::kF32;
  bool softmax = false;
};

std::shared_ptr<const Model> ModelOf(const Form& form) {
  TinyModelOptions tiny;
  tiny.short_conv = true;
  if (form.softmax) tiny.softmax_layer = 1;
  const TinyModel model(tiny);
  ModelOptions options;
  options.path = model.path();
  options.weight_dtype = DType::kF32;
  options.state_dtype = form.dtype;
  auto loaded = Model::Load(options);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *loaded;
}

class EngineNormsTest : public testing::TestWithParam<Form> {
 protected:
  EngineNormsTest() : harness_({}, ModelOf(GetParam())) {}

  absl::Status Work(const std::string& session, WorkRequest work) {
    return harness_.Work(session, std::move(work));
  }

  Engine::Norms Norms(const std::string& session) {
    const auto norms = std::make_shared<Engine::Norms>();
    const absl::Status status =
        Work(session, harness_.engine().NormsWork(norms));
    EXPECT_TRUE(status.ok()) << status;
    return *norms;
  }

  // What is wrong with the norms, by a snapshot.
  void ExpectAsInSnapshot(const std::vector<SlotNorm>& norms,
                          const std::string& session) {
    const auto exported = std::make_shared<Engine::Export>();
    ASSERT_TRUE(Work(session, harness_.engine().ExportWork(exported)).ok());
    const auto snapshot =
        harness_.engine().snapshots().Read(exported->snapshot);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    const auto& slots = harness_.engine().model().state_layout().slots();
    size_t next = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].type == SlotType::kUint8) continue;
      ASSERT_LT(next, norms.size());
      const SlotNorm& norm = norms[next++];
      EXPECT_EQ(norm.layer, slots[i].layer);
      EXPECT_EQ(norm.name, slots[i].name);
      long double sum = 0;
      long double largest = 0;
      for (const long double x :
           Numbers(slots[i], snapshot->slots[i],
                   i + 1 < slots.size() ? snapshot->slots[i + 1] : "")) {
        sum += x * x;
        largest = std::max(largest, std::abs(x));
      }
      EXPECT_NEAR(norm.l2_norm, static_cast<double>(std::sqrt(sum)),
                  1e-12 * norm.l2_norm);
      EXPECT_EQ(norm.max_abs, static_cast<double>(largest));
      EXPECT_EQ(norm.non_finite, 0u);
      EXPECT_GT(norm.max_abs, 0) << norm.name;
    }
    EXPECT_EQ(next, norms.size());
  }

  EngineHarness harness_;
};

INSTANTIATE_TEST_SUITE_P(
    All, EngineNormsTest,
    testing::Values(Form{"f32"}, Form{"bf16", StateDType::kBf16},
                    Form{"int16", StateDType::kInt16},
                    Form{"softmax", StateDType::kF32, true}),
    [](const testing::TestParamInfo<Form>& tested) {
      return tested.param.name;
    });

TEST_P(EngineNormsTest, AreThoseOfTheSnapshot) {
  harness_.CreateSession("s");
  const Engine::Norms before = Norms("s");
  for (const SlotNorm& norm : before.slots) {
    EXPECT_EQ(norm.l2_norm, 0);
    EXPECT_EQ(norm.max_abs, 0);
  }
  ASSERT_TRUE(harness_.Step(StepOf("s", MakeTokens(23, 4))).ok());
  const Engine::Norms after = Norms("s");
  EXPECT_EQ(after.session.position, 23u);
  EXPECT_EQ(after.slots.size(), before.slots.size());
  ExpectAsInSnapshot(after.slots, "s");
  EXPECT_EQ(Norms("s").slots.front().l2_norm, after.slots.front().l2_norm);
}

TEST_P(EngineNormsTest, AreToldWhileAGenerationGoesOn) {
  harness_.CreateSession("s");
  GenerateRequest request = GenerateOf("s", MakeTokens(3, 1), 20);
  request.ignore_eos = true;
  request.writer = harness_.engine().NewWriter();
  auto recorder = std::make_shared<Recorder<GenerateRequest>>();
  recorder->set_limit(5);
  const auto id = harness_.engine().Submit(request, recorder);
  ASSERT_TRUE(id.ok()) << id.status();
  recorder->AwaitItems(5);
  const Engine::Norms norms = Norms("s");
  EXPECT_EQ(norms.session.position, 8u);
  ExpectAsInSnapshot(norms.slots, "s");
  recorder->set_limit(SIZE_MAX);
  harness_.engine().Wake(*id);
  EXPECT_TRUE(recorder->done().Get().ok());
  EXPECT_EQ(recorder->items().size(), 20u);
}

}  // namespace
}  // namespace steadystate::engine_norms_test
