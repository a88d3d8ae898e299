#include "server/metrics/scrape_answer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace steadystate {
namespace {

constexpr absl::string_view kPath = "/metrics";

// A response whose body is `body`, or would be if `head_only`.
std::string Response(absl::string_view status, absl::string_view body,
                     bool head_only = false,
                     absl::string_view more_fields = "") {
  return absl::StrCat("HTTP/1.1 ", status,
                      "\r\nContent-Type: text/plain; charset=utf-8"
                      "\r\nContent-Length: ",
                      body.size(), "\r\nConnection: close\r\n", more_fields,
                      "\r\n", head_only ? absl::string_view() : body);
}

std::string AnswerRequestLine(absl::string_view line,
                              const std::function<std::string()>& page) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || words[0].empty() || words[1].empty() ||
      !absl::StartsWith(words[2], "HTTP/1.")) {
    return Response("400 Bad Request", "This is not an HTTP/1.1 request.\n");
  }
  const bool head_only = words[0] == "HEAD";
  if (!head_only && words[0] != "GET") {
    return Response("405 Method Not Allowed", "Ask with GET or HEAD.\n", false,
                    "Allow: GET, HEAD\r\n");
  }
  if (words[1].substr(0, words[1].find('?')) != kPath) {
    return Response("404 Not Found",
                    absl::StrCat("There is only ", kPath, " here.\n"),
                    head_only);
  }
  return Response("200 OK", page(), head_only);
}

}  // namespace

std::optional<std::string> AnswerScrape(
    absl::string_view received, const std::function<std::string()>& page) {
  const size_t end = std::min(received.find("\r\n\r\n"), received.find("\n\n"));
  if (std::min(end, received.size()) > kMaxScrapeRequestBytes) {
    return Response("431 Request Header Fields Too Large",
                    absl::StrCat("The head of a request has at most ",
                                 kMaxScrapeRequestBytes, " bytes.\n"));
  }
  if (end == absl::string_view::npos) return std::nullopt;
  const absl::string_view line = received.substr(0, received.find('\n'));
  return AnswerRequestLine(absl::StripSuffix(line, "\r"), page);
}

}  // namespace steadystate
