// Goal: a session that was written down and read again is the same to the byte,
// whatever it has absorbed; what is damaged is told from what another model or
// another form has; and no bytes, however well their checksums fit, do harm.
// Method: random sessions of a layout with every type of slot; every flipped
// bit and every length of a small snapshot; payloads changed at random under
// right checksums; a file of the first version that must be read for ever.
#include "server/session/snapshot.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/error.h"
#include "server/model/sampler.h"
#include "server/session/sections.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::snapshot_test {
namespace {

constexpr size_t kHidden = 6;
constexpr size_t kVocab = 50;

struct Shape {
  StateDType dtype = StateDType::kF32;
  std::vector<size_t> matrix = {2, 3};
  bool grows = true;
  uint64_t cap = 40;
  size_t history = 16;
  bool extra = false;
};

StateLayout MakeStateLayout(const Shape& shape) {
  StateLayoutBuilder builder(shape.dtype);
  EXPECT_TRUE(builder.AddMatrices(0, "S", shape.matrix).ok());
  EXPECT_TRUE(builder.AddFixedDoubles(1, "sum", {3}).ok());
  EXPECT_TRUE(builder.AddFixed(1, "conv", {2, 2}).ok());
  if (shape.grows) {
    EXPECT_TRUE(builder.AddPerToken(2, "k", shape.cap, {2}).ok());
    EXPECT_TRUE(builder.AddPerToken(2, "v", shape.cap, {3}).ok());
  }
  if (shape.extra) {
    EXPECT_TRUE(builder.AddFixed(3, "more", {2}).ok());
  }
  return std::move(builder).Build();
}

SnapshotOrigin MakeOrigin(const std::string& fingerprint = "f00d",
                          const std::string& isa = "avx2") {
  SnapshotOrigin origin;
  origin.model = "tiny";
  origin.fingerprint = fingerprint;
  origin.numerics.Add("isa", isa);
  origin.vocab_size = kVocab;
  return origin;
}

// A pool, a layout and a format for it.
struct Room {
  explicit Room(const Shape& shape = {}, SnapshotOrigin origin = MakeOrigin())
      : state_layout(MakeStateLayout(shape)),
        layout(state_layout, kHidden, shape.history),
        pool(layout.slot(), layout.charge_bytes(), 8 * layout.charge_bytes()),
        format(layout, std::move(origin)) {}

  SessionState NewState() { return SessionState(layout, *pool.Allocate()); }

  StateLayout state_layout;
  SessionLayout layout;
  StatePool pool;
  SnapshotFormat format;
};

SessionCard MakeCard() {
  SessionCard card;
  card.uid = {0x0123456789abcdef, 0xfedcba9876543210};
  card.id = "my-session";
  card.owner = "somebody";
  card.labels = {{"a", "1"}, {"user", "ada"}};
  card.ttl = absl::Minutes(5);
  card.create_time = absl::FromUnixNanos(1'700'000'000'123'456'789);
  card.last_step_time = card.create_time + absl::Seconds(3);
  return card;
}

void FillSlots(const SessionLayout& layout, std::mt19937& random,
               SessionState& state) {
  for (const StateSlot& slot : layout.state().slots()) {
    std::byte* const bytes = state.model_state() + slot.offset;
    const bool grows = slot.growth == SlotGrowth::kPerToken;
    const size_t rows = grows ? state.position() : 1;
    const size_t row = grows ? slot.bytes / slot.shape[0] : slot.bytes;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < row; ++i) {
        bytes[r * slot.row_stride + i] = static_cast<std::byte>(random());
      }
    }
  }
}

// Absorbs `rows` inputs in pieces, with records of requests.
void Advance(std::mt19937& random, size_t rows, SessionState& state,
             bool draws = true) {
  std::vector<float> hidden(kHidden);
  while (rows > 0) {
    const size_t piece = std::min<size_t>(rows, 1 + random() % 5);
    std::vector<int32_t> tokens;
    if (random() % 4 != 0) {
      for (size_t i = 0; i < piece; ++i) {
        tokens.push_back(static_cast<int32_t>(random() % kVocab));
      }
    }
    for (float& value : hidden) value = static_cast<float>(random()) / 1e9f;
    state.WillAbsorb(piece);
    const uint64_t begin = state.position();
    state.Absorbed(piece, tokens, random() % 5 == 0 ? nullptr : hidden.data(),
                   draws && piece == 1);
    state.records().Put({.id = absl::StrCat("request-", begin),
                         .begin = begin,
                         .end = state.position(),
                         .digest = {random(), random()},
                         .finished = random() % 2 == 0,
                         .answer = "answer"});
    rows -= piece;
  }
  if (random() % 2 == 0) state.set_unfinished_text("\xe2\x82");
}

std::unique_ptr<SessionState> MakeState(Room& room, uint32_t seed, size_t rows,
                                        bool draws = true) {
  std::mt19937 random(seed);
  auto state =
      std::make_unique<SessionState>(room.layout, *room.pool.Allocate());
  Advance(random, rows, *state, draws);
  FillSlots(room.layout, random, *state);
  return state;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  return details.has_value() ? details->reason : ErrorReason::kInternal;
}

void ExpectSameSlots(const SessionLayout& layout, const SessionState& a,
                     const SessionState& b) {
  ASSERT_EQ(a.position(), b.position());
  const size_t bytes = layout.state().used_bytes(a.position());
  EXPECT_EQ(std::memcmp(a.model_state(), b.model_state(), bytes), 0);
}

// What a store is charged, and an export holds.
TEST(SnapshotTest, WhatItTakesIsKnownBeforehand) {
  constexpr size_t kHistory = 100'000;
  Room room({.matrix = {512, 512}, .grows = false, .history = kHistory});
  const auto state = MakeState(room, 1, kHistory);
  SessionCard card = MakeCard();
  card.id = card.owner = std::string(63, 'i');
  for (char label = 'a'; card.labels.size() < kMaxLabels; ++label) {
    card.labels[std::string(63, label)] = std::string(63, 'v');
  }
  for (uint64_t i = 0; i < RequestRecords::kMaxRecords; ++i) {
    state->records().Put({.id = std::string(kMaxRequestIdBytes, 'r'),
                          .begin = i,
                          .end = i,
                          .answer = "answer"});
  }
  const size_t bytes = room.format.Write(card, *state).size();
  EXPECT_LE(bytes, room.format.bytes_at(kHistory));
  EXPECT_GE(bytes, room.format.bytes_at(kHistory) * 97 / 100);
}

TEST(SnapshotTest, ASessionComesBackToTheByte) {
  for (const StateDType dtype :
       {StateDType::kF32, StateDType::kBf16, StateDType::kInt16}) {
    for (const size_t rows : {1u, 7u, 16u, 17u, 40u}) {
      Room room({.dtype = dtype});
      const auto made = MakeState(room, static_cast<uint32_t>(rows), rows);
      const SessionState& state = *made;
      const std::string bytes = room.format.Write(MakeCard(), state);
      EXPECT_LE(bytes.size(), room.format.max_bytes(room.layout.context_cap()));
      EXPECT_LE(bytes.size(), room.format.bytes_at(rows));
      const auto snapshot = room.format.Read(bytes);
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      EXPECT_FALSE(snapshot->other_numerics);
      SessionState again = room.NewState();
      room.format.Restore(*snapshot, again);
      ExpectSameSlots(room.layout, state, again);
      EXPECT_EQ(again.history_begin(), state.history_begin());
      EXPECT_EQ(again.unfinished_text(), state.unfinished_text());
      EXPECT_EQ(room.format.Write(snapshot->card, again), bytes);
    }
  }
}

TEST(SnapshotTest, TheCardComesBack) {
  Room room;
  const SessionCard card = MakeCard();
  const std::string bytes = room.format.Write(card, *MakeState(room, 1, 3));
  const auto snapshot = room.format.Read(bytes);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->card.uid, card.uid);
  EXPECT_EQ(snapshot->card.epoch, 0u);
  EXPECT_EQ(snapshot->card.owner, card.owner);
  EXPECT_EQ(snapshot->card.id, card.id);
  EXPECT_EQ(snapshot->card.labels, card.labels);
  EXPECT_EQ(snapshot->card.ttl, card.ttl);
  EXPECT_EQ(snapshot->card.create_time, card.create_time);
  EXPECT_EQ(snapshot->card.last_step_time, card.last_step_time);
}

TEST(SnapshotTest, ASessionAtItsBeginningNeedsNoSlot) {
  Room room;
  const SessionState state(room.layout);
  const std::string bytes = room.format.Write(MakeCard(), state);
  const auto snapshot = room.format.Read(bytes);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  SessionState again(room.layout);
  room.format.Restore(*snapshot, again);
  EXPECT_EQ(again.position(), 0u);
  EXPECT_EQ(room.format.Write(snapshot->card, again), bytes);
}

TEST(SnapshotTest, WhatWasRestoredGoesOnAsTheOriginal) {
  Room room;
  const auto made = MakeState(room, 5, 20);
  SessionState& state = *made;
  const std::string bytes = room.format.Write(MakeCard(), state);
  const auto snapshot = room.format.Read(bytes);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  SessionState again = room.NewState();
  room.format.Restore(*snapshot, again);
  for (SessionState* const each : {&state, &again}) {
    std::mt19937 random(77);
    Advance(random, 15, *each);
    FillSlots(room.layout, random, *each);
  }
  EXPECT_EQ(room.format.Write(MakeCard(), again),
            room.format.Write(MakeCard(), state));
}

TEST(SnapshotTest, OnlyRowsThatAreUsedAreWritten) {
  Room small({.cap = 40});
  Room large({.cap = 4000});
  const std::string bytes =
      small.format.Write(MakeCard(), *MakeState(small, 3, 10));
  EXPECT_EQ(large.format.Write(MakeCard(), *MakeState(large, 3, 10)), bytes);
  EXPECT_TRUE(large.format.Read(bytes).ok());
}

TEST(SnapshotTest, EveryFlippedBitIsDataLoss) {
  Room room;
  const std::string whole =
      room.format.Write(MakeCard(), *MakeState(room, 4, 5));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const auto read = room.format.Read(bytes);
    ASSERT_EQ(read.status().code(), absl::StatusCode::kDataLoss)
        << "bit " << bit << ": " << read.status();
  }
}

TEST(SnapshotTest, EveryOtherLengthIsDataLoss) {
  Room room;
  const std::string whole =
      room.format.Write(MakeCard(), *MakeState(room, 4, 5));
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto read = room.format.Read(whole.substr(0, size));
    ASSERT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(room.format.Read(whole + '\0').status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(room.format.Read(whole + whole).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(SnapshotTest, OtherWeightsAreRefused) {
  Room here;
  Room there({}, MakeOrigin("beef"));
  const std::string bytes =
      there.format.Write(MakeCard(), *MakeState(there, 1, 3));
  const auto read = here.format.Read(bytes);
  EXPECT_EQ(ReasonOf(read.status()), ErrorReason::kModelFingerprintMismatch);
  const auto details = GetErrorDetails(read.status());
  EXPECT_EQ(details->metadata[0].second, "beef");
}

TEST(SnapshotTest, OtherNumericsAreMarked) {
  Room here;
  Room there({}, MakeOrigin("f00d", "avx512"));
  const std::string bytes =
      there.format.Write(MakeCard(), *MakeState(there, 1, 3));
  const auto read = here.format.Read(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->other_numerics);
}

TEST(SnapshotTest, StatesOfAnotherFormAreRefused) {
  Room here;
  for (const Shape& shape :
       {Shape{.dtype = StateDType::kInt16}, Shape{.matrix = {3, 2}},
        Shape{.grows = false}, Shape{.extra = true}}) {
    Room there(shape);
    const std::string bytes =
        there.format.Write(MakeCard(), *MakeState(there, 1, 3));
    EXPECT_EQ(ReasonOf(here.format.Read(bytes).status()),
              ErrorReason::kNumericsMismatch);
  }
}

TEST(SnapshotTest, BeyondTheContextCapIsRefused) {
  Room here({.cap = 9});
  Room there({.cap = 10});
  const auto bytes_at = [&there](size_t rows) {
    return there.format.Write(MakeCard(), *MakeState(there, 1, rows));
  };
  EXPECT_TRUE(here.format.Read(bytes_at(9)).ok());
  EXPECT_EQ(ReasonOf(here.format.Read(bytes_at(10)).status()),
            ErrorReason::kContextCapReached);
}

// The end of a longer history is kept, and of a shorter one no more is claimed.
TEST(SnapshotTest, HistoriesOfOtherLengths) {
  Room longer({.history = 16});
  Room shorter({.history = 4});
  const auto move = [](Room& from, Room& to) {
    const auto made = MakeState(from, 9, 20);
    const SessionState& state = *made;
    const std::string bytes = from.format.Write(MakeCard(), state);
    const auto snapshot = to.format.Read(bytes);
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    SessionState again = to.NewState();
    to.format.Restore(*snapshot, again);
    EXPECT_EQ(again.history_begin(), 16u);
    std::vector<int32_t> expected(4);
    std::vector<int32_t> kept(4);
    state.CopyHistory(16, expected);
    again.CopyHistory(16, kept);
    EXPECT_EQ(kept, expected);
  };
  move(longer, shorter);
  move(shorter, longer);
}

TEST(SnapshotTest, SaysWhatItsPastWas) {
  Room room;
  const auto made = MakeState(room, 2, 3);
  for (const bool mixed : {false, true}) {
    for (const bool imported : {false, true}) {
      const std::string bytes = room.format.Write(
          MakeCard(), *made, {.other_numerics = mixed, .imported = imported});
      const auto snapshot = room.format.Read(bytes);
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      EXPECT_EQ(snapshot->other_numerics, mixed);
      SessionState again = room.NewState();
      room.format.Restore(*snapshot, again);
      EXPECT_EQ(again.imported(), imported);
      SessionState copy = room.NewState();
      copy.CopyFrom(again);
      EXPECT_EQ(copy.imported(), imported);
      again.Reset();
      EXPECT_FALSE(again.imported());
    }
  }
}

TEST(SnapshotTest, TokensThatTheModelHasNotAreRefused) {
  Room room;
  SessionState state = room.NewState();
  const std::vector<float> hidden(kHidden, 1);
  state.WillAbsorb(1);
  state.Absorbed(1, std::vector<int32_t>{kVocab}, hidden.data());
  EXPECT_EQ(
      ReasonOf(room.format.Read(room.format.Write(MakeCard(), state)).status()),
      ErrorReason::kInvalidArgument);
}

TEST(SnapshotTest, RecordsOutOfBoundsAreRefused) {
  for (const RequestRecord& record :
       {RequestRecord{.id = "", .begin = 0, .end = 1},
        RequestRecord{.id = "a", .begin = 1, .end = 0},
        RequestRecord{.id = "a", .begin = 0, .end = 9}}) {
    Room room;
    const auto made = MakeState(room, 2, 3);
    SessionState& state = *made;
    state.records().Put(record);
    EXPECT_EQ(
        ReasonOf(
            room.format.Read(room.format.Write(MakeCard(), state)).status()),
        ErrorReason::kInvalidArgument);
  }
}

// Puts right checksums under whatever the sections hold.
std::string WithChecksums(std::string bytes) {
  constexpr size_t kPreamble = 16;
  constexpr size_t kHead = 12;
  for (size_t at = kPreamble; at + kHead + 4 <= bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, &bytes[at + 4], sizeof(length));
    if (length > bytes.size() - at - kHead - 4) return bytes;
    const size_t end = at + kHead + static_cast<size_t>(length);
    const uint32_t crc =
        Crc32cOf(absl::string_view(bytes).substr(at, end - at));
    std::memcpy(&bytes[end], &crc, sizeof(crc));
    at = end + sizeof(crc);
  }
  return bytes;
}

// Three sections under right checksums, the last a sequence that ends with a
// text of so many bytes.
std::string WithText(size_t bytes) {
  constexpr uint32_t kOrigin = 1;
  constexpr uint32_t kSequence = 3;
  std::string made;
  WritePreamble(made);
  { const SectionWriter origin(kOrigin, made); }
  { const SectionWriter in_place_of_a_card(kOrigin, made); }
  {
    const SectionWriter sequence(kSequence, made);
    BinaryWriter writer(made);
    writer.Number(uint64_t{7});  // position
    writer.Number(uint32_t{0});  // no hidden vector
    writer.Number(uint32_t{0});  // no recent tokens
    writer.Text(std::string(bytes, 'x'));
  }
  return made;
}

TEST(SnapshotTest, TheHeadSaysWhatTheWholeSays) {
  Room room;
  const std::string whole =
      room.format.Write(MakeCard(), *MakeState(room, 4, 9));
  const auto head = room.format.ReadHead(whole);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->position, room.format.Read(whole)->contents.position);
  EXPECT_EQ(head->card.id, MakeCard().id);
}

TEST(SnapshotTest, NoMoreIsLookedAtForTheHeadThanItCanTake) {
  Room room;
  ASSERT_TRUE(room.format.ReadHead(WithText(2)).ok());
  // A text that is read is found to be too long.
  EXPECT_THAT(room.format.ReadHead(WithText(1'000)).status().message(),
              testing::HasSubstr("out of bounds"));
  EXPECT_THAT(room.format.ReadHead(WithText(100'000)).status().message(),
              testing::HasSubstr("ends within a section"));
}

TEST(SnapshotTest, WhatIsMadeUpDoesNoHarm) {
  Room room;
  const std::string whole =
      room.format.Write(MakeCard(), *MakeState(room, 4, 9));
  ASSERT_EQ(WithChecksums(whole), whole);
  std::mt19937 random(11);
  size_t restored = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      bytes[16 + random() % (bytes.size() - 16)] =
          static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    bytes = WithChecksums(std::move(bytes));
    const auto snapshot = room.format.Read(bytes);
    if (!snapshot.ok()) continue;
    SessionState state = room.NewState();
    room.format.Restore(*snapshot, state);
    // Whatever is taken for a session is one: it can be written and read.
    const std::string again = room.format.Write(snapshot->card, state);
    ASSERT_TRUE(room.format.Read(again).ok()) << i;
    ++restored;
  }
  EXPECT_GT(restored, 1000u);
}

// The first version, as it was written once, before it said which inputs were
// drawn and since. Never to be made anew: STEADYSTATE_WRITE_SNAPSHOT=FILE
// writes what this version writes today.
class FirstVersionTest : public testing::TestWithParam<bool> {};

TEST_P(FirstVersionTest, IsReadForEver) {
  const bool draws = GetParam();
  Room room({.dtype = StateDType::kInt16});
  const auto made = MakeState(room, 2026, 21, draws);
  const SessionState& state = *made;
  const std::string today = room.format.Write(MakeCard(), state);
  if (const char* const path = getenv("STEADYSTATE_WRITE_SNAPSHOT")) {
    std::ofstream(path, std::ios::binary) << today;
  }
  const std::string kept = ReadWholeFile(
      absl::StrCat(STEADYSTATE_SOURCE_DIR "/tests/data/snapshots/version-1",
                   draws ? "-draws" : ""));
  const auto snapshot = room.format.Read(kept);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  SessionState again = room.NewState();
  room.format.Restore(*snapshot, again);
  ExpectSameSlots(room.layout, state, again);
  EXPECT_EQ(room.format.Write(snapshot->card, again), today);
}

INSTANTIATE_TEST_SUITE_P(Files, FirstVersionTest, testing::Bool());

}  // namespace
}  // namespace steadystate::snapshot_test
