#include "server/session/snapshot.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/model/sampler.h"
#include "server/session/record_form.h"
#include "server/session/sections.h"
#include "server/session/session_limits.h"

namespace steadystate {
namespace {

// Numbers of the format: none of them ever means anything else.
enum SectionKind : uint32_t {
  kOrigin = 1,
  kCard = 2,
  kSequence = 3,
  kRecords = 4,
  kHistory = 5,
  kSlot = 6,
  kEnd = 7,
};

// Beyond these there is no session's.
constexpr size_t kMaxFacts = 256;
constexpr size_t kMaxUnfinishedBytes = 3;  // of a UTF-8 character

uint8_t CodeOf(SlotType type) {
  switch (type) {
    case SlotType::kFloat32:
      return 1;
    case SlotType::kFloat64:
      return 2;
    case SlotType::kBfloat16:
      return 3;
    case SlotType::kInt16:
      return 4;
    case SlotType::kUint8:
      return 5;
    case SlotType::kInt8:
      return 6;
    case SlotType::kUnit:
      return 7;
  }
  return 0;
}

// The shape of what a slot has: for each token, if it has something for each.
std::span<const size_t> ShapeOf(const StateSlot& slot) {
  const std::span<const size_t> shape = slot.shape;
  return slot.growth == SlotGrowth::kPerToken ? shape.subspan(1) : shape;
}

// Bytes of a session's slot at a position, without what lies between its rows.
size_t UsedBytes(const StateSlot& slot, uint64_t position) {
  if (slot.growth == SlotGrowth::kFixed) return slot.bytes;
  return slot.bytes / slot.shape[0] * static_cast<size_t>(position);
}

// A section that is whole, and not what its kind has.
absl::Status Malformed() {
  return SnapshotCorrupt("a section is not as its kind should be");
}

// The model's states have another form here, as with another --state_dtype.
absl::Status OtherForm(absl::string_view what, absl::string_view slot) {
  return MakeError(
      ErrorReason::kNumericsMismatch,
      absl::StrCat("the snapshot's state is of another form than this "
                   "server's (",
                   what,
                   "): start the server with the --state_dtype, the "
                   "--cache_dtype and the readings that it was taken with"),
      {{"slot", std::string(slot)}});
}

absl::Status OtherSlots(absl::string_view where) {
  return OtherForm(absl::StrCat("slot ", where), where);
}

// Foreign text in a message.
std::string Shown(absl::string_view text) {
  return absl::CHexEscape(text.substr(0, kMaxLabelBytes + 1));
}

absl::Status Strange(absl::string_view what) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat("the snapshot is of no session: ", what),
      {{"field", "snapshot"}, {"value", std::string(what)}, {"bounds", ""}});
}

// Facts about the session's past. To a reader that knows nothing of them the
// numerics are others, which is the safe way to be wrong.
constexpr absl::string_view kMixed = "mixed";
constexpr absl::string_view kImported = "imported";
constexpr absl::string_view kYes = "1";

void WriteOrigin(const SnapshotOrigin& origin, const SnapshotFormat::Past& past,
                 std::string& to) {
  const SectionWriter section(kOrigin, to);
  BinaryWriter writer(to);
  writer.Text(origin.model);
  writer.Text(origin.fingerprint);
  Numerics numerics = origin.numerics;
  if (past.other_numerics) numerics.Add(kMixed, kYes);
  if (past.imported) numerics.Add(kImported, kYes);
  const auto& facts = numerics.facts();
  writer.Number(static_cast<uint32_t>(facts.size()));
  for (const auto& [name, value] : facts) {
    writer.Text(name);
    writer.Text(value);
  }
}

void WriteSequence(const SessionContents& contents, std::string& to) {
  const SectionWriter section(kSequence, to);
  BinaryWriter writer(to);
  writer.Number(contents.position);
  writer.Number(static_cast<uint32_t>(contents.pending_hidden.size()));
  writer.Numbers(std::span(contents.pending_hidden));
  writer.Number(static_cast<uint32_t>(contents.recent.size()));
  writer.Numbers(std::span(contents.recent));
  writer.Text(contents.unfinished_text);
}

void WriteRecords(const SessionContents& contents, std::string& to) {
  const SectionWriter section(kRecords, to);
  BinaryWriter writer(to);
  writer.Number(static_cast<uint32_t>(contents.records.size()));
  for (const RequestRecord& record : contents.records) {
    WriteRecord(record, writer);
  }
}

absl::Status ReadRecords(BinaryReader from, std::vector<RequestRecord>& to) {
  const auto count = from.Number<uint32_t>();
  if (count > RequestRecords::kMaxRecords) {
    return Strange("it has too many records of requests");
  }
  for (uint32_t i = 0; i < count; ++i) to.push_back(ReadRecord(from));
  return from.complete() ? absl::OkStatus() : Malformed();
}

// The lowest bit of a byte first.
void WriteBits(const std::vector<bool>& bits, BinaryWriter& to) {
  std::vector<uint8_t> bytes((bits.size() + 7) / 8);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) bytes[i / 8] |= static_cast<uint8_t>(1u << i % 8);
  }
  to.Numbers(std::span<const uint8_t>(bytes));
}

// Bits [first, count) of `count`.
std::vector<bool> ReadBits(size_t first, size_t count, BinaryReader& from) {
  std::vector<uint8_t> bytes((count + 7) / 8);
  from.Numbers(std::span(bytes));
  std::vector<bool> bits;
  bits.reserve(count - first);
  for (size_t i = first; i < count; ++i) {
    bits.push_back((bytes[i / 8] >> i % 8 & 1) != 0);
  }
  return bits;
}

void WriteHistory(const SessionContents& contents, std::string& to) {
  const SectionWriter section(kHistory, to);
  BinaryWriter writer(to);
  writer.Number(static_cast<uint32_t>(contents.history.size()));
  writer.Numbers(std::span(contents.history));
  WriteBits(contents.cuts, writer);
  WriteBits(contents.drawn, writer);
}

// One of each kind in their order, and any number of slots.
absl::Status CheckOrder(std::span<const Section> sections) {
  uint32_t last = 0;
  for (const Section& section : sections) {
    const bool in_order = section.kind == last + 1 ||
                          (last == kSlot && section.kind == kSlot) ||
                          (last == kHistory && section.kind == kEnd);
    if (!in_order) {
      return SnapshotCorrupt(absl::StrCat(
          "section ", section.kind, " stands where none of its kind may"));
    }
    last = section.kind;
  }
  return last == kEnd ? absl::OkStatus()
                      : SnapshotCorrupt("its end is missing");
}

uint64_t TagOf(const Numerics& numerics) {
  constexpr size_t kTagDigits = 2 * sizeof(uint64_t);
  const absl::StatusOr<std::string> fingerprint = numerics.Fingerprint();
  uint64_t tag = 0;
  if (numerics.facts().empty() || !fingerprint.ok() ||
      !absl::SimpleHexAtoi(fingerprint->substr(0, kTagDigits), &tag)) {
    return 0;
  }
  return tag;
}

}  // namespace

SnapshotFormat::SnapshotFormat(const SessionLayout& layout,
                               SnapshotOrigin origin)
    : layout_(layout),
      origin_(std::move(origin)),
      numerics_tag_(TagOf(origin_.numerics)) {}

std::string SnapshotFormat::Write(const SessionCard& card,
                                  const SessionState& state,
                                  const Past& past) const {
  const SessionContents contents = state.contents();
  std::string bytes;
  bytes.reserve(bytes_at(contents.position));
  WritePreamble(bytes);
  WriteOrigin(origin_, past, bytes);
  {
    const SectionWriter section(kCard, bytes);
    WriteCard(card, bytes);
  }
  WriteSequence(contents, bytes);
  WriteRecords(contents, bytes);
  WriteHistory(contents, bytes);
  if (contents.position > 0) {
    for (const StateSlot& slot : layout_.state().slots()) {
      WriteSlot(slot, state, bytes);
    }
  }
  { const SectionWriter end(kEnd, bytes); }
  return bytes;
}

void SnapshotFormat::WriteSlot(const StateSlot& slot, const SessionState& state,
                               std::string& to) const {
  const SectionWriter section(kSlot, to);
  BinaryWriter writer(to);
  const bool grows = slot.growth == SlotGrowth::kPerToken;
  const std::span<const size_t> shape = ShapeOf(slot);
  writer.Number(uint64_t{slot.layer});
  writer.Text(slot.name);
  writer.Number(CodeOf(slot.type));
  writer.Number(static_cast<uint8_t>(grows ? 1 : 0));
  writer.Number(static_cast<uint32_t>(shape.size()));
  for (const size_t dimension : shape) writer.Number(uint64_t{dimension});
  const size_t bytes = UsedBytes(slot, state.position());
  writer.Number(uint64_t{bytes});
  const std::byte* const from = state.model_state() + slot.offset;
  if (!grows) {
    writer.Bytes(from, bytes);
    return;
  }
  const size_t row = slot.bytes / slot.shape[0];
  for (size_t i = 0; i < state.position(); ++i) {
    writer.Bytes(from + i * slot.row_stride, row);
  }
}

namespace {

// What each slot's description takes at most, and what stands before the slots.
constexpr size_t kSlotBytes = 512;
constexpr size_t kMostBeforeSlots = size_t{64} << 10;

}  // namespace

size_t SnapshotFormat::max_bytes(uint64_t context_cap) const {
  constexpr size_t kHistoryBytes = kMaxHistory * (sizeof(int32_t) + 1);
  return layout_.charge_bytes(context_cap) + kHistoryBytes +
         layout_.state().slots().size() * kSlotBytes + kMostBeforeSlots;
}

size_t SnapshotFormat::bytes_at(uint64_t position) const {
  const uint64_t cap = layout_.max_context_cap();
  const uint64_t within = cap == 0 ? position : std::min(position, cap);
  // A session's slot has its history and records as well, in about as many
  // bytes; the card comes on top.
  constexpr size_t kHeadBytes = size_t{12} << 10;
  return layout_.used_bytes(std::max<uint64_t>(within, 1)) +
         layout_.state().slots().size() * kSlotBytes + kHeadBytes;
}

absl::StatusOr<Snapshot> SnapshotFormat::Read(absl::string_view bytes) const {
  // Of another layout's slots there may be some more, to be told apart.
  const size_t most = kEnd + 2 * layout_.state().slots().size();
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Section> sections,
                               ReadSections(bytes, most));
  STEADYSTATE_RETURN_IF_ERROR(CheckOrder(sections));
  Snapshot snapshot;
  for (const Section& section : sections) {
    STEADYSTATE_RETURN_IF_ERROR(
        ReadSection(section.kind, BinaryReader(section.payload), snapshot));
  }
  STEADYSTATE_RETURN_IF_ERROR(Check(snapshot));
  return snapshot;
}

absl::StatusOr<SnapshotFormat::Head> SnapshotFormat::ReadHead(
    absl::string_view bytes) const {
  const size_t most = kMostBeforeSlots + layout_.hidden_size() * sizeof(float);
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<Section> sections,
      ReadFirstSections(bytes.substr(0, most), kSequence));
  Snapshot snapshot;
  for (const Section& section : sections) {
    if (section.kind != kCard && section.kind != kSequence) continue;
    STEADYSTATE_RETURN_IF_ERROR(
        ReadSection(section.kind, BinaryReader(section.payload), snapshot));
  }
  return Head{.card = std::move(snapshot.card),
              .position = snapshot.contents.position};
}

absl::Status SnapshotFormat::CheckForm(const Snapshot& snapshot) const {
  const std::string there = snapshot.numerics.Find(kStateDtypeFact);
  const std::string here = origin_.numerics.Find(kStateDtypeFact);
  if (there.empty() || here.empty() || there == here) return absl::OkStatus();
  return OtherForm(absl::StrCat("in ", Shown(there), ", here in ", here),
                   "all");
}

absl::Status SnapshotFormat::ReadSection(uint32_t kind, BinaryReader from,
                                         Snapshot& to) const {
  switch (kind) {
    case kOrigin:
      return ReadOrigin(from, to);
    case kCard:
      return ReadCard(from, to.card);
    case kSequence:
      return ReadSequence(from, to.contents);
    case kRecords:
      return ReadRecords(from, to.contents.records);
    case kHistory:
      return ReadHistory(from, to.contents);
    case kSlot:
      return ReadSlot(from, to);
    default:
      return from.complete() ? absl::OkStatus() : Malformed();
  }
}

absl::Status SnapshotFormat::ReadOrigin(BinaryReader from, Snapshot& to) const {
  const std::string model(from.Text());
  const std::string fingerprint(from.Text());
  const auto count = from.Number<uint32_t>();
  if (count > kMaxFacts) return Malformed();
  for (uint32_t i = 0; i < count; ++i) {
    const absl::string_view name = from.Text();
    const absl::string_view value = from.Text();
    if (name == kMixed) {
      to.other_numerics = true;
    } else if (name == kImported) {
      to.contents.imported = true;
    } else {
      to.numerics.Add(name, value);
    }
  }
  if (!from.complete()) return Malformed();
  to.other_numerics =
      to.other_numerics || to.numerics.facts() != origin_.numerics.facts();
  if (fingerprint == origin_.fingerprint) return absl::OkStatus();
  return MakeError(
      ErrorReason::kModelFingerprintMismatch,
      absl::StrCat(
          "the snapshot is of model '", Shown(model), "' with fingerprint ",
          Shown(fingerprint), "; this server has '", origin_.model, "' with ",
          origin_.fingerprint, ": only the same weights can go on from it"),
      {{"fingerprint", Shown(fingerprint)}, {"bounds", origin_.fingerprint}});
}

absl::Status SnapshotFormat::ReadSequence(BinaryReader from,
                                          SessionContents& to) const {
  to.position = from.Number<uint64_t>();
  const auto hidden = from.Number<uint32_t>();
  if (hidden != 0 && hidden != layout_.hidden_size()) {
    return Strange("its hidden vector has another size than the model's");
  }
  to.pending_hidden.resize(hidden);
  from.Numbers(std::span(to.pending_hidden));
  const auto recent = from.Number<uint32_t>();
  if (recent > kMaxPenaltyWindow || recent > to.position) {
    return Strange("it has too many recent tokens");
  }
  to.recent.resize(recent);
  from.Numbers(std::span(to.recent));
  to.unfinished_text = std::string(from.Text());
  if (!from.complete()) return Malformed();
  if (to.position > kMaxPosition ||
      to.unfinished_text.size() > kMaxUnfinishedBytes) {
    return Strange("its position or text is out of bounds");
  }
  const uint64_t cap = layout_.max_context_cap();
  if (cap == 0 || to.position <= cap) return absl::OkStatus();
  return MakeError(ErrorReason::kContextCapReached,
                   absl::StrCat("the snapshot is at position ", to.position,
                                ", and sessions of this server hold ", cap,
                                " tokens at most: raise --max_context_cap"),
                   {{"context_cap", absl::StrCat(cap)},
                    {"position", absl::StrCat(to.position)}});
}

absl::Status SnapshotFormat::ReadHistory(BinaryReader from,
                                         SessionContents& to) const {
  const auto count = from.Number<uint32_t>();
  if (count > kMaxHistory || count > to.position) {
    return Strange("its history is too long");
  }
  to.history.resize(count);
  from.Numbers(std::span(to.history));
  // Of more than there is room for, the end.
  const size_t kept = std::min<size_t>(count, layout_.history());
  const size_t first = count - kept;
  to.history.erase(to.history.begin(),
                   to.history.begin() + static_cast<ptrdiff_t>(first));
  to.cuts = ReadBits(first, count, from);
  // The first servers did not say.
  if (from.left() > 0) to.drawn = ReadBits(first, count, from);
  return from.complete() ? absl::OkStatus() : Malformed();
}

absl::Status SnapshotFormat::ReadSlot(BinaryReader from, Snapshot& to) const {
  const std::vector<StateSlot>& slots = layout_.state().slots();
  if (to.slots.size() == slots.size()) return OtherSlots("there are more");
  const StateSlot& slot = slots[to.slots.size()];
  const std::span<const size_t> shape = ShapeOf(slot);
  const bool grows = slot.growth == SlotGrowth::kPerToken;
  bool equal = from.Number<uint64_t>() == slot.layer;
  equal = from.Text() == slot.name && equal;
  equal = from.Number<uint8_t>() == CodeOf(slot.type) && equal;
  equal = (from.Number<uint8_t>() != 0) == grows && equal;
  equal = from.Number<uint32_t>() == shape.size() && equal;
  for (size_t i = 0; equal && i < shape.size(); ++i) {
    equal = from.Number<uint64_t>() == shape[i];
  }
  if (!equal) return OtherSlots(absl::StrCat(slot.layer, ".", slot.name));
  const size_t bytes = UsedBytes(slot, to.contents.position);
  if (from.Number<uint64_t>() != bytes) return Malformed();
  to.slots.push_back(from.Bytes(bytes));
  return from.complete() ? absl::OkStatus() : Malformed();
}

// What no checksum says: whoever made it may have made up anything.
absl::Status SnapshotFormat::Check(const Snapshot& snapshot) const {
  const SessionContents& contents = snapshot.contents;
  const size_t slots =
      contents.position == 0 ? 0 : layout_.state().slots().size();
  if (snapshot.slots.size() != slots) return OtherSlots("there are fewer");
  STEADYSTATE_RETURN_IF_ERROR(CheckTokens(contents.recent, 0));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckTokens(contents.history, TokenHistory::kEmbedding));
  for (const RequestRecord& record : contents.records) {
    if (record.id.empty() || record.id.size() > kMaxRequestIdBytes ||
        record.answer.size() > RequestRecords::kMaxAnswerBytes ||
        record.begin > record.end || record.end > contents.position) {
      return Strange("a request that it records is out of bounds");
    }
  }
  return absl::OkStatus();
}

absl::Status SnapshotFormat::CheckTokens(const std::vector<int32_t>& tokens,
                                         int32_t least) const {
  for (const int32_t token : tokens) {
    if (token >= least && token < static_cast<int64_t>(origin_.vocab_size)) {
      continue;
    }
    return Strange(absl::StrCat("it has absorbed token ", token, " of ",
                                origin_.vocab_size));
  }
  return absl::OkStatus();
}

void SnapshotFormat::Restore(const Snapshot& snapshot, SessionState& to) const {
  to.Restore(snapshot.contents);
  for (size_t i = 0; i < snapshot.slots.size(); ++i) {
    const StateSlot& slot = layout_.state().slots()[i];
    const absl::string_view from = snapshot.slots[i];
    std::byte* const state = to.model_state() + slot.offset;
    if (slot.growth == SlotGrowth::kFixed) {
      std::memcpy(state, from.data(), from.size());
      continue;
    }
    const size_t row = slot.bytes / slot.shape[0];
    for (size_t begin = 0, r = 0; begin < from.size(); begin += row, ++r) {
      std::memcpy(state + r * slot.row_stride, from.data() + begin, row);
    }
  }
}

}  // namespace steadystate
