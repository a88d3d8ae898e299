#ifndef STEADYSTATE_SERVER_TEXT_GROWTH_H_
#define STEADYSTATE_SERVER_TEXT_GROWTH_H_

namespace steadystate {

// How long a step of a tokenizer can make a text: of n bytes at most
// factor * n + added. A floating-point number, since a few dozen steps that
// each double a text are beyond any integer.
struct Growth {
  double factor = 1;
  double added = 0;

  // This step and then another.
  Growth Then(const Growth& next) const {
    return {factor * next.factor, added * next.factor + next.added};
  }

  // Most bytes that become of each byte of a text that is not empty.
  double PerByte() const { return factor + added; }
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_GROWTH_H_
