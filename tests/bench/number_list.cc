#include "tests/bench/number_list.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace steadystate::bench {

client::OptionTarget NumberList(std::vector<size_t>* list, size_t least,
                                size_t most) {
  return [list, least, most](absl::string_view text) -> absl::Status {
    list->clear();
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      size_t number = 0;
      if (!absl::SimpleAtoi(part, &number) || number < least || number > most) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", part, "' is not a number from ", least, " to ",
                         most, "; write them as 1,8,32"));
      }
      list->push_back(number);
    }
    return absl::OkStatus();
  };
}

}  // namespace steadystate::bench
