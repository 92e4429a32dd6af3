#include "strategies/select/price_flips.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/units.h"
#include "strategies/select/questionnaire.h"
#include "strategies/select/scaled_parameters.h"

namespace shardlab {
namespace {

constexpr double kEqual = 1e-12;
constexpr int kMostBisections = 64;
// How far a price may be above the line of the choice, relatively, and still be looked at: slopes
// have an error of about 1e-9, which grows by up to kMostFactor along a line.
constexpr double kLineError = 1e-6;

double most_of(const ScaledParameter& parameter) {
  return parameter.factor == &CostFactors::launch ? kMostLaunchFactor : kMostFactor;
}

// The search proceeds from factor 1 outwards, band by band. These are the ends of the bands; the
// largest factor of each parameter is one of them.
constexpr std::array<double, 4> kBands = {2.0, kMostLaunchFactor, 128.0, kMostFactor};

bool has_value(const std::optional<PriceFlip>& flip) { return flip.has_value(); }

// Whether `a` needs a smaller change than `b`, by more than the errors of both.
bool is_nearer(const PriceFlip& a, const PriceFlip& b) {
  return a.distance() < b.distance() - kSameDistance;
}

}  // namespace

// The search along the envelope of one question's prices.
class PriceFlips::Search {
 public:
  // `bounds` is null where nothing shall be proved.
  Search(StackEvaluator& evaluator, FlipBounds* bounds, std::size_t& ruled_out,
         const PricedCall& question)
      : evaluator_(evaluator),
        bounds_(bounds),
        ruled_out_(ruled_out),
        question_(question),
        rule_(question.rule),
        call_(question.call),
        mesh_(question.mesh),
        tensors_(question.call.tensors()),
        expansion_(question.expansion) {
    reset();
    if (expansion_.size() == 0 || !(question.decision.choice.total_us < kInfinity)) return;
    chosen_ = number_of(question.decision.choice);
    if (chosen_ && bounds_ != nullptr) bounds_->begin(question_, *chosen_);
  }

  // The first flip as the parameter goes from `begin` to `end`, both on one side of 1. Assumes that
  // nothing flips the choice from 1 to `begin`.
  [[nodiscard]] std::optional<PriceFlip> flip(const ScaledParameter& parameter, double begin,
                                              double end) {
    if (!chosen_ || expansion_.size() < 2) return std::nullopt;
    if (bounds_ != nullptr) {
      const double furthest = end > 1.0 ? most_of(parameter) : 1.0 / most_of(parameter);
      if (bounds_->rule_out(parameter, furthest) || bounds_->rule_out(parameter, end)) {
        ++ruled_out_;
        return std::nullopt;
      }
      reset();
    }
    parameter_ = &parameter;
    std::optional<PriceFlip> first = first_flip(begin, end);
    reset();
    if (first && parameter.inverse) first->factor = 1.0 / first->factor;
    return first;
  }

 private:
  // A candidate's price near one factor.
  struct Line {
    std::size_t candidate;
    double factor;  // the factor at which the price has this value
    double value;
    double slope;
    [[nodiscard]] double operator()(double f) const { return value + slope * (f - factor); }
  };

  void reset() {
    factors_ = {};
    evaluator_.set_factors(factors_);
  }

  // The first candidate that is the choice. The layouts of a tensor are compared once for each
  // code.
  [[nodiscard]] std::optional<std::size_t> number_of(const Candidate& choice) const {
    const std::size_t outputs = expansion_.outputs();
    struct Tensor {
      Expansion::CodesOf codes;
      const Placements& chosen;
      std::vector<std::int8_t> is_chosen;  // by code; -1: not compared yet
    };
    std::vector<Tensor> tensors;
    for (std::size_t t = 0; t < outputs + expansion_.inputs(); ++t) {
      tensors.push_back({expansion_.codes_of_tensor(t),
                         t < outputs ? choice.outputs[t] : choice.inputs[t - outputs],
                         std::vector<std::int8_t>(expansion_.tensor_codes(t), -1)});
    }
    const auto is_chosen = [&](std::size_t t, std::size_t candidate) {
      const std::uint32_t code = tensors[t].codes[candidate];
      std::int8_t& known = tensors[t].is_chosen[code];
      if (known < 0) known = expansion_.tensor_layout(t, code) == tensors[t].chosen ? 1 : 0;
      return known == 1;
    };
    for (std::size_t c = 0; c < expansion_.size(); ++c) {
      std::size_t t = 0;
      while (t < tensors.size() && is_chosen(t, c)) ++t;
      if (t == tensors.size()) return c;
    }
    return std::nullopt;
  }

  // The factors of the launch floor at which a kernel leaves it.
  [[nodiscard]] const std::vector<double>& thresholds() {
    if (!thresholds_) {
      reset();
      thresholds_ = evaluator_.launch_thresholds(
          [&] { static_cast<void>(evaluator_.price(expansion_, &rule_, call_, mesh_)); });
    }
    return *thresholds_;
  }

  // The totals of all candidates, of which those above the limit may be infinite. Kernels keep
  // their prices unless the launch floor is scaled.
  [[nodiscard]] std::vector<double> totals_at(double f, double limit) {
    set(f);
    const std::vector<double>& kernels = question_.pricing.compute_us;
    // A kernel takes at least its price at factor 1, times the factor if that is below 1.
    const double moves =
        kernels.empty() ? limit : limit - least_kernel() * std::min(1.0, factors_.launch);
    if (kernels.empty() || factors_.launch != 1.0) {
      return evaluator_.price(expansion_, &rule_, call_, mesh_, moves).totals;
    }
    std::vector<double> totals = evaluator_.price(expansion_, nullptr, call_, mesh_, moves).totals;
    for (std::size_t c = 0; c < totals.size(); ++c) {
      if (totals[c] < kInfinity && !(question_.pricing.totals[c] < kInfinity)) {
        return evaluator_.price(expansion_, &rule_, call_, mesh_, moves).totals;  // no price yet
      }
      totals[c] += kernels[c];
    }
    return totals;
  }

  // What the cheapest kernel of any candidate costs at factors of 1; 0 if some were not priced.
  [[nodiscard]] double least_kernel() {
    if (least_kernel_) return *least_kernel_;
    double least = kInfinity;
    for (std::size_t c = 0; c < expansion_.size(); ++c) {
      if (!(question_.pricing.totals[c] < kInfinity)) return *(least_kernel_ = 0.0);
      least = std::min(least, question_.pricing.compute_us[c]);
    }
    return *(least_kernel_ = least);
  }

  void set(double f) {
    if (factors_.*(parameter_->factor) == f) return;
    factors_.*(parameter_->factor) = f;
    evaluator_.set_factors(factors_);
  }

  [[nodiscard]] double price_of(std::size_t candidate, double f) {
    set(f);
    Redistributor& redistributor = evaluator_.on(mesh_);
    double total = 0.0;
    std::vector<Placements> inputs;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      inputs.push_back(expansion_.input(candidate, i));
      if (expansion_.code(candidate, i) == expansion_.current_code(i)) continue;
      total += redistributor.cost_us(tensors_[i]->meta, tensors_[i]->layout,
                                     expansion_.input_layout(i, expansion_.code(candidate, i))) +
               evaluator_.stack().transition_us;
    }
    if (evaluator_.stack().compute_model.entry->name == "none") return total;
    std::vector<Placements> outputs;
    for (std::size_t o = 0; o < expansion_.outputs(); ++o) {
      outputs.push_back(expansion_.output(candidate, o));
    }
    return total + evaluator_.compute_us(rule_, call_, mesh_, inputs, outputs);
  }

  // The line that a candidate's price follows from `f` towards `towards`.
  [[nodiscard]] Line line_of(std::size_t candidate, double f, double towards) {
    const double step = (towards > f ? f : -f) * 0x1p-20;
    const double value = price_of(candidate, f);
    return {candidate, f, value, (price_of(candidate, f + step) - value) / step};
  }

  // The cheapest candidate at `f`; the chosen one if no other is cheaper. The chosen one costs
  // `chosen_at_most` or less there.
  [[nodiscard]] std::size_t cheapest_at(double f, double chosen_at_most, double& least) {
    std::vector<double> totals = totals_at(f, chosen_at_most * (1.0 + kLineError));
    if (!(totals[*chosen_] < kInfinity)) totals = totals_at(f, kInfinity);
    const auto first = std::min_element(totals.begin(), totals.end());
    least = *first;
    if (totals[*chosen_] <= least * (1.0 + kEqual)) {
      least = totals[*chosen_];
      return *chosen_;
    }
    return static_cast<std::size_t>(first - totals.begin());
  }

  [[nodiscard]] std::optional<PriceFlip> first_flip(double begin, double end) {
    if (parameter_->factor != &CostFactors::launch) return flip_between(begin, end);
    if (thresholds().empty()) return std::nullopt;
    const double limit = price_of(*chosen_, std::max(begin, end));
    std::vector<Ends> knots = {ends_at(begin, limit)};
    for (const double threshold : thresholds()) {
      if (threshold > std::min(begin, end) && threshold < std::max(begin, end)) {
        knots.push_back({threshold});
      }
    }
    if (end < begin) std::reverse(knots.begin() + 1, knots.end());
    knots.push_back(ends_at(end, limit));
    return flip_among(knots, 0, knots.size() - 1);
  }

  // What the choice costs at a factor of the launch floor, and what any other candidate costs at
  // least.
  struct Ends {
    double f;
    double chosen = kInfinity;
    double others = kInfinity;
  };
  // Prices of other candidates above the limit are not looked at.
  [[nodiscard]] Ends ends_at(double f, double limit) {
    const std::vector<double> totals = totals_at(f, limit);
    Ends ends{f, price_of(*chosen_, f), limit};
    for (std::size_t c = 0; c < totals.size(); ++c) {
      if (c != *chosen_) ends.others = std::min(ends.others, totals[c]);
    }
    return ends;
  }

  // The first flip from knot `begin` to knot `end`, whose prices are known. No price falls as the
  // floor rises, so between two knots the choice costs at most what it does at the higher one, and
  // the others cost at least what they do at the lower one.
  [[nodiscard]] std::optional<PriceFlip> flip_among(std::vector<Ends>& knots, std::size_t begin,
                                                    std::size_t end) {
    const bool rising = knots[begin].f < knots[end].f;
    const Ends& lower = knots[rising ? begin : end];
    const Ends& higher = knots[rising ? end : begin];
    if (higher.chosen <= lower.others) return std::nullopt;
    if (end == begin + 1) return flip_between(knots[begin].f, knots[end].f);
    const std::size_t middle = begin + (end - begin) / 2;
    knots[middle] = ends_at(knots[middle].f, higher.chosen);
    if (auto found = flip_among(knots, begin, middle)) return found;
    return flip_among(knots, middle, end);
  }

  // Assumes that the chosen candidate is cheapest at `begin`.
  [[nodiscard]] std::optional<PriceFlip> flip_between(double begin, double end) {
    Line chosen = line_of(*chosen_, begin, end);
    double least = 0.0;
    std::size_t winner = cheapest_at(end, chosen(end), least);
    Line other = line_of(winner, end, begin);
    for (int step = 0; step < kMostBisections; ++step) {
      if (least >= chosen(other.factor) * (1.0 - 1e-9) || chosen.slope == other.slope) {
        return std::nullopt;  // the chosen candidate's line is the envelope all the way
      }
      const double meet =
          other.factor + (chosen(other.factor) - other.value) / (other.slope - chosen.slope);
      const bool between =
          meet > std::min(begin, other.factor) && meet < std::max(begin, other.factor);
      const double crossing = between ? meet : begin;
      if (!between && other.candidate != *chosen_) return found(other.candidate, crossing);
      winner = cheapest_at(crossing, chosen(crossing), least);
      if (least < chosen(crossing) * (1.0 - 1e-9)) {
        other = line_of(winner, crossing, begin);
        continue;
      }
      if (other.candidate != *chosen_) return found(other.candidate, crossing);
      // The chosen candidate is still the cheapest, by another path.
      begin = crossing;
      chosen = other;
      winner = cheapest_at(end, chosen(end), least);
      other = line_of(winner, end, begin);
    }
    return std::nullopt;
  }

  [[nodiscard]] PriceFlip found(std::size_t candidate, double f) const {
    std::vector<Placements> inputs;
    std::vector<Placements> outputs;
    for (std::size_t i = 0; i < expansion_.inputs(); ++i) {
      inputs.push_back(expansion_.input(candidate, i));
    }
    for (std::size_t o = 0; o < expansion_.outputs(); ++o) {
      outputs.push_back(expansion_.output(candidate, o));
    }
    return {parameter_->name, f, choice_text(inputs, outputs)};
  }

  StackEvaluator& evaluator_;
  FlipBounds* bounds_;
  std::size_t& ruled_out_;
  CostFactors factors_;  // the factors that the evaluator has now
  const PricedCall& question_;
  const OpRule& rule_;
  const OpCall& call_;
  const DeviceMesh& mesh_;
  boost::container::small_vector<const TensorSpec*, 4> tensors_;
  const Expansion& expansion_;
  std::optional<std::size_t> chosen_;
  std::optional<std::vector<double>> thresholds_;
  std::optional<double> least_kernel_;
  const ScaledParameter* parameter_ = nullptr;
};

PriceFlips::PriceFlips(const Stack& stack, const Topology& topology)
    : evaluator_(stack, topology), bounds_(evaluator_) {}

std::vector<PriceFlip> PriceFlips::of(const OpCall& call, const DeviceMesh& mesh) {
  return nearest(call, mesh, /*only_first=*/false);
}

std::optional<PriceFlip> PriceFlips::first_of(const OpCall& call, const DeviceMesh& mesh) {
  std::vector<PriceFlip> flips = nearest(call, mesh, /*only_first=*/true);
  if (flips.empty()) return std::nullopt;
  return std::move(flips.front());
}

std::optional<PriceFlip> PriceFlips::first_of(const PricedCall& question) {
  std::vector<PriceFlip> flips = nearest(question, /*only_first=*/true);
  if (flips.empty()) return std::nullopt;
  return std::move(flips.front());
}

std::vector<PriceFlip> PriceFlips::nearest(const OpCall& call, const DeviceMesh& mesh,
                                           bool only_first) {
  const OpRule& rule = find_op_rule(call.op, evaluator_.stack().rules);
  const Expansion expansion = expand(rule, call, mesh);
  if (expansion.size() == 0) return {};
  evaluator_.set_factors({});
  const Pricing pricing = evaluator_.price(expansion, &rule, call, mesh);
  const Decision decision = evaluator_.decide(expansion, pricing, &rule, call, mesh);
  return nearest({rule, call, mesh, expansion, pricing, decision}, only_first);
}

// Searches the bands from factor 1 outwards, since pricing takes longer at factors far from 1.
// Where only the first flip is asked for, no search goes beyond the nearest one found so far.
std::vector<PriceFlip> PriceFlips::nearest(const PricedCall& question, bool only_first) {
  Search search(evaluator_, proves_ ? &bounds_ : nullptr, ruled_out_, question);
  std::array<std::optional<PriceFlip>, kScaledParameters.size()> found;
  double nearest = kInfinity;  // the distance of the nearest flip so far
  double begin = 1.0;
  for (const double end : kBands) {
    for (std::size_t p = 0; p < kScaledParameters.size(); ++p) {
      if (found[p] || begin >= most_of(kScaledParameters[p])) continue;
      const auto follow = [&](bool upwards) -> std::optional<PriceFlip> {
        const double reach = only_first ? std::min(end, std::exp(nearest - kSameDistance)) : end;
        if (reach <= begin) return std::nullopt;
        std::optional<PriceFlip> flip =
            upwards ? search.flip(kScaledParameters[p], begin, reach)
                    : search.flip(kScaledParameters[p], 1.0 / begin, 1.0 / reach);
        if (flip) nearest = std::min(nearest, flip->distance());
        return flip;
      };
      std::optional<PriceFlip> above = follow(/*upwards=*/true);
      std::optional<PriceFlip> below = follow(/*upwards=*/false);
      found[p] = below && (!above || is_nearer(*below, *above)) ? below : above;
    }
    if (only_first && std::any_of(found.begin(), found.end(), has_value)) break;
    begin = end;
  }
  std::vector<PriceFlip> flips;
  for (std::optional<PriceFlip>& flip : found) {
    if (!flip) continue;
    const auto further = std::find_if(flips.begin(), flips.end(), [&](const PriceFlip& other) {
      return is_nearer(*flip, other);
    });
    flips.insert(further, std::move(*flip));
  }
  return flips;
}

}  // namespace shardlab
