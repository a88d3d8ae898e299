// Goal: what a session remembers of its inputs is exactly the end of what it
// has absorbed, with its cuts, however that came. Method: pieces of random
// sizes against a plain list.
#include "server/session/token_history.h"

#include <cstddef>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

class Memory {
 public:
  explicit Memory(size_t capacity)
      : words_(TokenHistory::Bytes(capacity) / sizeof(uint64_t)),
        history_(reinterpret_cast<std::byte*>(words_.data()), capacity) {}

  TokenHistory& history() { return history_; }

 private:
  std::vector<uint64_t> words_;
  TokenHistory history_;
};

struct Input {
  int32_t token;
  bool begins_piece;
};

// Everything that is kept of a session that has absorbed `inputs`.
void ExpectEndOf(const std::vector<Input>& inputs, const TokenHistory& history,
                 size_t capacity) {
  const uint64_t position = inputs.size();
  const uint64_t begin = history.Begin(position);
  ASSERT_EQ(position - begin, std::min<uint64_t>(position, capacity));
  std::vector<int32_t> tokens(position - begin);
  history.Copy(begin, tokens);
  for (uint64_t p = begin; p < position; ++p) {
    ASSERT_EQ(tokens[p - begin], inputs[p].token) << p << " of " << position;
    ASSERT_EQ(history.BeginsPiece(p), inputs[p].begins_piece)
        << p << " of " << position;
  }
}

TEST(TokenHistoryTest, TakesFourBytesAndABitForEachInput) {
  EXPECT_EQ(TokenHistory::Bytes(0), 0u);
  EXPECT_EQ(TokenHistory::Bytes(1), 16u);
  EXPECT_EQ(TokenHistory::Bytes(4096), 4096u * 4 + 512);
}

TEST(TokenHistoryTest, KeepsTheLatestInputsWithTheirCuts) {
  for (const size_t capacity : {size_t{1}, size_t{7}, size_t{63}, size_t{64},
                                size_t{65}, size_t{200}}) {
    SCOPED_TRACE(capacity);
    Memory memory(capacity);
    std::mt19937 random(static_cast<unsigned>(capacity));
    std::vector<Input> inputs;
    for (int piece = 0; piece < 300; ++piece) {
      const size_t rows = 1 + (piece % 3 == 0 ? random() % 150 : 0);
      const bool embeddings = random() % 4 == 0;
      std::vector<int32_t> tokens;
      const uint64_t before = inputs.size();
      for (size_t i = 0; i < rows; ++i) {
        tokens.push_back(static_cast<int32_t>(random() % 1000));
        inputs.push_back(
            {embeddings ? TokenHistory::kEmbedding : tokens.back(), i == 0});
      }
      if (embeddings) tokens.clear();
      memory.history().Append(before, rows, tokens);
      ExpectEndOf(inputs, memory.history(), capacity);
    }
  }
}

TEST(TokenHistoryTest, MayRememberNothing) {
  Memory memory(0);
  memory.history().Append(0, 3, std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(memory.history().Begin(3), 3u);
  memory.history().Copy(3, {});
}

}  // namespace
}  // namespace steadystate
