#include "server/text/prefix_table.h"

#include <algorithm>
#include <utility>

namespace steadystate {
namespace {

// Strings compare by unsigned bytes; so must what narrows their range.
unsigned char ByteAt(const std::string& key, size_t at) {
  return static_cast<unsigned char>(key[at]);
}

}  // namespace

PrefixTable::PrefixTable(std::vector<Entry> entries)
    : entries_(std::move(entries)) {
  std::stable_sort(
      entries_.begin(), entries_.end(),
      [](const Entry& a, const Entry& b) { return a.key < b.key; });
  size_t kept = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const bool last =
        i + 1 == entries_.size() || entries_[i].key != entries_[i + 1].key;
    if (!last || entries_[i].key.empty()) continue;
    if (kept != i) entries_[kept] = std::move(entries_[i]);
    ++kept;
  }
  entries_.resize(kept);
  size_t at = 0;
  for (size_t byte = 0; byte < first_.size(); ++byte) {
    while (at < kept && ByteAt(entries_[at].key, 0) < byte) ++at;
    first_[byte] = at;
  }
}

PrefixTable::Match PrefixTable::Longest(absl::string_view text) const {
  Match match;
  if (text.empty()) return match;
  const auto lead = static_cast<unsigned char>(text[0]);
  auto begin = entries_.begin() + static_cast<ptrdiff_t>(first_[lead]);
  auto end = entries_.begin() + static_cast<ptrdiff_t>(first_[lead + 1u]);
  // All keys of the range begin with the first `depth` bytes of the text.
  for (size_t depth = 1; begin != end; ++depth) {
    if (begin->key.size() == depth) {
      match = {depth, begin->token};
      ++begin;
    }
    if (depth == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[depth]);
    begin = std::partition_point(begin, end, [&](const Entry& entry) {
      return ByteAt(entry.key, depth) < byte;
    });
    end = std::partition_point(begin, end, [&](const Entry& entry) {
      return ByteAt(entry.key, depth) == byte;
    });
  }
  return match;
}

}  // namespace steadystate
