#include "server/text/sentencepiece_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr size_t kMaxVarintBytes = 10;

// Takes a varint from the front of `rest`; false if there is none.
bool TakeVarint(absl::string_view& rest, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < kMaxVarintBytes && i < rest.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest[i]);
    value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if ((byte & 0x80) != 0) continue;
    rest.remove_prefix(i + 1);
    return true;
  }
  return false;
}

// Takes what follows the tag of a field.
bool TakeValue(absl::string_view& rest, ProtoField& field) {
  uint64_t size = 0;
  switch (field.type) {
    case ProtoField::kVarint:
      return TakeVarint(rest, field.varint);
    case ProtoField::kFixed64:
      size = 8;
      break;
    case ProtoField::kFixed32:
      size = 4;
      break;
    case ProtoField::kBytes:
      if (!TakeVarint(rest, size)) return false;
      break;
    default:
      return false;
  }
  if (size > rest.size()) return false;
  field.bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

}  // namespace

absl::Status ForEachProtoField(
    absl::string_view message,
    const std::function<absl::Status(const ProtoField&)>& visit) {
  absl::string_view rest = message;
  while (!rest.empty()) {
    const size_t at = message.size() - rest.size();
    uint64_t tag = 0;
    ProtoField field = {};
    const bool has_tag =
        TakeVarint(rest, tag) && tag <= UINT32_MAX && tag >> 3 != 0;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = static_cast<ProtoField::Type>(tag & 7);
    if (!has_tag || !TakeValue(rest, field)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no field of Protobuf's at byte ", at, " of ", message.size()));
    }
    STEADYSTATE_RETURN_IF_ERROR(visit(field));
  }
  return absl::OkStatus();
}

namespace {

// The alternatives of one byte: Darts-clone allocates units in such blocks.
constexpr size_t kBlock = 256;
// Bounds the time to check it. That of nmt_nfkc_cf has 0.2 MiB.
constexpr size_t kMaxTrieBytes = size_t{4} << 20;
// SentencePiece's Normalizer::kMaxTrieResultsSize.
constexpr uint32_t kMaxRulesOnPath = 32;
// The longest replacement of NFKC is 11 times as long: U+FDFA.
constexpr size_t kMaxGrowth = 16;

constexpr uint32_t kLeaf = uint32_t{1} << 31;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the precompiled_charsmap ", what));
}

// One unit of the double array, as darts.h of Darts-clone 0.32 reads it.
struct Unit {
  uint32_t bits;

  // Of the byte that leads here; beyond bytes for leaves.
  uint32_t label() const { return bits & (kLeaf | 0xFF); }
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  size_t offset() const {
    return size_t{bits >> 10 << ((bits & (1u << 9)) >> 6)};
  }
  size_t value() const { return bits & ~kLeaf; }
};

// The checks of a trie. A state is the base of a block: where the unit of the
// byte b would be is state ^ b. So each unit follows one state, and a state may
// follow several units.
class TrieCheck {
 public:
  TrieCheck(absl::string_view units, absl::string_view replacements)
      : units_(units), replacements_(replacements) {}

  absl::Status Run() {
    STEADYSTATE_RETURN_IF_ERROR(ReachAll());
    return Order();
  }

 private:
  struct State {
    bool reached = false;
    uint32_t waits_for = 0;   // units that lead here and are not yet followed
    size_t depth = SIZE_MAX;  // bytes of the shortest path here
    uint32_t rules = 0;       // most rules on a path here
  };

  size_t size() const { return units_.size() / sizeof(uint32_t); }
  Unit At(size_t index) const {
    Unit unit;
    std::memcpy(&unit.bits, units_.data() + index * sizeof(uint32_t),
                sizeof(uint32_t));
    return unit;
  }

  // Calls `visit(unit, next state)` for the units that follow a state.
  template <typename Visit>
  absl::Status ForEachUnit(size_t state, const Visit& visit) const {
    for (uint32_t byte = 0; byte < kBlock; ++byte) {
      const size_t at = state ^ byte;
      const Unit unit = At(at);
      if (unit.label() != byte) continue;
      STEADYSTATE_RETURN_IF_ERROR(visit(unit, at ^ unit.offset()));
    }
    return absl::OkStatus();
  }

  absl::Status Reach(size_t state) {
    if (state >= size()) {
      return Malformed(absl::StrCat("leads to unit ", state, " of ", size()));
    }
    if (!states_[state].reached) reached_.push_back(state);
    states_[state].reached = true;
    return absl::OkStatus();
  }

  // Finds the states that a text can reach, and how many units lead to each.
  absl::Status ReachAll() {
    states_.resize(size());
    start_ = At(0).offset();
    STEADYSTATE_RETURN_IF_ERROR(Reach(start_));
    for (size_t i = 0; i < reached_.size(); ++i) {
      const auto reach = [this](Unit, size_t next) {
        const absl::Status status = Reach(next);
        if (status.ok()) ++states_[next].waits_for;
        return status;
      };
      STEADYSTATE_RETURN_IF_ERROR(ForEachUnit(reached_[i], reach));
    }
    return absl::OkStatus();
  }

  // Follows the states in an order in which each comes after all that lead to
  // it. Where there is none, states lead to each other in a circle.
  absl::Status Order() {
    std::vector<size_t> ready;
    if (states_[start_].waits_for == 0) ready.push_back(start_);
    states_[start_].depth = 0;
    size_t ordered = 0;
    while (!ready.empty()) {
      const size_t from = ready.back();
      ready.pop_back();
      ++ordered;
      const auto follow = [&](Unit unit, size_t next) {
        State& to = states_[next];
        const State& state = states_[from];
        to.depth = std::min(to.depth, state.depth + 1);
        to.rules = std::max(to.rules, state.rules + unit.has_leaf());
        if (--to.waits_for == 0) ready.push_back(next);
        return unit.has_leaf() ? CheckRule(next, state) : absl::OkStatus();
      };
      STEADYSTATE_RETURN_IF_ERROR(ForEachUnit(from, follow));
    }
    if (ordered != reached_.size()) return Malformed("leads in a circle");
    return absl::OkStatus();
  }

  // Of a rule whose value is in the unit `leaf`, one byte behind `before`.
  absl::Status CheckRule(size_t leaf, const State& before) const {
    if (before.rules >= kMaxRulesOnPath) {
      return Malformed(absl::StrCat("has more than ", kMaxRulesOnPath,
                                    " rules that begin each other"));
    }
    const size_t at = At(leaf).value();
    if (at >= replacements_.size()) {
      return Malformed(absl::StrCat("has a replacement at byte ", at, " of ",
                                    replacements_.size()));
    }
    // The last byte is NUL.
    const size_t bytes = replacements_.find('\0', at) - at;
    const size_t limit = kMaxGrowth * (before.depth + 1);
    if (bytes <= limit) return absl::OkStatus();
    return Malformed(absl::StrCat("replaces ", before.depth + 1, " bytes by ",
                                  bytes, ", at most ", limit));
  }

  const absl::string_view units_;
  const absl::string_view replacements_;
  size_t start_ = 0;
  std::vector<size_t> reached_;
  std::vector<State> states_;  // by unit
};

}  // namespace

absl::Status CheckCharsMap(absl::string_view map) {
  if (map.empty()) return absl::OkStatus();
  uint32_t bytes = 0;
  if (map.size() <= sizeof(bytes)) return Malformed("has no trie");
  std::memcpy(&bytes, map.data(), sizeof(bytes));
  map.remove_prefix(sizeof(bytes));
  constexpr size_t kBlockBytes = kBlock * sizeof(uint32_t);
  if (bytes == 0 || bytes % kBlockBytes != 0 || bytes > kMaxTrieBytes ||
      bytes >= map.size()) {
    return Malformed(absl::StrCat("has a trie of ", bytes,
                                  " bytes; it must be a multiple of ",
                                  kBlockBytes, ", at most ", kMaxTrieBytes,
                                  " and less than what is left, ", map.size()));
  }
  if (map.back() != '\0') return Malformed("does not end in NUL");
  return TrieCheck(map.substr(0, bytes), map.substr(bytes)).Run();
}

namespace {

// SentencePiece builds its trie with a call within a call for each byte.
constexpr size_t kMaxPieceBytes = 1024;
// The results that SentencePiece's PrefixMatcher has room for.
constexpr size_t kMaxNested = 64;
// An empty string takes two bytes in the file and forty in memory.
constexpr size_t kMaxOptionBytes = size_t{1} << 20;

// sentencepiece_model.proto: the fields of a ModelProto ...
enum ModelField : uint32_t {
  kPieces = 1,
  kTrainerSpec = 2,
  kNormalizerSpec = 3,
  kSelfTestData = 4,
  kDenormalizerSpec = 5,
};
// ... of a SentencePiece, and the one type that matters here ...
enum PieceField : uint32_t { kPiece = 1, kType = 3 };
constexpr int32_t kUserDefinedType = 4;
// ... of a NormalizerSpec and of a TrainerSpec.
constexpr uint32_t kPrecompiledCharsMap = 2;
constexpr uint32_t kUnknownSurface = 44;

absl::Status CheckNormalizer(absl::string_view spec) {
  return ForEachProtoField(spec, [](const ProtoField& field) {
    const bool map = field.number == kPrecompiledCharsMap &&
                     field.type == ProtoField::kBytes;
    return map ? CheckCharsMap(field.bytes) : absl::OkStatus();
  });
}

absl::Status CheckTrainer(absl::string_view spec) {
  return ForEachProtoField(spec, [](const ProtoField& field) {
    if (field.number != kUnknownSurface ||
        field.bytes.size() <= kMaxPieceBytes) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the unk_surface has ", field.bytes.size(),
                     " bytes, at most ", kMaxPieceBytes));
  });
}

class FileCheck {
 public:
  explicit FileCheck(size_t vocab_size) : vocab_size_(vocab_size) {}

  absl::Status Run(absl::string_view file) {
    STEADYSTATE_RETURN_IF_ERROR(ForEachProtoField(
        file, [this](const ProtoField& field) { return Check(field); }));
    if (pieces_ > vocab_size_) {
      return absl::InvalidArgumentError(absl::StrCat(
          pieces_, " pieces; the model has ", vocab_size_, " tokens"));
    }
    return CheckNested();
  }

 private:
  absl::Status Check(const ProtoField& field) {
    if (field.type != ProtoField::kBytes) return absl::OkStatus();
    switch (field.number) {
      case kPieces:
        return CheckPiece(field.bytes);
      case kTrainerSpec:
        STEADYSTATE_RETURN_IF_ERROR(CountOptions(field.bytes.size()));
        return CheckTrainer(field.bytes);
      case kSelfTestData:
        return CountOptions(field.bytes.size());
      case kNormalizerSpec:
      case kDenormalizerSpec:
        return CheckNormalizer(field.bytes);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status CheckPiece(absl::string_view message) {
    absl::string_view piece;
    int32_t type = 0;
    STEADYSTATE_RETURN_IF_ERROR(
        ForEachProtoField(message, [&](const ProtoField& field) {
          if (field.number == kPiece && field.type == ProtoField::kBytes) {
            piece = field.bytes;
          }
          if (field.number == kType && field.type == ProtoField::kVarint) {
            type = static_cast<int32_t>(field.varint);
          }
          return absl::OkStatus();
        }));
    if (piece.empty() || piece.size() > kMaxPieceBytes ||
        absl::StrContains(piece, '\0')) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece ", pieces_, " has ", piece.size(),
                       " bytes; it must have between 1 and ", kMaxPieceBytes,
                       ", none of them NUL"));
    }
    if (type == kUserDefinedType) user_defined_.push_back(piece);
    ++pieces_;
    return absl::OkStatus();
  }

  absl::Status CountOptions(size_t bytes) {
    option_bytes_ += bytes;
    if (option_bytes_ <= kMaxOptionBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "more than ", kMaxOptionBytes, " bytes of options and self-tests"));
  }

  // In order each piece comes behind those that begin it.
  absl::Status CheckNested() {
    std::sort(user_defined_.begin(), user_defined_.end());
    std::vector<absl::string_view> begin_it;
    for (const absl::string_view piece : user_defined_) {
      while (!begin_it.empty() && !absl::StartsWith(piece, begin_it.back())) {
        begin_it.pop_back();
      }
      begin_it.push_back(piece);
      if (begin_it.size() > kMaxNested) {
        return absl::InvalidArgumentError(absl::StrCat(
            "more than ", kMaxNested, " user defined pieces begin each other"));
      }
    }
    return absl::OkStatus();
  }

  const size_t vocab_size_;
  size_t pieces_ = 0;
  size_t option_bytes_ = 0;
  std::vector<absl::string_view> user_defined_;
};

}  // namespace

absl::Status CheckSentencePieceFile(absl::string_view bytes,
                                    size_t vocab_size) {
  return FileCheck(vocab_size).Run(bytes);
}

}  // namespace steadystate
