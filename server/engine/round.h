#ifndef STEADYSTATE_SERVER_ENGINE_ROUND_H_
#define STEADYSTATE_SERVER_ENGINE_ROUND_H_

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "server/engine/receiver.h"
#include "server/engine/request.h"

namespace steadystate {

// Answers that became ready together, on their way to their receivers. Those to
// one receiver that are added one after the other are handed over at once.
// Confined to the compute thread.
class Round {
 public:
  // What the answer lends is lent until HandOver.
  template <typename R>
  void Add(const std::shared_ptr<Receiver<R>>& to, const Answer<R>& answer) {
    auto& mail = std::get<Mail<R>>(mails_);
    if (mail.to != to) {
      Send(mail);
      mail.to = to;
    }
    mail.answers.push_back(answer);
  }

  // Hands over all that was added.
  void HandOver() {
    std::apply([this](auto&... mail) { (Send(mail), ...); }, mails_);
  }

  // Tells each receiver once that this was all. The round is empty then and
  // refers to none of them. REQUIRES: HandOver came after the last Add.
  void End() {
    std::sort(told_.begin(), told_.end());
    told_.erase(std::unique(told_.begin(), told_.end()), told_.end());
    for (const std::shared_ptr<RoundReceiver>& receiver : told_) {
      receiver->OnRoundEnd();
    }
    told_.clear();
  }

 private:
  // Of one kind, to one receiver.
  template <typename R>
  struct Mail {
    std::shared_ptr<Receiver<R>> to;
    std::vector<Answer<R>> answers;
  };

  template <typename R>
  void Send(Mail<R>& mail) {
    if (mail.to == nullptr) return;
    mail.to->OnAnswers(mail.answers);
    mail.answers.clear();
    told_.push_back(std::move(mail.to));
  }

  std::tuple<Mail<StepRequest>, Mail<GenerateRequest>, Mail<ScoreRequest>,
             Mail<EmbedRequest>, Mail<WorkRequest>>
      mails_;
  std::vector<std::shared_ptr<RoundReceiver>> told_;  // may name one twice
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_ROUND_H_
