#ifndef STEADYSTATE_SERVER_METRICS_SCRAPE_ANSWER_H_
#define STEADYSTATE_SERVER_METRICS_SCRAPE_ANSWER_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// Most bytes of a request up to the empty line that ends its head.
inline constexpr size_t kMaxScrapeRequestBytes = 8 << 10;

// The HTTP response to the request that `received` begins with, or nothing
// while more of its head has to come: 200 with `page` for GET and HEAD of
// /metrics, 404 for other paths, 405 for other methods, 400 for what is not
// HTTP, 431 for a head longer than kMaxScrapeRequestBytes. Each of them says
// that the connection ends.
std::optional<std::string> AnswerScrape(
    absl::string_view received, const std::function<std::string()>& page);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_SCRAPE_ANSWER_H_
