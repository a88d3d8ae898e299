#ifndef STEADYSTATE_SERVER_TEXT_NORMAL_FORM_H_
#define STEADYSTATE_SERVER_TEXT_NORMAL_FORM_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/text/growth.h"

namespace steadystate {

// Unicode's normal forms (UAX #15).
struct NormalForm {
  bool composed = true;     // NFC and NFKC rather than NFD and NFKD
  bool compatible = false;  // NFKC and NFKD
};

// How long a text can get in that form. The worst are U+0390, which is
// decomposed to 3 times its bytes, and U+FDFA, 11 times.
inline Growth GrowthOf(NormalForm form) {
  return {.factor = form.compatible ? 11.0 : 3.0};
}

// `text` in that form, in time O(n log n) whatever its marks.
// REQUIRES: `text` is UTF-8.
std::string ToNormalForm(absl::string_view text, NormalForm form);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_NORMAL_FORM_H_
