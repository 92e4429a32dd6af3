// Checks of redistributions, planned or by the steps that a case lists, and of relations between
// their prices.
#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "strategies/cases/case_checks.h"

namespace shardlab::case_checks {
namespace {

std::string dims_text(const MeshDims& dims, std::string_view separator) {
  std::string out;
  for (const int dim : dims) {
    if (!out.empty()) out += separator;
    out += std::to_string(dim);
  }
  return out;
}

// A step as text: "0:P(sum)->R". A merged step names all of its mesh dims: "0+2:P(sum)->R".
std::string step_text(const PlanStep& step) {
  return dims_text(step.mesh_dims, "+") + ":" + step.from.text() + "->" + step.to.text();
}

StepRequest parse_step(std::string_view text) {
  TextCursor cursor("step", text);
  const auto mesh_dim = static_cast<int>(cursor.integer("a mesh dim", 0, kMaxMeshDims - 1));
  cursor.expect(":", "\":\" and a change such as S(0)->R");
  const std::size_t arrow = text.find("->", cursor.position());
  if (arrow == std::string_view::npos) cursor.fail("a change such as S(0)->R");
  return {mesh_dim, Placement::parse(text.substr(cursor.position(), arrow - cursor.position())),
          Placement::parse(text.substr(arrow + 2))};
}

double price_of(const Plan& plan) {
  return plan.impossible.empty() ? plan.price.total.value() : kInfinity;
}

constexpr std::array<AnswerKey, 18> kPlanAnswers = {{
    {"path"},
    {"to"},  // the layout that the step ends in
    {"price_us"},
    {"executed_us"},
    {"steps"},
    {"steps_us"},
    {"full_bytes"},
    {"collectives"},
    {"communicating"},
    {"logical_shapes"},
    {"optimal_paths"},
    {"avg_scales"},
    {"flattened"},
    {"warnings"},
    {"warning", Match::kContains},
    {"impossible", Match::kContains},
    {"unexecutable", Match::kContains},
    {"error", Match::kContains},
}};

Observation observation_of(const Plan& plan) {
  Observation seen;
  seen.value = price_of(plan);
  nlohmann::json& answers = seen.answers;
  answers["path"] = plan.path();
  answers["to"] = plan.to.text();
  answers["price_us"] = finite_or_null(*seen.value);
  answers["executed_us"] = finite_or_null(plan.executed_price().total.value());
  answers["impossible"] = plan.impossible;
  answers["unexecutable"] = plan.unexecutable;
  answers["optimal_paths"] = plan.optimal_paths;
  for (const std::string_view list : {"steps", "steps_us", "full_bytes", "collectives",
                                      "logical_shapes", "avg_scales", "flattened", "warnings"}) {
    answers[std::string(list)] = nlohmann::json::array();
  }
  int communicating = 0;
  for (const PlanStep& step : plan.steps) {
    answers["steps"].push_back(step_text(step));
    answers["steps_us"].push_back(finite_or_null(step.price.total.value()));
    answers["full_bytes"].push_back(step.full_bytes);
    answers["collectives"].push_back(to_string(step.collective));
    answers["logical_shapes"].push_back(
        std::vector<std::int64_t>(step.logical_shape.begin(), step.logical_shape.end()));
    answers["avg_scales"].push_back(step.avg_scale);
    if (step.is_merged()) answers["flattened"].push_back(step.flattened_mesh);
    communicating += step.collective == Collective::kLocal ? 0 : 1;
  }
  answers["communicating"] = communicating;
  std::string all_warnings;
  for (const MergeWarning& warning : plan.warnings) {
    const std::string text = warning.reason + "(" + dims_text(warning.mesh_dims, ",") + ")";
    answers["warnings"].push_back(text);
    all_warnings += (all_warnings.empty() ? "" : "; ") + text;
  }
  answers["warning"] = all_warnings;
  return seen;
}

class PlanCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<PlanCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    check->meta_ = tensor_of(source.scene, source.place);
    check->from_ = check->layout(reader, "from");
    check->to_ = check->layout(reader, "to");
    check->options_.rank = reader.integer_or("rank", 0, 0, check->mesh_.size() - 1);
    const std::string planner = reader.text_or("planner", "");
    check->options_.planner = from_name<PlannerKind>(planner);
    if (!check->options_.planner && !planner.empty()) {
      reader.place("planner").fail("found \"" + planner +
                                   "\"; valid: " + valid_names<PlannerKind>());
    }
    check->planner_ = planner;
    check->hosts_ = differing_hosts(source.scene, source.setup);
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "plan " + meta_.text() + " " + from_.text() + "->" + to_.text() + " on " + mesh_.text() +
           hosts_ + (planner_.empty() ? "" : ", " + planner_);
  }

  [[nodiscard]] Observation observe(Bench& bench,
                                    const std::set<std::string>& asked) const override {
    PlanOptions options = options_;
    options.count_optimal_paths = asked.contains("optimal_paths");
    const Plan plan = bench.evaluator().asked_plan(mesh_, meta_, from_, to_, options);
    bench.plans.push_back({label(), bench.stack(), plan.path(), price_of(plan)});
    return observation_of(plan);
  }

 private:
  Layout layout(ObjectReader& reader, std::string_view key) const {
    const std::string text = reader.text(key);
    return parse_at(reader.place(key), [&] { return parse_layout(text, mesh_.ndim(), meta_); });
  }

  DeviceMesh mesh_;
  TensorMeta meta_;
  Layout from_;
  Layout to_;
  PlanOptions options_;
  std::string planner_;
  std::string hosts_;  // differing_hosts
};

class StepsCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<StepsCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    check->meta_ = tensor_of(source.scene, source.place);
    const std::string from = reader.text("from");
    check->from_ = parse_at(reader.place("from"),
                            [&] { return parse_layout(from, check->mesh_.ndim(), check->meta_); });
    const JsonPlace place = reader.place("steps");
    check->texts_ = read_texts(reader.value("steps"), place);
    for (std::size_t i = 0; i < check->texts_.size(); ++i) {
      check->steps_.push_back(parse_at(place.at(i), [&] { return parse_step(check->texts_[i]); }));
    }
    check->rank_ = reader.integer_or("rank", 0, 0, check->mesh_.size() - 1);
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "steps " + join(texts_, " ") + " from " + meta_.text() + " " + from_.text() + " on " +
           mesh_.text();
  }

  [[nodiscard]] Observation observe(Bench& bench, const std::set<std::string>&) const override {
    const Plan plan = bench.evaluator().on(mesh_).plan_of_steps(meta_, from_, steps_, rank_);
    bench.plans.push_back({label(), bench.stack(), plan.path(), price_of(plan)});
    return observation_of(plan);
  }

 private:
  DeviceMesh mesh_;
  TensorMeta meta_;
  Layout from_;
  std::vector<std::string> texts_;
  std::vector<StepRequest> steps_;
  std::int64_t rank_ = 0;
};

// -- Relations: ["a", "+", 1, "<", "b", "+", "c"] ----------------------------------------

constexpr std::array<std::string_view, 6> kComparisons = {"<", "<=", "==", "!=", ">=", ">"};

class RelationCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    source.scene = source.setup;
    auto check = std::make_unique<RelationCheck>();
    const nlohmann::json& tokens = json_array(source.json, source.place);
    bool wants_term = true;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const JsonPlace token_place = source.place.at(i);
      if (wants_term) {
        check->add_term(tokens[i], token_place, source.names);
      } else {
        check->add_sign(json_text(tokens[i], token_place), token_place);
      }
      wants_term = !wants_term;
    }
    if (wants_term || check->comparison_.empty()) {
      source.place.fail(
          "found " + tokens.dump() +
          "; valid: names of checks and numbers with + or - between them, and one of " +
          join(kComparisons, " "));
    }
    return check;
  }

  [[nodiscard]] bool uses_stack() const override { return false; }
  [[nodiscard]] std::string label() const override {
    return text([](const Term& term) { return term.text; });
  }

  [[nodiscard]] Observation observe(Bench& bench, const std::set<std::string>&) const override {
    const auto value = [&](const Term& term) {
      if (term.name.empty()) return term.number;
      const auto it = bench.values.find(term.name);
      if (it == bench.values.end()) throw InputError("\"" + term.name + "\" has no price");
      return it->second;
    };
    double left = 0.0;
    double right = 0.0;
    for (const Term& term : terms_) {
      double& side = term.on_the_right ? right : left;
      side = term.minus ? side - value(term) : side + value(term);
    }
    Observation seen;
    seen.answers["holds"] = holds(left, right);
    seen.shown_expected = text([](const Term& term) { return term.text; });
    seen.shown_got = text([&](const Term& term) { return format_double(value(term)); });
    return seen;
  }

 private:
  struct Term {
    std::string name;  // empty where the term is a number
    double number = 0.0;
    std::string text;
    bool minus = false;
    bool on_the_right = false;
  };

  void add_term(const nlohmann::json& token, const JsonPlace& token_place,
                const std::set<std::string>& names) {
    Term term;
    term.minus = minus_;
    term.on_the_right = !comparison_.empty();
    minus_ = false;
    if (token.is_number()) {
      term.number = json_number(token, token_place);
      term.text = format_double(term.number);
    } else {
      term.name = json_text(token, token_place);
      term.text = term.name;
      if (!names.contains(term.name)) {
        const std::vector<std::string_view> valid(names.begin(), names.end());
        token_place.fail("no check above has the name \"" + term.name + "\" and a price" +
                         did_you_mean(term.name, valid) + "; valid: " + join(valid));
      }
    }
    terms_.push_back(std::move(term));
  }

  void add_sign(const std::string& sign, const JsonPlace& token_place) {
    const bool compares =
        std::find(kComparisons.begin(), kComparisons.end(), sign) != kComparisons.end();
    if (compares && comparison_.empty()) {
      comparison_ = sign;
    } else if (sign == "+" || sign == "-") {
      minus_ = sign == "-";
    } else {
      token_place.fail("found \"" + sign + "\"; valid: + or -, and once one of " +
                       join(kComparisons, " "));
    }
  }

  [[nodiscard]] bool holds(double left, double right) const {
    if (comparison_ == "<") return left < right;
    if (comparison_ == "<=") return left <= right;
    if (comparison_ == "==") return left == right;
    if (comparison_ == "!=") return left != right;
    if (comparison_ == ">=") return left >= right;
    return left > right;
  }

  template <class TermText>
  [[nodiscard]] std::string text(TermText&& term_text) const {
    std::string out;
    bool right = false;
    for (const Term& term : terms_) {
      if (term.on_the_right && !right) {
        right = true;
        out += " " + comparison_ + " ";
      } else if (!out.empty()) {
        out += term.minus ? " - " : " + ";
      }
      out += term_text(term);
    }
    return out;
  }

  std::vector<Term> terms_;
  std::string comparison_;
  bool minus_ = false;
};

constexpr std::array<AnswerKey, 1> kRelationAnswers = {{{"holds"}}};

}  // namespace

constinit const CheckKind kPlanKind{
    .name = "plan", .answers = kPlanAnswers, .has_price = true, .read = PlanCheck::read};
constinit const CheckKind kStepsKind{
    .name = "steps", .answers = kPlanAnswers, .has_price = true, .read = StepsCheck::read};
constinit const CheckKind kRelationKind{
    .name = "relation", .answers = kRelationAnswers, .read = RelationCheck::read};

}  // namespace shardlab::case_checks
