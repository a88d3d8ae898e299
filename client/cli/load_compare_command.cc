// `steadystate load compare`: two reports of the load tester side by side.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/load_compare.h"
#include "client/cli/load_flags.h"
#include "client/cli/output.h"

namespace steadystate::client {
namespace {

class LoadCompareCommand : public PrintCommand {
 public:
  CommandText text() const override {
    return {"load compare", "A.json B.json",
            "Compares two reports of the load tester",
            "Compares two reports of `steadystate load --json`, of the same "
            "load on two servers or models: the figures of both, the ratio, "
            "and whether B is better or worse. Of runs made with --repeat it "
            "also says which differences chance may have brought (uncertain). "
            "Reports of different loads, and INVALID ones, are refused with "
            "exit code 1.",
            "  steadystate load --sessions 64 --repeat 5 --json > before.json\n"
            "  steadystate load --sessions 64 --repeat 5 --json > after.json\n"
            "  steadystate load compare before.json after.json\n"};
  }

  OptionTable options() override {
    return {{"json", "", "Prints the comparison as JSON.", &json_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (arguments.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "needs two files, A.json and B.json, not ", arguments.size()));
    }
    files_ = arguments;
    for (size_t i = 0; i < 2; ++i) {
      auto text = ReadShortFile(arguments[i]);
      if (!text.ok()) return text.status();
      reports_[i] = *std::move(text);
    }
    return absl::OkStatus();
  }

  absl::Status PrintText() const override {
    const auto comparison = CompareReports(reports_[0], reports_[1]);
    if (!comparison.ok()) {
      return absl::Status(comparison.status().code(),
                          absl::StrCat(comparison.status().message(), " (A is ",
                                       files_[0], ", B is ", files_[1], ")"));
    }
    return json_ ? PrintJson(FormatComparisonJson(*comparison))
                 : Print(FormatComparisonText(*comparison));
  }

 private:
  std::vector<std::string> files_;
  std::string reports_[2];
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeLoadCompareCommand() {
  return std::make_unique<LoadCompareCommand>();
}

}  // namespace steadystate::client
