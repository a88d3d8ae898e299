// Goal: what rounding does to a state does not grow with the sequence, however
// near one the decays are: prompts in chunks and tokens one by one stay beside
// the recurrence in doubles, family by family. Method: one head of each
// recurrence, its decays made from gates as the family makes them, fed with
// values whose magnitudes are spread and whose mean is not zero; beside it the
// formula in doubles from the same gates, keys and values. The relative RMS
// error of the last tokens' outputs. Prints the errors, which are the table in
// server/model/precision.md.
//
// STEADYSTATE_DRIFT_TOKENS=1000000 is the long form: as many tokens instead of
// a few thousand.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/model/parts/delta_recurrence.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/mlstm_recurrence.h"
#include "tests/kernels/numbers.h"
#include "tests/testing/part_harness.h"

namespace steadystate::drift_test {
namespace {

constexpr size_t K = 8;
constexpr size_t V = 8;
constexpr size_t kPiece = 512;  // rows of a prompt at a time
constexpr size_t kCompared = 512;
constexpr uint64_t kSeed = 29;
// How far a token moves the gates' arguments. Little: what rounding does to a
// decay is worst where it does the same at every token.
constexpr float kOwn = 1e-3f;

using Doubles = std::vector<double>;

double D(float x) { return static_cast<double>(x); }
double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
double LogSigmoid(double x) { return -Softplus(-x); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What one token brings. The floats are what the part takes; the doubles are
// what they stand for.
struct Token {
  float q[K], k[K], v[V];
  float alpha[K], alpha_low[K];  // kScalar: the first
  float beta[V], beta_low[V];    // of a delta rule the first is its strength
  float a[K], b[K];              // of RWKV-7
  double decay[K];               // exact
  double value_decay[V];         // exact
  double phase[K];
};
// Floats from one token's array to the next one's.
constexpr size_t kStride = sizeof(Token) / sizeof(float);

// The gates' arguments: a mean for each channel, and a token's own part.
struct Gates {
  float least, most;

  float Mean(size_t i, size_t n) const {
    return least +
           (most - least) * static_cast<float>(i) / static_cast<float>(n - 1);
  }
};

// Everything about one head: the part, the inputs, the formula.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void Make(const MixerBuilder& builder) = 0;
  // Whether outputs are divided by a sum of keys, which are then positive.
  virtual bool Divides() const { return false; }
  // Fills what is the family's own.
  virtual void Draw(Numbers& numbers, Token& token) = 0;
  virtual void Run(const Segment& segment, const Token* tokens, float* out,
                   Workspace::Buffers& buffers) = 0;
  // Moves the exact state by a token; returns the output.
  virtual Doubles Exact(const Token& token) = 0;
};

struct Family {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
  bool in_chunks;      // prompts are not steps in disguise
  bool bounded_steps;  // over 10^5 tokens and more
};

HeadRows At(const float* first) { return {first, kStride, 0}; }

// Draws a decay: of the gate's argument, as the family has it.
struct Drawn {
  float high, low;
  double exact;
};
using Form = std::function<Drawn(float)>;

Drawn Split(float log_decay, double exact) {
  Drawn drawn = {};
  SplitDecay(1, &log_decay, &drawn.high, &drawn.low);
  drawn.exact = exact;
  return drawn;
}

// sigmoid(x)^(1/temperature).
Form SigmoidGate(float temperature) {
  return [temperature](float x) {
    float log_decay = 0;
    LogSigmoidLogDecay(1, &x, temperature, -HUGE_VALF, &log_decay);
    return Split(log_decay, std::exp(LogSigmoid(D(x)) / D(temperature)));
  };
}

// exp(-rate softplus(-x)).
Form SoftplusGate(float rate) {
  return [rate](float x) {
    float y = -x;
    Activate(Activation::kSoftplus, 1, &y, &y);
    return Split(-rate * y, std::exp(-D(rate) * Softplus(-D(x))));
  };
}

// exp(-exp(-x)).
Form ExpExpGate() {
  return [](float x) {
    float y = -x;
    Activate(Activation::kExp, 1, &y, &y);
    return Split(-y, std::exp(-std::exp(-D(x))));
  };
}

// exp(-0.606531 sigmoid(-x)).
Form Rwkv7Gate() {
  return [](float x) {
    constexpr float kFloor = -0.6065306597126334f;
    float y = -x;
    Activate(Activation::kSigmoid, 1, &y, &y);
    return Split(kFloor * y, std::exp(D(kFloor) * Sigmoid(-D(x))));
  };
}

// floor + (1 - floor) sigmoid(x).
Form FlooredGate(float floor) {
  return [floor](float x) {
    Drawn drawn = {};
    float rest = 0;
    FlooredSigmoidDecay(1, &x, &floor, &drawn.high, &rest);
    LackOfDecay(1, &drawn.high, &rest, &drawn.low);
    drawn.exact = D(floor) + (1 - D(floor)) * Sigmoid(D(x));
    return drawn;
  };
}

class Gated : public Subject {
 public:
  Gated(GatedRecurrence::Options options, Gates gates, Form form)
      : options_(std::move(options)), gates_(gates), form_(std::move(form)) {
    options_.query_heads = options_.state_heads = 1;
    options_.K = K;
    options_.V = V;
  }

  void Make(const MixerBuilder& builder) override {
    for (size_t i = 0; options_.decay == Decay::kFull && i < K * V; ++i) {
      options_.rate.push_back(static_cast<float>(i / V + 1));
    }
    auto part = GatedRecurrence::Make(builder, options_);
    ASSERT_TRUE(part.ok()) << part.status();
    part_ = *std::move(part);
  }

  bool Divides() const override { return options_.normalizer_eps.has_value(); }

  void Draw(Numbers& numbers, Token& t) override {
    for (size_t i = 0; i < K; ++i) {
      const auto x = gates_.Mean(i, K) + numbers.Uniform(-kOwn, kOwn);
      const Drawn drawn = Alpha(x);
      t.alpha[i] = drawn.high;
      t.alpha_low[i] = drawn.low;
      t.decay[i] = drawn.exact;
      if (options_.decay == Decay::kScalar) t.decay[i] = t.decay[0];
      if (!options_.constants.empty()) t.decay[i] = options_.constants[0];
      if (options_.decay == Decay::kValue) t.decay[i] = 1;
    }
    for (size_t j = 0; j < V; ++j) {
      const auto x = gates_.Mean(j, V) + numbers.Uniform(-kOwn, kOwn);
      t.value_decay[j] = 1;
      if (options_.decay == Decay::kValue || options_.decay == Decay::kOuter) {
        const Drawn drawn = Alpha(x);
        t.beta[j] = drawn.high;
        t.beta_low[j] = drawn.low;
        t.value_decay[j] = drawn.exact;
      }
      if (options_.decay == Decay::kFull) {
        t.beta[j] = -x;
        Activate(Activation::kSoftplus, 1, &t.beta[j], &t.beta[j]);
      }
    }
    if (options_.decay == Decay::kComplex) {
      for (size_t i = 0; i < K; ++i) {
        const float phase =
            0.1f * static_cast<float>(i) + numbers.Uniform(-0.01f, 0.01f);
        t.phase[i] = D(phase);
        const auto log_size = static_cast<float>(std::log(t.decay[i]));
        t.decay[i] = std::exp(D(log_size));
        PolarDecay(1, &log_size, &phase, &t.alpha[i], &t.alpha_low[i],
                   &t.beta[i], &t.beta_low[i]);
      }
    }
  }

  void Run(const Segment& segment, const Token* t, float* out,
           Workspace::Buffers& buffers) override {
    const GatedRecurrence::Inputs inputs = {.q = At(t->q),
                                            .k = At(t->k),
                                            .v = At(t->v),
                                            .alpha = At(t->alpha),
                                            .beta = At(t->beta),
                                            .alpha_low = At(t->alpha_low),
                                            .beta_low = At(t->beta_low),
                                            .bonus = {bonus_, 0, 0}};
    part_.Run({&segment, 1}, inputs, out, V, buffers);
  }

  Doubles Exact(const Token& t) override {
    Doubles o(V);
    double weight = 0;
    for (size_t i = 0; i < K; ++i) {
      z_[i] = t.decay[i] * z_[i] + D(t.k[i]);
      weight += D(t.q[i]) * z_[i];
      for (size_t j = 0; j < V; ++j) {
        const double kv = D(t.k[i]) * D(t.v[j]);
        double& s = S_[i * V + j];
        const double before = s;
        Move(t, i, j, kv);
        o[j] += D(t.q[i]) * (options_.bonus ? before + D(bonus_[i]) * kv : s);
      }
    }
    for (double& x : o) {
      if (options_.normalizer_eps.has_value()) x /= weight;
    }
    return o;
  }

 private:
  Drawn Alpha(float x) const {
    if (form_ == nullptr) return {1, 0, 1};
    return form_(x);
  }

  void Move(const Token& t, size_t i, size_t j, double kv) {
    double& s = S_[i * V + j];
    if (options_.decay == Decay::kFull) {
      s = std::exp(-D(options_.rate[i * V + j]) * D(t.beta[j])) * s + kv;
    } else if (options_.decay == Decay::kComplex) {
      double& im = imaginary_[i * V + j];
      const double re = t.decay[i] * std::cos(t.phase[i]);
      const double turn = t.decay[i] * std::sin(t.phase[i]);
      const double old = s;
      s = re * s - turn * im + kv;
      im = re * im + turn * old;
    } else {
      s = t.decay[i] * t.value_decay[j] * s + kv;
    }
  }

  GatedRecurrence::Options options_;
  Gates gates_;
  Form form_;
  GatedRecurrence part_;
  float bonus_[K] = {0.5f, 0.25f, 1, 2, -1, 0.5f, 0, 1};
  double S_[K * V] = {};
  double imaginary_[K * V] = {};
  double z_[K] = {};
};

Floats Unit(const float* x) {
  Floats unit(std::span<const float>(x, K));
  float squares = 0;
  for (const float value : unit) squares += value * value;
  for (float& value : unit) value /= std::sqrt(squares);
  return unit;
}

// The delta rules and RWKV-7. What they write replaces what there was, so that
// a state is long remembered only beside weak writes.
class RankOne : public Subject {
 public:
  RankOne(Decay decay, bool rwkv7, Gates gates, Form form)
      : decay_(decay), rwkv7_(rwkv7), gates_(gates), form_(std::move(form)) {}

  void Make(const MixerBuilder& builder) override {
    auto part = DeltaRecurrence::Make(builder, {1, K, V, 1.0f, decay_});
    ASSERT_TRUE(part.ok()) << part.status();
    part_ = *std::move(part);
  }

  void Draw(Numbers& numbers, Token& t) override {
    for (size_t i = 0; i < K; ++i) {
      const Drawn drawn =
          form_ == nullptr
              ? Drawn{1, 0, 1}
              : form_(gates_.Mean(i, K) + numbers.Uniform(-kOwn, kOwn));
      t.alpha[i] = drawn.high;
      t.alpha_low[i] = drawn.low;
      t.decay[i] = decay_ == Decay::kScalar && i > 0 ? t.decay[0] : drawn.exact;
    }
    t.beta[0] = numbers.Uniform(0, 0.002f);
    const Floats k = Unit(t.k);
    std::copy_n(k.data(), K, t.a);
    if (!rwkv7_) std::copy_n(k.data(), K, t.k);
    for (size_t i = 0; i < K; ++i) t.b[i] = -t.beta[0] * t.a[i];
  }

  void Run(const Segment& segment, const Token* t, float* out,
           Workspace::Buffers& buffers) override {
    if (rwkv7_) {
      const DeltaRecurrence::GeneralForm inputs = {
          .q = At(t->q),
          .k = At(t->k),
          .v = At(t->v),
          .a = At(t->a),
          .b = At(t->b),
          .alpha = At(t->alpha),
          .alpha_low = At(t->alpha_low)};
      part_.Run({&segment, 1}, inputs, out, V, buffers);
      return;
    }
    const DeltaRecurrence::DeltaRule inputs = {.q = At(t->q),
                                               .k = At(t->k),
                                               .v = At(t->v),
                                               .beta = At(t->beta),
                                               .alpha = At(t->alpha),
                                               .alpha_low = At(t->alpha_low)};
    part_.Run({&segment, 1}, inputs, out, V, buffers);
  }

  Doubles Exact(const Token& t) override {
    Doubles o(V);
    for (size_t j = 0; j < V; ++j) {
      double u = 0;
      for (size_t i = 0; i < K; ++i) {
        u += (rwkv7_ ? 1 : t.decay[i]) * D(t.a[i]) * S_[i * V + j];
      }
      for (size_t i = 0; i < K; ++i) {
        double& s = S_[i * V + j];
        const double written = rwkv7_
                                   ? D(t.b[i]) * u + D(t.k[i]) * D(t.v[j])
                                   : D(t.beta[0]) * D(t.k[i]) * (D(t.v[j]) - u);
        s = t.decay[i] * s + written;
        o[j] += D(t.q[i]) * s;
      }
    }
    return o;
  }

 private:
  Decay decay_;
  bool rwkv7_;
  Gates gates_;
  Form form_;
  DeltaRecurrence part_;
  double S_[K * V] = {};
};

class Mlstm : public Subject {
 public:
  explicit Mlstm(Gates gates) : gates_(gates) {}

  void Make(const MixerBuilder& builder) override {
    auto part = MlstmRecurrence::Make(builder, {1, K, V, 1.0f, 1e-6f});
    ASSERT_TRUE(part.ok()) << part.status();
    part_ = *std::move(part);
  }

  bool Divides() const override { return true; }

  void Draw(Numbers& numbers, Token& t) override {
    const auto x = gates_.most + numbers.Uniform(-kOwn, kOwn);
    Activate(Activation::kLogSigmoid, 1, &x, &t.alpha[0]);
    t.decay[0] = LogSigmoid(D(x));
    t.beta[0] = numbers.Uniform(-1, 1);  // the input gate
  }

  void Run(const Segment& segment, const Token* t, float* out,
           Workspace::Buffers& buffers) override {
    part_.Run({&segment, 1},
              {.q = At(t->q),
               .k = At(t->k),
               .v = At(t->v),
               .log_input = At(t->beta),
               .log_forget = At(t->alpha)},
              out, V, buffers);
  }

  Doubles Exact(const Token& t) override {
    const double kept = t.decay[0] + m_;
    m_ = std::max(kept, D(t.beta[0]));
    const double forget = std::exp(kept - m_);
    const double input = std::exp(D(t.beta[0]) - m_);
    Doubles o(V);
    double weight = 0;
    for (size_t i = 0; i < K; ++i) {
      n_[i] = forget * n_[i] + input * D(t.k[i]);
      weight += D(t.q[i]) * n_[i];
      for (size_t j = 0; j < V; ++j) {
        double& s = S_[i * V + j];
        s = forget * s + input * D(t.k[i]) * D(t.v[j]);
        o[j] += D(t.q[i]) * s;
      }
    }
    for (double& x : o) {
      x /= std::max(std::abs(weight), std::exp(-m_)) + 1e-6;
    }
    return o;
  }

 private:
  Gates gates_;
  MlstmRecurrence part_;
  double m_ = 0;
  double n_[K] = {};
  double S_[K * V] = {};
};

Token Draw(Numbers& numbers, Subject& subject) {
  Token t = {};
  const float size = std::exp2(numbers.Uniform(-4, 4));
  const float least = subject.Divides() ? 0.1f : -1;
  for (float& x : t.q) x = numbers.Uniform(least, 1);
  for (float& x : t.k) x = numbers.Uniform(least, 1);
  for (float& x : t.v) x = size * numbers.Uniform(-1, 1);
  subject.Draw(numbers, t);
  return t;
}

// The relative RMS error of the last outputs after so many tokens, in segments
// of so many rows.
double Drift(const Family& family, size_t tokens, size_t rows) {
  SCOPED_TRACE(testing::Message() << family.name << " seed " << kSeed);
  PartHarness harness({.config = {{"model_type", "none"}}, .tensors = {}});
  const std::unique_ptr<Subject> subject = family.make();
  subject->Make(harness.builder());
  harness.Start(rows);
  Numbers numbers(kSeed);
  std::vector<Token> piece(rows);
  std::vector<float> out(rows * V);
  double errors = 0, sizes = 0;
  for (size_t done = 0; done < tokens; done += rows) {
    for (Token& token : piece) token = Draw(numbers, *subject);
    subject->Run(harness.segment(done, rows), piece.data(), out.data(),
                 harness.buffers());
    for (size_t t = 0; t < rows; ++t) {
      const Doubles exact = subject->Exact(piece[t]);
      for (size_t j = 0; done + t + kCompared >= tokens && j < V; ++j) {
        errors += std::pow(D(out[t * V + j]) - exact[j], 2);
        sizes += exact[j] * exact[j];
      }
    }
  }
  return std::sqrt(errors / sizes);
}

using Maker = std::function<std::unique_ptr<Subject>()>;

Maker GatedOf(GatedRecurrence::Options options, Gates gates, Form form) {
  return [=] { return std::make_unique<Gated>(options, gates, form); };
}

Maker GatedOf(Decay decay, Gates gates, Form form) {
  return GatedOf({.decay = decay}, gates, std::move(form));
}

Maker RankOneOf(Decay decay, Gates gates, Form form, bool rwkv7 = false) {
  return [=] { return std::make_unique<RankOne>(decay, rwkv7, gates, form); };
}

Maker MlstmOf(Gates gates) {
  return [=] { return std::make_unique<Mlstm>(gates); };
}

// Decays of a gate's arguments between `gates`; of gates with a temperature of
// 16 between `tempered`. What has one decay a head has the slowest.
std::vector<Family> FamiliesOf(const std::string& reach, Gates gates,
                               Gates tempered, bool bounded_steps) {
  const Gates one = {gates.most, gates.most};
  const Gates one_tempered = {tempered.most, tempered.most};
  const Form sigmoid = SigmoidGate(1);
  const std::pair<const char*, Maker> in_chunks[] = {
      {"gla", GatedOf(Decay::kKey, tempered, SigmoidGate(16))},
      {"simple_gla", GatedOf(Decay::kScalar, one_tempered, SigmoidGate(16))},
      {"mamba2", GatedOf(Decay::kScalar, one, SoftplusGate(1))},
      {"hgrn2", GatedOf(Decay::kKey, gates, FlooredGate(0.25f))},
      {"rwkv6",
       GatedOf({.decay = Decay::kKey, .bonus = true}, gates, ExpExpGate())},
      {"gated_deltanet", RankOneOf(Decay::kScalar, one, SoftplusGate(1))},
      {"linear_recurrence scalar", GatedOf(Decay::kScalar, one, sigmoid)},
      {"linear_recurrence scalar z",
       GatedOf({.decay = Decay::kScalar, .normalizer_eps = 0.0f}, one,
               sigmoid)},
      {"linear_recurrence key z",
       GatedOf({.decay = Decay::kKey, .normalizer_eps = 0.0f}, gates,
               sigmoid)}};
  const std::pair<const char*, Maker> in_steps[] = {
      {"hgrn", GatedOf(Decay::kValue, gates, FlooredGate(0.25f))},
      {"mamba", GatedOf(Decay::kFull, gates, nullptr)},
      {"kda", RankOneOf(Decay::kKey, gates, SoftplusGate(1))},
      {"rwkv7", RankOneOf(Decay::kKey, gates, Rwkv7Gate(), true)},
      {"xlstm", MlstmOf(one)},
      {"linear_recurrence outer", GatedOf(Decay::kOuter, gates, sigmoid)},
      {"linear_recurrence complex", GatedOf(Decay::kComplex, gates, sigmoid)}};
  std::vector<Family> families;
  for (const auto& [name, make] : in_chunks) {
    families.push_back({name + reach, make, true, bounded_steps});
  }
  for (const auto& [name, make] : in_steps) {
    families.push_back({name + reach, make, false, bounded_steps});
  }
  return families;
}

std::vector<Family> Families() {
  const Gates none = {0, 0};
  // sigmoid(9.21), and the 16th root of sigmoid(6.44), are 1 - 1e-4.
  std::vector<Family> families =
      FamiliesOf(" to 1 - 1e-4", {4, 9.21f}, {4, 6.44f}, true);
  for (const Family& family :
       FamiliesOf(" biases to 12", {4, 12}, {4, 12}, false)) {
    families.push_back(family);
  }
  for (const double factor : {1 - 0x1p-12, 1 - 0x1p-19, 0.99990003}) {
    char name[64];
    std::snprintf(name, sizeof(name), "constant 1 - %.2g", 1 - factor);
    families.push_back(
        {name,
         GatedOf({.decay = Decay::kScalar, .constants = {factor}}, none,
                 nullptr),
         true, factor < 1 - 1e-4});
  }
  families.push_back(
      {"linear_attn", GatedOf(Decay::kNone, none, nullptr), true, true});
  families.push_back(
      {"delta_net", RankOneOf(Decay::kNone, none, nullptr), true, true});
  return families;
}

constexpr size_t kShortTokens = 20000;

size_t TokensOfRun() {
  const char* tokens = std::getenv("STEADYSTATE_DRIFT_TOKENS");
  return tokens == nullptr ? kShortTokens : std::strtoull(tokens, nullptr, 10);
}

class DriftTest : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, DriftTest, testing::ValuesIn(Families()),
                         [](const auto& made) {
                           std::string name = made.param.name;
                           std::ranges::replace_if(
                               name,
                               [](char c) { return std::isalnum(c) == 0; },
                               '_');
                           return name;
                         });

TEST_P(DriftTest, OutputsStayBesideTheFormulaInDoubles) {
  const Family& family = GetParam();
  const size_t tokens = TokensOfRun() / kPiece * kPiece;
  const double of_prompts = Drift(family, tokens, kPiece);
  const double of_steps = Drift(family, tokens, 1);
  std::printf("| %s | %.1e | %.1e |\n", family.name.c_str(), of_prompts,
              of_steps);
  if (tokens <= kShortTokens) {
    EXPECT_LE(of_prompts, family.in_chunks ? 1e-6 : 5e-6);
    EXPECT_LE(of_steps, 5e-6);
    return;
  }
  EXPECT_LE(of_prompts, 1e-5);
  if (family.bounded_steps) {
    EXPECT_LE(of_steps, 1e-5);
  }
}

}  // namespace
}  // namespace steadystate::drift_test
