#include "server/session/session_memory.h"

#include <algorithm>
#include <cstring>

namespace steadystate {
namespace {

constexpr size_t kBits = 64;

// Of a bit for each token.
size_t BitWords(size_t capacity) { return (capacity + kBits - 1) / kBits; }

void SetBit(uint64_t* bits, size_t index, bool value) {
  const uint64_t bit = uint64_t{1} << (index % kBits);
  uint64_t& word = bits[index / kBits];
  word = value ? word | bit : word & ~bit;
}

}  // namespace

size_t TokenHistory::Bytes(size_t capacity) {
  constexpr size_t kAlignment = sizeof(uint64_t);
  const size_t tokens = capacity * sizeof(int32_t);
  return 2 * BitWords(capacity) * sizeof(uint64_t) +
         (tokens + kAlignment - 1) / kAlignment * kAlignment;
}

TokenHistory::TokenHistory(std::byte* memory, size_t capacity)
    : cuts_(reinterpret_cast<uint64_t*>(memory)),
      drawn_(cuts_ + BitWords(capacity)),
      tokens_(reinterpret_cast<int32_t*>(drawn_ + BitWords(capacity))),
      capacity_(capacity) {}

void TokenHistory::Append(uint64_t position, size_t rows,
                          std::span<const int32_t> tokens, bool drawn) {
  // Of a piece that is longer than all that is kept, its end.
  for (size_t i = rows - std::min(rows, capacity_); i < rows; ++i) {
    const size_t index = (position + i) % capacity_;
    tokens_[index] = tokens.empty() ? kEmbedding : tokens[i];
    SetBit(cuts_, index, i == 0);
    SetBit(drawn_, index, drawn);
  }
}

void TokenHistory::Restore(uint64_t from, std::span<const int32_t> tokens,
                           const std::vector<bool>& cuts,
                           const std::vector<bool>& drawn) {
  for (size_t i = tokens.size() - std::min(tokens.size(), capacity_);
       i < tokens.size(); ++i) {
    const auto index = static_cast<size_t>((from + i) % capacity_);
    tokens_[index] = tokens[i];
    SetBit(cuts_, index, cuts[i]);
    SetBit(drawn_, index, !drawn.empty() && drawn[i]);
  }
}

void TokenHistory::Copy(uint64_t from, std::span<int32_t> to) const {
  if (to.empty()) return;
  const auto first = static_cast<size_t>(from % capacity_);
  const size_t until_end = std::min(to.size(), capacity_ - first);
  std::copy_n(tokens_ + first, until_end, to.data());
  std::copy_n(tokens_, to.size() - until_end, to.data() + until_end);
}

bool TokenHistory::BitOf(const uint64_t* bits, uint64_t position) const {
  const auto index = static_cast<size_t>(position % capacity_);
  return (bits[index / kBits] >> (index % kBits) & 1) != 0;
}

namespace {

// A record: this, the id, the answer.
struct Header {
  uint64_t begin;
  uint64_t end;
  RequestDigest digest;
  uint8_t id_bytes;
  uint8_t answer_bytes;
  uint8_t finished;
};

size_t BytesOf(size_t id_bytes, size_t answer_bytes) {
  return sizeof(Header) + id_bytes + answer_bytes;
}

Header HeaderAt(const std::byte* at) {
  Header header;
  std::memcpy(&header, at, sizeof(header));
  return header;
}

size_t BytesAt(const std::byte* at) {
  const Header header = HeaderAt(at);
  return BytesOf(header.id_bytes, header.answer_bytes);
}

RequestRecord Read(const std::byte* at) {
  const Header header = HeaderAt(at);
  const auto* const id = reinterpret_cast<const char*>(at + sizeof(Header));
  return {.id = {id, header.id_bytes},
          .begin = header.begin,
          .end = header.end,
          .digest = header.digest,
          .finished = header.finished != 0,
          .answer = {id + header.id_bytes, header.answer_bytes}};
}

void Write(const RequestRecord& record, std::byte* at) {
  Header header;
  std::memset(&header, 0, sizeof(header));
  header.begin = record.begin;
  header.end = record.end;
  header.digest = record.digest;
  header.id_bytes = static_cast<uint8_t>(record.id.size());
  header.answer_bytes = static_cast<uint8_t>(record.answer.size());
  header.finished = record.finished ? 1 : 0;
  std::memcpy(at, &header, sizeof(header));
  at += sizeof(header);
  std::memcpy(at, record.id.data(), record.id.size());
  if (record.answer.empty()) return;
  std::memcpy(at + record.id.size(), record.answer.data(),
              record.answer.size());
}

}  // namespace

static_assert(kMaxRequestIdBytes <= UINT8_MAX);
static_assert(RequestRecords::kMaxAnswerBytes <= UINT8_MAX);

void RequestRecords::Put(const RequestRecord& record) {
  static_assert(kBytes >= sizeof(Frame) + sizeof(Header) + kMaxRequestIdBytes +
                              kMaxAnswerBytes);
  // Others would not be found again, or overrun the memory.
  if (record.id.size() > kMaxRequestIdBytes ||
      record.answer.size() > kMaxAnswerBytes) {
    return;
  }
  Frame at = frame();
  if (at.count > 0) {
    const RequestRecord last = Read(memory_ + at.last);
    if (last.id == record.id && last.begin == record.begin) {
      at.end = at.last;
      --at.count;
    }
  } else {
    at.begin = at.end = sizeof(Frame);
  }
  const size_t bytes = BytesOf(record.id.size(), record.answer.size());
  while (at.count == kMaxRecords ||
         (at.end - at.begin) + bytes > kBytes - sizeof(Frame)) {
    DropOldest(at);
  }
  if (at.end + bytes > kBytes) Compact(at);
  Write(record, memory_ + at.end);
  at.last = at.end;
  at.end = static_cast<uint16_t>(at.end + bytes);
  ++at.count;
  std::memcpy(memory_, &at, sizeof(at));
}

void RequestRecords::Clear() { std::memset(memory_, 0, kBytes); }

void RequestRecords::DropUnfinished() {
  const std::vector<RequestRecord> all = All();
  if (std::all_of(all.begin(), all.end(),
                  [](const RequestRecord& record) { return record.finished; }))
    return;
  std::array<std::byte, kBytes> left{};
  RequestRecords finished(left.data());
  for (const RequestRecord& record : all) {
    if (record.finished) finished.Put(record);
  }
  std::memcpy(memory_, left.data(), left.size());
}

std::optional<RequestRecord> RequestRecords::Find(absl::string_view id,
                                                  uint64_t begin) const {
  const Frame at = frame();
  const std::byte* next = memory_ + at.begin;
  for (size_t i = 0; i < at.count; ++i, next += BytesAt(next)) {
    const RequestRecord record = Read(next);
    if (record.begin == begin && record.id == id) return record;
  }
  return std::nullopt;
}

std::vector<RequestRecord> RequestRecords::All() const {
  const Frame at = frame();
  std::vector<RequestRecord> all;
  const std::byte* next = memory_ + at.begin;
  for (size_t i = 0; i < at.count; ++i, next += BytesAt(next)) {
    all.push_back(Read(next));
  }
  return all;
}

RequestRecords::Frame RequestRecords::frame() const {
  Frame frame;
  std::memcpy(&frame, memory_, sizeof(frame));
  return frame;
}

void RequestRecords::DropOldest(Frame& frame) const {
  frame.begin =
      static_cast<uint16_t>(frame.begin + BytesAt(memory_ + frame.begin));
  --frame.count;
}

// Moves the records to the start, which makes room at the end.
void RequestRecords::Compact(Frame& frame) {
  const auto bytes = static_cast<uint16_t>(frame.end - frame.begin);
  std::memmove(memory_ + sizeof(Frame), memory_ + frame.begin, bytes);
  frame.begin = sizeof(Frame);
  frame.end = static_cast<uint16_t>(sizeof(Frame) + bytes);
}

void RecordedKeys::Note(uint64_t key) {
  if (count_ > 0 && keys_[(count_ - 1) % keys_.size()] == key) return;
  keys_[count_++ % keys_.size()] = key;
}

bool RecordedKeys::MayHave(uint64_t key) const {
  const size_t kept = std::min(count_, keys_.size());
  return std::find(keys_.begin(), keys_.begin() + kept, key) !=
         keys_.begin() + kept;
}

}  // namespace steadystate
