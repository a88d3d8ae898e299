// Goal: what a session remembers of its inputs is exactly the end of what it
// has absorbed, with its cuts and kinds, however that came. Method: pieces of
// random sizes against a plain list.
//
// Goal: a record that is kept is found whole, the latest ones are those that
// are kept, and they stay within their memory. Method: random records against a
// plain list, in memory with a guard behind it.
#include "server/session/session_memory.h"

#include <cstddef>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace steadystate::session_memory_test {
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
  bool drawn;
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
    ASSERT_EQ(history.IsDrawn(p), inputs[p].drawn) << p << " of " << position;
  }
}

TEST(TokenHistoryTest, TakesFourBytesAndTwoBitsForEachInput) {
  EXPECT_EQ(TokenHistory::Bytes(0), 0u);
  EXPECT_EQ(TokenHistory::Bytes(1), 24u);
  EXPECT_EQ(TokenHistory::Bytes(4096), 4096u * 4 + 2 * 512);
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
      const bool drawn = random() % 3 == 0;
      std::vector<int32_t> tokens;
      const uint64_t before = inputs.size();
      for (size_t i = 0; i < rows; ++i) {
        tokens.push_back(static_cast<int32_t>(random() % 1000));
        inputs.push_back({embeddings ? TokenHistory::kEmbedding : tokens.back(),
                          i == 0, drawn});
      }
      if (embeddings) tokens.clear();
      memory.history().Append(before, rows, tokens, drawn);
      ExpectEndOf(inputs, memory.history(), capacity);
    }
  }
}

TEST(TokenHistoryTest, MayRememberNothing) {
  Memory memory(0);
  memory.history().Append(0, 3, std::vector<int32_t>{1, 2, 3}, false);
  EXPECT_EQ(memory.history().Begin(3), 3u);
  memory.history().Copy(3, {});
}

// A record with its own texts.
struct Kept {
  std::string id;
  uint64_t begin;
  uint64_t end;
  RequestDigest digest;
  bool finished;
  std::string answer;

  RequestRecord record() const {
    return {.id = id,
            .begin = begin,
            .end = end,
            .digest = digest,
            .finished = finished,
            .answer = answer};
  }
};

void ExpectSame(const std::optional<RequestRecord>& found, const Kept& kept) {
  ASSERT_TRUE(found.has_value()) << kept.id;
  EXPECT_EQ(found->id, kept.id);
  EXPECT_EQ(found->begin, kept.begin);
  EXPECT_EQ(found->end, kept.end);
  EXPECT_EQ(found->digest, kept.digest);
  EXPECT_EQ(found->finished, kept.finished);
  EXPECT_EQ(found->answer, kept.answer);
}

class RequestRecordsTest : public testing::Test {
 protected:
  static constexpr std::byte kGuard{0xa5};

  ~RequestRecordsTest() override {
    for (size_t i = RequestRecords::kBytes; i < memory_.size(); ++i) {
      EXPECT_EQ(memory_[i], kGuard) << i;
    }
  }

  RequestRecords records() { return RequestRecords(memory_.data()); }

  std::vector<std::byte> memory_ = [] {
    std::vector<std::byte> memory(RequestRecords::kBytes + 64, kGuard);
    std::fill_n(memory.begin(), RequestRecords::kBytes, std::byte{0});
    return memory;
  }();
};

TEST_F(RequestRecordsTest, ZerosAreNone) {
  EXPECT_FALSE(records().Find("a", 0).has_value());
  EXPECT_FALSE(records().Find("", 0).has_value());
}

TEST_F(RequestRecordsTest, AreFoundByIdAndPosition) {
  const Kept first{"a", 5, 6, {1, 2}, true, "answer"};
  const Kept second{"a", 6, 7, {3, 4}, true, ""};
  records().Put(first.record());
  records().Put(second.record());
  ExpectSame(records().Find("a", 5), first);
  ExpectSame(records().Find("a", 6), second);
  EXPECT_FALSE(records().Find("a", 7).has_value());
  EXPECT_FALSE(records().Find("b", 5).has_value());
}

TEST_F(RequestRecordsTest, TheLastOneIsReplacedAsItGoesOn) {
  const Kept before{"before", 0, 1, {9, 9}, true, "x"};
  records().Put(before.record());
  Kept last{"a", 1, 2, {1, 2}, false, ""};
  for (int i = 0; i < 1000; ++i) {
    records().Put(last.record());
    ExpectSame(records().Find("a", 1), last);
    ++last.end;
    last.answer = std::string(static_cast<size_t>(i) % 60, 'y');
  }
  ExpectSame(records().Find("before", 0), before);
}

TEST_F(RequestRecordsTest, TheLatestOnesAreKeptWithinTheMemory) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::deque<Kept> all;
    for (uint64_t i = 0; i < 2000; ++i) {
      // Short ids, as of most clients, and the longest.
      const size_t id_bytes = seed == 1 ? 8 : 1 + random() % kMaxRequestIdBytes;
      std::string id = absl::StrCat(i, "-");
      id.resize(std::max(id.size(), id_bytes), 'i');
      all.push_back(
          {id, i, i + 1 + random() % 9, RequestDigest{random(), random()},
           random() % 2 == 0,
           std::string(random() % (RequestRecords::kMaxAnswerBytes + 1),
                       static_cast<char>('a' + i % 26))});
      records().Put(all.back().record());
      // Whatever is kept is a row of the latest ones.
      size_t kept = 0;
      while (kept < all.size()) {
        const Kept& next = all[all.size() - 1 - kept];
        const auto found = records().Find(next.id, next.begin);
        if (!found.has_value()) break;
        ExpectSame(found, next);
        ++kept;
      }
      for (size_t older = kept; older < std::min<size_t>(all.size(), 60);
           ++older) {
        const Kept& gone = all[all.size() - 1 - older];
        EXPECT_FALSE(records().Find(gone.id, gone.begin).has_value());
      }
      const size_t most = std::min<size_t>(i + 1, RequestRecords::kMaxRecords);
      EXPECT_LE(kept, most);
      // 4,096 bytes hold 17 of the largest and all 32 of usual ones.
      EXPECT_GE(kept, std::min<size_t>(most, seed == 1 ? 32 : 17));
      if (all.size() > 100) all.pop_front();
    }
  }
}

TEST(RecordedKeysTest, HaveTheLatestOnes) {
  RecordedKeys keys;
  EXPECT_FALSE(keys.MayHave(RecordedKeys::KeyOf("a", 0)));
  EXPECT_FALSE(keys.MayHave(0));
  for (uint64_t i = 0; i < 100; ++i) {
    // Piece after piece of the same request.
    for (int piece = 0; piece < 40; ++piece) {
      keys.Note(RecordedKeys::KeyOf("a", i));
    }
    for (uint64_t j = 0; j <= i; ++j) {
      EXPECT_EQ(keys.MayHave(RecordedKeys::KeyOf("a", j)),
                i - j < RequestRecords::kMaxRecords);
    }
    EXPECT_FALSE(keys.MayHave(RecordedKeys::KeyOf("b", i)));
    EXPECT_FALSE(keys.MayHave(RecordedKeys::KeyOf("a", i + 1)));
  }
}

TEST(RequestRecordsBoundsTest, WhatIsOutOfBoundsIsLeftOut) {
  std::vector<std::byte> memory(RequestRecords::kBytes);
  RequestRecords records(memory.data());
  const std::string long_id(kMaxRequestIdBytes + 1, 'a');
  const std::string long_answer(100'000, 'b');
  records.Put({.id = "kept", .begin = 1, .end = 2});
  records.Put({.id = long_id, .begin = 1, .end = 2});
  records.Put({.id = "a", .begin = 1, .end = 2, .answer = long_answer});
  ASSERT_EQ(records.All().size(), 1u);
  EXPECT_EQ(records.All()[0].id, "kept");
}

}  // namespace
}  // namespace steadystate::session_memory_test
