#include "costmodel/straggler.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <new>
#include <numbers>
#include <utility>

#include "costmodel/base/error.h"

namespace shardlab {
namespace {

constexpr double kMaxSigma = 5.0;
constexpr std::size_t kMaxDelays = 1'000'000;

// The expectation of f(M), with M the largest of n standard normals, by the trapezoidal rule, which
// converges exponentially for smooth integrands that vanish at both ends.
template <class Function>
double expect_over_largest(std::int64_t n, const Function& f) {
  // The largest of 2^40 normals is about 7; a factor exp(5 z) moves the mass of the integrand up by
  // another 5.
  constexpr double kLow = -9.0;
  constexpr double kHigh = 21.0;
  constexpr double kStep = 1.0 / 128;
  const auto count = static_cast<double>(n);
  double sum = 0.0;
  for (double z = kLow; z <= kHigh; z += kStep) {
    const double above = 0.5 * std::erfc(z / std::numbers::sqrt2);
    const double others = n > 1 ? (count - 1) * std::log1p(-above) : 0.0;
    const double log_density = -0.5 * z * z + others;
    if (log_density < -700) continue;
    sum += f(z) * std::exp(log_density);
  }
  return sum * count * kStep * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

// One number for each n, computed when first asked for and shared between threads without a lock.
class Expectations {
 public:
  Expectations() = default;
  Expectations(const Expectations&) = delete;
  Expectations& operator=(const Expectations&) = delete;
  ~Expectations() {
    for (std::atomic<const Entry*>& slot : slots_) {
      for (const Entry* entry = slot.load(); entry != nullptr;) {
        const Entry* next = entry->next;
        delete entry;
        entry = next;
      }
    }
  }

  template <class Compute>
  double of(std::int64_t n, const Compute& compute) const {
    std::atomic<const Entry*>& slot = slots_[static_cast<std::size_t>(n) % slots_.size()];
    const Entry* head = slot.load(std::memory_order_acquire);
    for (const Entry* entry = head; entry != nullptr; entry = entry->next) {
      if (entry->n == n) return entry->value;
    }
    const double value = compute(n);
    // Two threads may both add n, which does no harm since their values are equal. If there is no
    // memory for the entry, the value is computed again next time.
    auto* entry = new (std::nothrow) Entry{n, value, head};
    if (entry == nullptr) return value;
    while (!slot.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                       std::memory_order_relaxed)) {
    }
    return value;
  }

 private:
  struct Entry {
    std::int64_t n;
    double value;
    const Entry* next;
  };
  mutable std::array<std::atomic<const Entry*>, 256> slots_{};
};

// Adds `wait(price, ranks)` to every price of a model that is possible and above zero.
class WaitingModel : public CostModel {
 public:
  explicit WaitingModel(std::unique_ptr<CostModel> model) : model_(std::move(model)) {}

  [[nodiscard]] Price price(const CollectiveQuery& query) const final {
    return waiting(model_->price(query), query);
  }
  [[nodiscard]] std::vector<Alternative> alternatives(const CollectiveQuery& query) const final {
    std::vector<Alternative> all = model_->alternatives(query);
    for (Alternative& alternative : all) alternative.price = waiting(alternative.price, query);
    return all;
  }

  // The measured ranges of the model itself. The waiting on top of it was not measured.
  [[nodiscard]] std::optional<double> log_error(const CollectiveQuery& query) const final {
    return model_->log_error(query);
  }
  [[nodiscard]] double error_correlation(const CollectiveQuery& a,
                                         const CollectiveQuery& b) const final {
    return model_->error_correlation(a, b);
  }
  [[nodiscard]] std::vector<MeasuredRange> measured() const final { return model_->measured(); }

 protected:
  [[nodiscard]] virtual Micros wait(Micros price, std::int64_t ranks) const = 0;

 private:
  [[nodiscard]] Price waiting(Price price, const CollectiveQuery& query) const {
    if (!price.is_possible() || price.total.value() == 0) return price;
    price.straggler = wait(price.total, query.group.ranks);
    price.total += price.straggler;
    return price;
  }

  std::unique_ptr<CostModel> model_;
};

class PercentStraggler final : public WaitingModel {
 public:
  PercentStraggler(std::unique_ptr<CostModel> model, double factor)
      : WaitingModel(std::move(model)), factor_(factor) {}

 private:
  [[nodiscard]] Micros wait(Micros price, std::int64_t /*ranks*/) const override {
    return factor_ * price;
  }
  double factor_;
};

class FixedStraggler final : public WaitingModel {
 public:
  FixedStraggler(std::unique_ptr<CostModel> model, Micros cost)
      : WaitingModel(std::move(model)), cost_(cost) {}

 private:
  [[nodiscard]] Micros wait(Micros /*price*/, std::int64_t ranks) const override {
    return ranks > 1 ? cost_ : Micros();
  }
  Micros cost_;
};

class LogNormalStraggler final : public WaitingModel {
 public:
  LogNormalStraggler(std::unique_ptr<CostModel> model, double sigma)
      : WaitingModel(std::move(model)), sigma_(sigma) {}

 private:
  [[nodiscard]] Micros wait(Micros price, std::int64_t ranks) const override {
    if (ranks <= 1) return {};
    const double factor =
        factors_.of(ranks, [this](std::int64_t n) { return expected_max_lognormal(sigma_, n); });
    return (factor - 1.0) * price;
  }
  double sigma_;
  Expectations factors_;
};

class EmpiricalStraggler final : public WaitingModel {
 public:
  EmpiricalStraggler(std::unique_ptr<CostModel> model, std::vector<double> sorted)
      : WaitingModel(std::move(model)), sorted_(std::move(sorted)) {}

 private:
  [[nodiscard]] Micros wait(Micros /*price*/, std::int64_t ranks) const override {
    if (ranks <= 1) return {};
    return Micros(
        delays_.of(ranks, [this](std::int64_t n) { return expected_max_of_draws(sorted_, n); }));
  }
  std::vector<double> sorted_;
  Expectations delays_;
};

// What to write instead of a bare name, for kinds that need figures.
std::string_view object_form(StragglerKind kind) {
  switch (kind) {
    case StragglerKind::kPercent:
      return R"({"name": "percent", "percent": NUMBER})";
    case StragglerKind::kFixed:
      return R"({"name": "fixed", "fixed_us": NUMBER})";
    case StragglerKind::kOrderStatistics:
      return R"({"name": "order_statistics", "sigma": NUMBER}, or "delays_us": [NUMBER] )"
             R"(in place of "sigma")";
    case StragglerKind::kNone:
      break;
  }
  return {};
}

StragglerKind read_kind(const std::string& name, const JsonPlace& place) {
  const std::optional<StragglerKind> kind = from_name<StragglerKind>(name);
  if (!kind) {
    place.fail("unknown straggler model \"" + name + "\"; valid: " + valid_names<StragglerKind>());
  }
  return *kind;
}

std::vector<double> read_delays(const nlohmann::json& json, const JsonPlace& place) {
  static_cast<void>(json_array(json, place));
  if (json.empty() || json.size() > kMaxDelays) {
    place.fail("found " + std::to_string(json.size()) + " delays; valid: 1 to 1000000");
  }
  std::vector<double> delays;
  delays.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    delays.push_back(json_number(json[i], place.at(i), {.min = 0.0, .max = 1e12}));
  }
  return delays;
}

}  // namespace

double expected_max_lognormal(double sigma, std::int64_t n) {
  return expect_over_largest(n, [sigma](double z) { return std::exp(sigma * z); });
}

double expected_max_of_draws(std::span<const double> sorted, std::int64_t n) {
  // The expected maximum is the largest value, minus each gap between neighbours times the chance
  // that no draw lies above it.
  const auto size = static_cast<double>(sorted.size());
  double expected = sorted.back();
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double below = static_cast<double>(i) / size;
    expected -= (sorted[i] - sorted[i - 1]) * std::pow(below, static_cast<double>(n));
  }
  return std::max(expected, sorted.front());
}

StragglerFit fit_straggler(std::span<const double> times_us, std::int64_t members) {
  if (times_us.size() < 2) {
    throw InputError("a straggler fit needs at least two measured times; found " +
                     std::to_string(times_us.size()));
  }
  if (members < 1) {
    throw InputError("a straggler fit: found " + std::to_string(members) +
                     " members; valid: 1 or more");
  }
  double mean = 0.0;
  for (std::size_t i = 0; i < times_us.size(); ++i) {
    if (!(times_us[i] > 0) || !std::isfinite(times_us[i])) {
      throw InputError("time " + std::to_string(i) + " of a straggler fit: found " +
                       std::to_string(times_us[i]) + "; valid: a positive number of us");
    }
    mean += std::log(times_us[i]);
  }
  const auto count = static_cast<double>(times_us.size());
  mean /= count;
  double squares = 0.0;
  for (const double time : times_us) squares += std::pow(std::log(time) - mean, 2);
  const double spread = std::sqrt(squares / (count - 1));
  const double of_largest = expect_over_largest(members, [](double z) { return z; });
  const double square_of_largest = expect_over_largest(members, [](double z) { return z * z; });
  StragglerFit fit;
  fit.sigma = spread / std::sqrt(square_of_largest - of_largest * of_largest);
  fit.median_us = std::exp(mean - fit.sigma * of_largest);
  fit.sigma_standard_error = fit.sigma / std::sqrt(2 * (count - 1));
  return fit;
}

Straggler Straggler::from_json(const nlohmann::json& json, const JsonPlace& place) {
  Straggler straggler;
  if (json.is_string()) {
    straggler.kind = read_kind(json.get<std::string>(), place);
    if (straggler.kind != StragglerKind::kNone) {
      place.fail("found " + describe_json(json) +
                 " without its figures; valid: " + std::string(object_form(straggler.kind)));
    }
    return straggler;
  }
  ObjectReader reader(json, place);
  const std::string name = reader.text("name");
  switch (from_name<StragglerKind>(name).value_or(StragglerKind::kNone)) {
    case StragglerKind::kPercent:
      straggler.percent = reader.number("percent", {.min = 0.0, .max = 1e6});
      break;
    case StragglerKind::kFixed:
      straggler.fixed_us = reader.number("fixed_us", {.min = 0.0, .max = 1e9});
      break;
    case StragglerKind::kOrderStatistics:
      if (const nlohmann::json* delays = reader.find("delays_us"); delays != nullptr) {
        straggler.delays_us = read_delays(*delays, reader.place("delays_us"));
      } else {
        straggler.sigma = reader.number("sigma", {.min = 0.0, .max = kMaxSigma});
      }
      break;
    case StragglerKind::kNone:
      break;
  }
  reader.finish();
  straggler.kind = read_kind(name, reader.place("name"));
  return straggler;
}

nlohmann::json Straggler::to_json() const {
  nlohmann::json json = {{"name", name_of(kind)}};
  switch (kind) {
    case StragglerKind::kPercent:
      json["percent"] = percent;
      break;
    case StragglerKind::kFixed:
      json["fixed_us"] = fixed_us;
      break;
    case StragglerKind::kOrderStatistics:
      if (delays_us.empty()) {
        json["sigma"] = sigma;
      } else {
        json["delays_us"] = delays_us;
      }
      break;
    case StragglerKind::kNone:
      break;
  }
  return json;
}

std::unique_ptr<CostModel> Straggler::decorate(std::unique_ptr<CostModel> model) const {
  switch (kind) {
    case StragglerKind::kPercent:
      return std::make_unique<PercentStraggler>(std::move(model), percent / 100.0);
    case StragglerKind::kFixed:
      return std::make_unique<FixedStraggler>(std::move(model), Micros(fixed_us));
    case StragglerKind::kOrderStatistics: {
      if (delays_us.empty()) return std::make_unique<LogNormalStraggler>(std::move(model), sigma);
      std::vector<double> sorted = delays_us;
      std::sort(sorted.begin(), sorted.end());
      return std::make_unique<EmpiricalStraggler>(std::move(model), std::move(sorted));
    }
    case StragglerKind::kNone:
      break;
  }
  return model;
}

}  // namespace shardlab
