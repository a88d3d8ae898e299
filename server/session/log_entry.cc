#include "server/session/log_entry.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/binary.h"
#include "server/session/record_form.h"
#include "server/session/sections.h"

namespace steadystate {
namespace {

// What an absorbed entry has beside its inputs.
enum : uint8_t { kHasRecord = 1, kHasText = 2, kIsDrawn = 4 };
enum class InputKind : uint8_t { kTokens = 0, kEmbeddings = 1 };

SessionUid ReadUid(BinaryReader& from) {
  SessionUid uid;
  for (uint64_t& part : uid) part = from.Number<uint64_t>();
  return uid;
}

}  // namespace

LogEntryWriter::LogEntryWriter(std::string& to, uint64_t numerics) : to_(to) {
  if (to_.empty()) BinaryWriter(to_).Number(numerics);
}

// An entry is: its length (u32), kind (u8), uid, body. Returns where it begins.
size_t LogEntryWriter::Begin(LogEntryKind kind, const SessionUid& uid) {
  const size_t begin = to_.size();
  BinaryWriter writer(to_);
  writer.Number(uint32_t{0});
  writer.Number(static_cast<uint8_t>(kind));
  for (const uint64_t part : uid) writer.Number(part);
  return begin;
}

void LogEntryWriter::End(size_t begin) {
  const auto size =
      static_cast<uint32_t>(to_.size() - begin - sizeof(uint32_t));
  std::memcpy(&to_[begin], &size, sizeof(size));
}

void LogEntryWriter::Created(const SessionCard& card, uint8_t durability) {
  const size_t begin = Begin(LogEntryKind::kCreated, card.uid);
  BinaryWriter(to_).Number(durability);
  WriteCard(card, to_);
  End(begin);
}

void LogEntryWriter::Absorbed(const SessionUid& uid, const Piece& piece) {
  const size_t begin = Begin(LogEntryKind::kAbsorbed, uid);
  BinaryWriter writer(to_);
  writer.Number(piece.begin);
  writer.Number(static_cast<uint32_t>(piece.rows));
  writer.Number(absl::ToUnixNanos(piece.time));
  writer.Bytes(piece.inputs.data(), piece.inputs.size());
  writer.Number(
      static_cast<uint8_t>((piece.record.has_value() ? kHasRecord : 0) |
                           (piece.unfinished_text.empty() ? 0 : kHasText) |
                           (piece.drawn ? kIsDrawn : 0)));
  if (piece.record.has_value()) WriteRecord(*piece.record, writer);
  if (!piece.unfinished_text.empty()) writer.Text(piece.unfinished_text);
  End(begin);
}

void LogEntryWriter::Removed(const SessionUid& uid) {
  End(Begin(LogEntryKind::kRemoved, uid));
}

void LogEntryWriter::Used(const SessionUid& uid, absl::Time time) {
  const size_t begin = Begin(LogEntryKind::kUsed, uid);
  BinaryWriter(to_).Number(absl::ToUnixNanos(time));
  End(begin);
}

void LogEntryWriter::Inputs(std::span<const int32_t> tokens,
                            std::span<const float> embeddings,
                            std::string& to) {
  BinaryWriter writer(to);
  if (embeddings.empty()) {
    writer.Number(static_cast<uint8_t>(InputKind::kTokens));
    writer.Numbers(tokens);
  } else {
    writer.Number(static_cast<uint8_t>(InputKind::kEmbeddings));
    writer.Number(static_cast<uint32_t>(embeddings.size()));
    writer.Numbers(embeddings);
  }
}

bool ForEachEntry(
    absl::string_view content,
    const std::function<void(uint64_t numerics, const LogEntry& entry)>& each) {
  if (content.empty()) return true;
  BinaryReader round(content);
  const auto numerics = round.Number<uint64_t>();
  while (round.left() > 0) {
    BinaryReader from(round.Text());
    LogEntry entry;
    entry.kind = static_cast<LogEntryKind>(from.Number<uint8_t>());
    entry.uid = ReadUid(from);
    if (!round.ok() || !from.ok()) return false;
    entry.body = from.Bytes(from.left());
    each(numerics, entry);
  }
  return round.ok();
}

std::optional<AbsorbedSpan> SpanOf(absl::string_view absorbed_body) {
  BinaryReader from(absorbed_body);
  AbsorbedSpan span;
  span.begin = from.Number<uint64_t>();
  span.rows = from.Number<uint32_t>();
  span.time = absl::FromUnixNanos(from.Number<int64_t>());
  span.embeddings =
      from.Number<uint8_t>() == static_cast<uint8_t>(InputKind::kEmbeddings);
  if (!from.ok()) return std::nullopt;
  return span;
}

std::optional<absl::Time> UseOf(absl::string_view used_body) {
  BinaryReader from(used_body);
  const auto nanos = from.Number<int64_t>();
  if (!from.ok()) return std::nullopt;
  return absl::FromUnixNanos(nanos);
}

LogTail::LogTail(std::shared_ptr<const std::string> bodies, uint64_t end)
    : bodies_(std::move(bodies)), end_(end) {
  ReadNext();
}

void LogTail::Append(absl::string_view absorbed_body, std::string& bodies) {
  BinaryWriter(bodies).Text(absorbed_body);
}

void LogTail::ReadNext() {
  absorbed_ = rows_ = 0;
  tokens_.clear();
  embeddings_.clear();
  record_.reset();
  unfinished_text_ = {};
  drawn_ = false;
  done_ = true;
  BinaryReader left(absl::string_view(*bodies_).substr(next_));
  if (left.left() == 0) return;
  BinaryReader from(left.Text());
  next_ = bodies_->size() - left.left();
  (void)from.Number<uint64_t>();  // where it begins: the last one's end
  const auto rows = from.Number<uint32_t>();
  (void)from.Number<int64_t>();
  // A piece is a part of a batch.
  constexpr uint32_t kMostRows = 1 << 20;
  if (!left.ok() || !from.ok() || rows == 0 || rows > kMostRows) return;
  if (from.Number<uint8_t>() == static_cast<uint8_t>(InputKind::kTokens)) {
    if (rows > from.left() / sizeof(int32_t)) return;
    tokens_.resize(rows);
    from.Numbers(std::span(tokens_));
  } else {
    const auto count = from.Number<uint32_t>();
    if (count > from.left() / sizeof(float) || count % rows != 0) return;
    embeddings_.resize(count);
    from.Numbers(std::span(embeddings_));
  }
  const auto parts = from.Number<uint8_t>();
  drawn_ = (parts & kIsDrawn) != 0;
  if ((parts & kHasRecord) != 0) record_ = ReadRecord(from);
  if ((parts & kHasText) != 0) unfinished_text_ = from.Text();
  if (!from.complete()) return;
  rows_ = rows;
  done_ = false;
}

LogTail::Rows LogTail::Next(size_t max_rows) const {
  const size_t width = embeddings_.size() / rows_;
  Rows rows = {.tokens = {},
               .embeddings = {},
               .count = std::min(rows_ - absorbed_, max_rows),
               .drawn = drawn_};
  if (width == 0) {
    rows.tokens = std::span(tokens_).subspan(absorbed_, rows.count);
  } else {
    rows.embeddings =
        std::span(embeddings_).subspan(absorbed_ * width, rows.count * width);
  }
  return rows;
}

void LogTail::Absorbed(size_t rows, SessionState& state) {
  absorbed_ += rows;
  if (absorbed_ < rows_) return;
  if (record_.has_value()) state.records().Put(*record_);
  if (!unfinished_text_.empty()) state.set_unfinished_text(unfinished_text_);
  ReadNext();
}

absl::Status LogTail::CheckComplete(const SessionState& state) const {
  if (state.position() == end_) return absl::OkStatus();
  return SnapshotCorrupt(
      absl::StrCat("what the session absorbed after its snapshot ends at "
                   "position ",
                   state.position(), ", not at ", end_));
}

}  // namespace steadystate
