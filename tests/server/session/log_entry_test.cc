// Goal: a round of the log says what was written into it, and a tail gives back
// each piece as it was absorbed; what is not as it was written is found and
// harms nobody. Method: round trips; rounds cut at each byte; made-up tails.
#include "server/session/log_entry.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/binary.h"
#include "server/model/state_layout.h"
#include "server/session/state_pool.h"

namespace steadystate::log_entry_test {
namespace {

constexpr SessionUid kUid = {1, 2};

std::string InputsOf(const std::vector<int32_t>& tokens) {
  std::string inputs;
  LogEntryWriter::Inputs(tokens, {}, inputs);
  return inputs;
}

// A round that tells of all kinds of things.
std::string MakeRound() {
  std::string content;
  LogEntryWriter writer(content, 77);
  SessionCard card;
  card.uid = kUid;
  card.id = "a";
  card.ttl = absl::Hours(1);
  writer.Created(card, 3);
  const std::string inputs = InputsOf({4, 5, 6});
  RequestRecord record;
  record.id = "once";
  record.begin = 10;
  record.end = 13;
  record.digest = {8, 9};
  record.finished = true;
  record.answer = "answer";
  writer.Absorbed(kUid, {.begin = 10,
                         .time = absl::FromUnixSeconds(99),
                         .rows = 3,
                         .inputs = inputs,
                         .record = record,
                         .unfinished_text = "\xe2\x82"});
  writer.Used(kUid, absl::FromUnixSeconds(101));
  writer.Removed(kUid);
  return content;
}

TEST(LogEntryTest, ARoundSaysWhatWasWritten) {
  std::vector<LogEntryKind> kinds;
  ASSERT_TRUE(ForEachEntry(
      MakeRound(), [&kinds](uint64_t numerics, const LogEntry& entry) {
        EXPECT_EQ(numerics, 77u);
        EXPECT_EQ(entry.uid, kUid);
        kinds.push_back(entry.kind);
        if (entry.kind == LogEntryKind::kCreated) {
          BinaryReader from(entry.body);
          EXPECT_EQ(from.Number<uint8_t>(), 3);
          SessionCard card;
          EXPECT_TRUE(ReadCard(from, card).ok());
          EXPECT_EQ(card.id, "a");
        } else if (entry.kind == LogEntryKind::kAbsorbed) {
          const auto span = SpanOf(entry.body);
          ASSERT_TRUE(span.has_value());
          EXPECT_EQ(span->begin, 10u);
          EXPECT_EQ(span->rows, 3u);
          EXPECT_EQ(span->time, absl::FromUnixSeconds(99));
        } else if (entry.kind == LogEntryKind::kUsed) {
          EXPECT_EQ(UseOf(entry.body), absl::FromUnixSeconds(101));
          EXPECT_EQ(UseOf(entry.body.substr(1)), std::nullopt);
        }
      }));
  EXPECT_EQ(kinds, (std::vector{LogEntryKind::kCreated, LogEntryKind::kAbsorbed,
                                LogEntryKind::kUsed, LogEntryKind::kRemoved}));
  EXPECT_TRUE(ForEachEntry("", [](uint64_t, const LogEntry&) { FAIL(); }));
}

TEST(LogEntryTest, ARoundThatIsCutIsSeen) {
  const std::string round = MakeRound();
  std::vector<size_t> ends = {sizeof(uint64_t)};
  ASSERT_TRUE(ForEachEntry(round, [&ends](uint64_t, const LogEntry& entry) {
    ends.push_back(ends.back() + 4 + 1 + 16 + entry.body.size());
  }));
  ASSERT_EQ(ends.back(), round.size());
  for (size_t size = 1; size < round.size(); ++size) {
    size_t entries = 0;
    const bool whole =
        ForEachEntry(absl::string_view(round).substr(0, size),
                     [&entries](uint64_t, const LogEntry&) { ++entries; });
    const bool between =
        std::find(ends.begin(), ends.end(), size) != ends.end();
    ASSERT_EQ(whole, between) << size;
  }
}

StateLayout MakeLayout() {
  StateLayoutBuilder builder;
  EXPECT_TRUE(builder.AddFixed(0, "S", {4}).ok());
  return std::move(builder).Build();
}

// A state of which nothing but its own fields matters.
std::shared_ptr<const std::string> Shared(const std::string& bodies) {
  return std::make_shared<const std::string>(bodies);
}

class LogTailTest : public testing::Test {
 protected:
  LogTailTest() { state_.SetSlot(*pool_.Allocate()); }

  static void AppendPiece(uint64_t begin, size_t rows,
                          const std::string& inputs, std::string& bodies) {
    std::string content;
    LogEntryWriter(content, 1)
        .Absorbed(kUid, {.begin = begin, .rows = rows, .inputs = inputs});
    EXPECT_TRUE(ForEachEntry(content, [&bodies](uint64_t, const LogEntry& e) {
      LogTail::Append(e.body, bodies);
    }));
  }

  const StateLayout layout_ = MakeLayout();
  const SessionLayout session_{layout_, 4, 16};
  StatePool pool_{session_.slot(), session_.charge_bytes(),
                  session_.charge_bytes()};
  SessionState state_{session_};
};

TEST_F(LogTailTest, PiecesComeAsTheyWere) {
  std::string bodies;
  AppendPiece(0, 3, InputsOf({7, 8, 9}), bodies);
  std::string embeddings;
  LogEntryWriter::Inputs({}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8},
                         embeddings);
  AppendPiece(3, 2, embeddings, bodies);
  std::string content;
  RequestRecord record;
  record.id = "once";
  record.begin = 5;
  record.end = 6;
  const std::string inputs = InputsOf({1});
  LogEntryWriter(content, 1)
      .Absorbed(kUid, {.begin = 5,
                       .rows = 1,
                       .inputs = inputs,
                       .record = record,
                       .unfinished_text = "\xe2"});
  ASSERT_TRUE(ForEachEntry(content, [&bodies](uint64_t, const LogEntry& e) {
    LogTail::Append(e.body, bodies);
  }));
  LogTail tail(Shared(bodies), 6);
  // A piece that does not fit in a batch is cut.
  LogTail::Rows rows = tail.Next(2);
  EXPECT_EQ(std::vector(rows.tokens.begin(), rows.tokens.end()),
            (std::vector<int32_t>{7, 8}));
  tail.Absorbed(2, state_);
  rows = tail.Next(2);
  EXPECT_EQ(std::vector(rows.tokens.begin(), rows.tokens.end()),
            (std::vector<int32_t>{9}));
  tail.Absorbed(1, state_);
  rows = tail.Next(1);
  EXPECT_EQ(rows.count, 1u);
  EXPECT_EQ(std::vector(rows.embeddings.begin(), rows.embeddings.end()),
            (std::vector<float>{1, 2, 3, 4}));
  tail.Absorbed(1, state_);
  EXPECT_EQ(tail.Next(9).embeddings.front(), 5);
  tail.Absorbed(1, state_);
  EXPECT_FALSE(tail.done());
  EXPECT_FALSE(state_.records().Find("once", 5).has_value());
  tail.Absorbed(1, state_);
  EXPECT_TRUE(tail.done());
  EXPECT_TRUE(state_.records().Find("once", 5).has_value());
  EXPECT_EQ(state_.unfinished_text(), "\xe2");
  // The state is where nobody has taken it.
  EXPECT_EQ(tail.CheckComplete(state_).code(), absl::StatusCode::kDataLoss);
}

// Forks absorb the same, each at its own time.
TEST_F(LogTailTest, ManyGoOnFromTheSameBodies) {
  std::string text;
  AppendPiece(0, 2, InputsOf({7, 8}), text);
  AppendPiece(2, 1, InputsOf({9}), text);
  const auto bodies = Shared(text);
  LogTail first(bodies, 3);
  LogTail second(bodies, 3);
  EXPECT_EQ(bodies.use_count(), 3) << "a tail has a copy of its own";
  first.Absorbed(2, state_);
  EXPECT_EQ(first.Next(9).tokens.front(), 9);
  EXPECT_EQ(second.Next(9).tokens.front(), 7);
  first.Absorbed(1, state_);
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
}

TEST_F(LogTailTest, NothingIsMadeOfNonsense) {
  std::string good;
  AppendPiece(0, 3, InputsOf({7, 8, 9}), good);
  AppendPiece(3, 1, InputsOf({7}), good);
  std::mt19937 random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string bodies = good;
    for (uint32_t change = random() % 4 + 1; change > 0; --change) {
      bodies[random() % bodies.size()] = static_cast<char>(random());
    }
    bodies.resize(random() % (bodies.size() + 1));
    LogTail tail(Shared(bodies), 4);
    for (int pieces = 0; !tail.done(); ++pieces) {
      ASSERT_LT(pieces, 100);
      const LogTail::Rows rows = tail.Next(64);
      ASSERT_GT(rows.count, 0u);
      tail.Absorbed(rows.count, state_);
    }
  }
}

}  // namespace
}  // namespace steadystate::log_entry_test
