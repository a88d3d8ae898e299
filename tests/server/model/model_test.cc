// Goal: a session's logits and state are a function of its own tokens and of
// how they were cut into calls, bit for bit, whoever shares its batches and
// however many threads run. Method: many sessions in random batches, against
// each fed alone in the same pieces.
#include "server/model/model.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/thread_pool.h"
#include "server/model/workspace.h"
#include "tests/testing/direct_session.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::model_test {
namespace {

constexpr size_t kMaxRows = 96;

// One of the sessions that share batches.
struct Member {
  std::vector<int32_t> tokens;
  AlignedFloats state;
  size_t position = 0;
  std::vector<size_t> pieces;  // rows of each batch that it was in
  std::vector<float> logits;
};

std::vector<Member> MakeMembers(const Model& model, size_t count,
                                std::mt19937& random) {
  std::vector<Member> members(count);
  for (Member& member : members) {
    for (size_t i = 1 + random() % 12; i > 0; --i) {
      member.tokens.push_back(
          static_cast<int32_t>(random() % model.description().vocab_size));
    }
    member.state = AlignedFloats(model.state_layout().bytes() / sizeof(float));
  }
  return members;
}

// Advances a random choice of members by random segments, in random order.
void RunBatch(const Model& model, std::vector<Member>& members,
              Workspace& workspace, std::mt19937& random) {
  std::vector<Member*> order;
  for (Member& member : members) {
    if (member.position < member.tokens.size() && random() % 3 > 0) {
      order.push_back(&member);
    }
  }
  std::shuffle(order.begin(), order.end(), random);
  std::vector<InputRow> rows;
  std::vector<Segment> segments;
  std::vector<Member*> of_segment;
  for (Member* member : order) {
    const size_t size = std::min<size_t>(
        1 + random() % 6, member->tokens.size() - member->position);
    if (rows.size() + size > kMaxRows) break;
    segments.push_back(
        {.state = reinterpret_cast<std::byte*>(member->state.data()),
         .position = member->position,
         .first_row = rows.size(),
         .rows = size});
    of_segment.push_back(member);
    for (size_t t = 0; t < size; ++t) {
      rows.push_back({.token = member->tokens[member->position++]});
    }
    member->pieces.push_back(size);
  }
  if (rows.empty()) return;
  const size_t vocab = model.description().vocab_size;
  std::vector<float> hidden(rows.size() * model.description().hidden_size);
  std::vector<float> logits(rows.size() * vocab);
  model.Forward(rows, segments, hidden.data(), workspace);
  model.Head(rows.size(), hidden.data(), logits.data(), workspace);
  for (size_t i = 0; i < segments.size(); ++i) {
    const float* first = logits.data() + segments[i].first_row * vocab;
    of_segment[i]->logits.insert(of_segment[i]->logits.end(), first,
                                 first + segments[i].rows * vocab);
  }
}

void ExpectBatchesDoNotMatter(const TinyModelOptions& options, DType dtype,
                              size_t sessions) {
  const TinyModel tiny(options);
  const auto model = tiny.Load(dtype);
  for (const size_t threads : {size_t{1}, size_t{2}, size_t{3}}) {
    constexpr unsigned kSeed = 64;
    SCOPED_TRACE(absl::StrCat(threads, " threads, seed ", kSeed));
    std::mt19937 random(kSeed);
    std::vector<Member> members = MakeMembers(*model, sessions, random);
    ThreadPool pool(threads);
    Workspace workspace = model->MakeWorkspace(kMaxRows, pool);
    const auto busy = [](const Member& member) {
      return member.position < member.tokens.size();
    };
    while (std::any_of(members.begin(), members.end(), busy)) {
      RunBatch(*model, members, workspace, random);
    }
    for (const Member& member : members) {
      DirectSession alone(*model);
      std::vector<float> logits;
      for (const size_t size : member.pieces) {
        const auto rows =
            alone.Feed({member.tokens.data() + alone.position(), size});
        logits.insert(logits.end(), rows.begin(), rows.end());
      }
      ASSERT_EQ(member.logits, logits);
      ASSERT_EQ(0, std::memcmp(member.state.data(), alone.state().data(),
                               alone.state().size()));
    }
  }
}

class BatchInvarianceTest : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Dtypes, BatchInvarianceTest,
                         testing::Values(DType::kF32, DType::kBf16),
                         [](const auto& instance) {
                           return std::string(Name(instance.param));
                         });

TEST_P(BatchInvarianceTest, WithInnerDimensionsOf4096) {
  ExpectBatchesDoNotMatter({.hidden_size = 64,
                            .layers = 1,
                            .heads = 2,
                            .kv_heads = 2,
                            .intermediate_size = 4096},
                           GetParam(), 64);
}

TEST_P(BatchInvarianceTest, WithGroupsAndConvolutions) {
  ExpectBatchesDoNotMatter({.hidden_size = 48,
                            .layers = 2,
                            .heads = 4,
                            .kv_heads = 2,
                            .short_conv = true,
                            .output_gate = false},
                           GetParam(), 64);
}

TEST_P(BatchInvarianceTest, WithASoftmaxLayer) {
  ExpectBatchesDoNotMatter({.heads = 4, .kv_heads = 2, .softmax_layer = 1},
                           GetParam(), 64);
}

TEST_P(BatchInvarianceTest, WithASoftmaxWindow) {
  ExpectBatchesDoNotMatter({.softmax_layer = 0, .softmax_window = 3},
                           GetParam(), 64);
}

TEST(ModelTest, AnEmbeddingMayTakeATokensPlace) {
  const TinyModelOptions options;
  const CheckpointContents contents = MakeTinyCheckpoint(options);
  const std::vector<float>& table =
      contents.tensors.at("model.embeddings.weight").values;
  const TinyModel tiny(options);
  const auto model = tiny.Load();
  const size_t D = model->description().hidden_size;
  ThreadPool pool(1);
  Workspace workspace = model->MakeWorkspace(2, pool);
  std::vector<float> hidden[2];
  for (const bool by_token : {true, false}) {
    const AlignedFloats state(model->state_layout().bytes() / sizeof(float));
    InputRow row{.token = 17};
    if (!by_token) row = {.token = -1, .embedding = table.data() + 17 * D};
    const Segment segment{.state = reinterpret_cast<std::byte*>(state.data()),
                          .rows = 1};
    hidden[by_token].resize(D);
    model->Forward({&row, 1}, {&segment, 1}, hidden[by_token].data(),
                   workspace);
  }
  EXPECT_EQ(hidden[0], hidden[1]);
}

TEST(ModelTest, SessionsTouchNoMoreThanTheirUsedBytes) {
  const TinyModel tiny({.layers = 3, .softmax_layer = 1});
  const auto model = tiny.Load();
  const StateLayout& layout = model->state_layout();
  DirectSession session(*model);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  session.Feed(tokens);
  const std::span<const std::byte> state = session.state();
  const size_t used = layout.used_bytes(session.position());
  ASSERT_LT(used, state.size());
  EXPECT_TRUE(std::all_of(state.begin() + static_cast<ptrdiff_t>(used),
                          state.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  // The last token's row was written.
  EXPECT_FALSE(
      std::all_of(state.begin() + static_cast<ptrdiff_t>(layout.used_bytes(4)),
                  state.begin() + static_cast<ptrdiff_t>(used),
                  [](std::byte b) { return b == std::byte{0}; }));
}

TEST(ModelTest, PhasesAddUpTheTimeSpent) {
  const TinyModel tiny;
  const auto model = tiny.Load();
  ThreadPool pool(1);
  Workspace workspace = model->MakeWorkspace(1, pool);
  EXPECT_EQ(workspace.max_rows(), 1u);
  const AlignedFloats state(model->state_layout().bytes() / sizeof(float));
  const InputRow row{.token = 1};
  const Segment segment{.state = reinterpret_cast<std::byte*>(state.data()),
                        .rows = 1};
  std::vector<float> hidden(model->description().hidden_size);
  const absl::Time start = absl::Now();
  model->Forward({&row, 1}, {&segment, 1}, hidden.data(), workspace);
  const absl::Duration elapsed = absl::Now() - start;
  const PhaseTimes times = workspace.TakePhases();
  EXPECT_GT(times.projection, absl::ZeroDuration());
  EXPECT_GT(times.recurrence, absl::ZeroDuration());
  EXPECT_GT(times.other, absl::ZeroDuration());
  EXPECT_LE(times.projection + times.recurrence + times.other,
            elapsed + absl::Milliseconds(1));
  const PhaseTimes nothing = workspace.TakePhases();
  EXPECT_EQ(nothing.projection, absl::ZeroDuration());
}

TEST(ModelTest, OneModelServesTwoThreadsAtOnce) {
  const TinyModel tiny({.short_conv = true, .softmax_layer = 1});
  const auto model = tiny.Load();
  const std::vector<int32_t> tokens = {5, 6, 7, 8, 9, 10};
  DirectSession alone(*model);
  const std::vector<float> expected = alone.Feed(tokens);
  std::vector<float> got[2];
  std::vector<std::thread> threads;
  for (auto& logits : got) {
    threads.emplace_back([&model, &tokens, &logits] {
      DirectSession session(*model, 64, 2);
      logits = session.Feed(tokens);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got[0], expected);
  EXPECT_EQ(got[1], expected);
}

}  // namespace
}  // namespace steadystate::model_test
