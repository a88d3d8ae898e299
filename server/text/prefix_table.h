#ifndef STEADYSTATE_SERVER_TEXT_PREFIX_TABLE_H_
#define STEADYSTATE_SERVER_TEXT_PREFIX_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace steadystate {

// Finds which of many strings a text begins with. Immutable; thread-safe.
class PrefixTable {
 public:
  struct Entry {
    std::string key;
    int32_t token;
  };
  struct Match {
    size_t bytes = 0;  // 0: no key
    int32_t token = -1;
  };

  PrefixTable() : PrefixTable(std::vector<Entry>()) {}
  // Empty keys are left out; of equal keys the last holds.
  explicit PrefixTable(std::vector<Entry> entries);

  // The longest key that `text` begins with. O(length of it * log(keys)).
  Match Longest(absl::string_view text) const;

  bool empty() const { return entries_.empty(); }

 private:
  std::vector<Entry> entries_;  // by key
  // Keys with the first byte b are first_[b] to first_[b + 1].
  std::array<size_t, 257> first_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_PREFIX_TABLE_H_
