// Checks of selections, from an op's rules, from rows or candidates that the case lists, or from
// listed prices, and checks of the rows themselves.
#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "strategies/cases/case_checks.h"
#include "strategies/rules/rule_text.h"

namespace shardlab::case_checks {
namespace {

constexpr std::array<AnswerKey, 18> kSelectAnswers = {{
    {"inputs"},
    {"outputs"},
    {"total_us"},
    {"redistribute_us"},
    {"compute_us"},
    {"candidates"},
    {"ties"},
    {"ties_include", Match::kIncludes},
    {"flips_with_order"},
    {"margin_us"},
    {"selected"},  // index in the order in which the policy saw them
    {"chosen"},    // the chosen candidate as text: outputs | inputs
    {"totals"},    // by the text of the candidate
    {"has", Match::kIncludes},
    {"lacks", Match::kLacks},
    {"collectives"},  // the collectives that bring the inputs into the chosen layouts
    {"search_note", Match::kContains},
    {"error", Match::kContains},
}};

// The name of the op of a check that lists rows or candidates and names no op.
constexpr std::string_view kNoOp = "op";
const OpRule& rule_for_listed_rows() {
  static const OpRule rule{.op = kNoOp};
  return rule;
}

std::vector<std::string> layout_texts(const std::vector<Placements>& layouts) {
  std::vector<std::string> texts;
  for (const Placements& placements : layouts) texts.push_back(Layout(placements).text());
  return texts;
}

OpCall read_call(ObjectReader& reader, const DeviceMesh& mesh, bool needs_op) {
  OpCall call;
  call.op = needs_op ? reader.text("op") : reader.text_or("op", kNoOp);
  const JsonPlace inputs = reader.place("inputs");
  const std::vector<std::string> texts = read_texts(reader.value("inputs"), inputs);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    call.inputs.push_back(
        parse_at(inputs.at(i), [&] { return OpCall::parse_input(texts[i], mesh.ndim()); }));
  }
  if (reader.find("args") != nullptr) call.args = reader.array("args");
  const std::int64_t child = reader.integer_or("child", -1, 0, 1 << 20);
  if (child >= 0) {
    const JsonPlace child_place = reader.place("child");
    const std::size_t size = parse_at(child_place, [&] { return foreach_size(call); });
    if (static_cast<std::size_t>(child) >= size) {
      child_place.fail("found " + std::to_string(child) + "; valid: 0 to " +
                       std::to_string(size - 1));
    }
    call = foreach_child(call, static_cast<std::size_t>(child));
  }
  return call;
}

CandidateOrder read_order(ObjectReader& reader) {
  const std::string text = reader.text_or("order", "listed");
  return parse_at(reader.place("order"), [&] { return CandidateOrder::parse(text); });
}

class SelectCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<SelectCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    const nlohmann::json* rows = reader.find("rows");
    const nlohmann::json* candidates = reader.find("candidates");
    if (rows != nullptr && candidates != nullptr) {
      source.place.fail("found \"rows\" and \"candidates\"; valid: one of them, or neither");
    }
    const bool listed = rows != nullptr || candidates != nullptr;
    check->call_ = read_call(reader, check->mesh_, !listed);
    check->has_op_ = !listed || reader.find("op") != nullptr;
    if (rows != nullptr) check->read_rows(*rows, reader.place("rows"));
    if (candidates != nullptr) check->read_candidates(*candidates, reader.place("candidates"));
    if (reader.find("order") != nullptr) check->options_.order = read_order(reader);
    check->read_search(reader, listed);
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "select " + question() + (options_.order ? ", " + options_.order->text() : "");
  }

  [[nodiscard]] Observation observe(Bench& bench,
                                    const std::set<std::string>& asked) const override {
    StackEvaluator& evaluator = bench.evaluator();
    const Selection selection = select(evaluator);
    Observation seen;
    seen.value = selection.choice.total_us;
    nlohmann::json& answers = seen.answers;
    answers["inputs"] = layout_texts(selection.choice.inputs);
    answers["outputs"] = layout_texts(selection.choice.outputs);
    answers["total_us"] = finite_or_null(selection.choice.total_us);
    answers["compute_us"] = selection.choice.compute_us;
    answers["redistribute_us"] = nlohmann::json::array();
    for (const double us : selection.choice.redistribute_us) {
      answers["redistribute_us"].push_back(finite_or_null(us));
    }
    answers["candidates"] = selection.candidates.size();
    answers["ties"] = selection.ties.size();
    answers["flips_with_order"] = selection.flips_with_order;
    answers["margin_us"] =
        selection.margin_us ? nlohmann::json(*selection.margin_us) : nlohmann::json(nullptr);
    answers["selected"] = selection.selected;
    answers["chosen"] = candidate_text(selection.choice.outputs, selection.choice.inputs);
    answers["search_note"] = selection.search_note;

    SelectView view{.question = question(),
                    .stack = bench.stack(),
                    .order = options_.order.value_or(evaluator.stack().order).text(),
                    .totals = {},
                    .ties = {},
                    .chosen = answers["chosen"]};
    answers["totals"] = nlohmann::json::object();
    answers["has"] = nlohmann::json::array();
    for (const Candidate& candidate : selection.candidates) {
      const std::string text = candidate_text(candidate.outputs, candidate.inputs);
      answers["totals"][text] = finite_or_null(candidate.total_us);
      answers["has"].push_back(text);
      view.totals.emplace_back(text, candidate.total_us);
    }
    answers["lacks"] = answers["has"];
    for (const std::size_t tie : selection.ties) view.ties.push_back(view.totals[tie].first);
    answers["ties_include"] = view.ties;
    if (asked.contains("collectives")) answers["collectives"] = collectives(evaluator, selection);
    bench.selections.push_back(std::move(view));
    return seen;
  }

 private:
  [[nodiscard]] std::string question() const {
    std::string out = call_.text() + " on " + mesh_.text();
    if (!rows_.empty()) {
      out += ", rows";
      for (const Row& row : rows_) out += " " + row_text(row, outputs_);
    }
    if (!candidates_.empty()) out += ", candidates as listed";
    if (options_.search) out += ", search " + std::string(to_string(*options_.search));
    if (!options_.nesting_guard.value_or(true)) out += " without nesting guard";
    return out;
  }

  void read_rows(const nlohmann::json& json, const JsonPlace& place) {
    const std::vector<std::string> texts = read_texts(json, place);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      RowText row = parse_at(place.at(i), [&] { return parse_row(texts[i]); });
      outputs_ = row.outputs;
      rows_.push_back(std::move(row.row));
    }
    if (rows_.empty()) place.fail("found an empty array; valid: an array of at least one row");
  }

  void read_candidates(const nlohmann::json& json, const JsonPlace& place) {
    const std::vector<std::string> texts = read_texts(json, place);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      candidates_.push_back(
          parse_at(place.at(i), [&] { return parse_candidate(texts[i], mesh_.ndim()); }));
      if (candidates_[i].inputs.size() != call_.tensors().size()) {
        place.at(i).fail("found " + std::to_string(candidates_[i].inputs.size()) +
                         " inputs; valid: " + std::to_string(call_.tensors().size()));
      }
    }
    if (candidates_.empty())
      place.fail("found an empty array; valid: an array of at least one candidate");
  }

  void read_search(ObjectReader& reader, bool listed) {
    const std::string search = reader.text_or("search", "");
    const JsonPlace place = reader.place("search");
    if (!reader.boolean_or("nesting_guard", true)) options_.nesting_guard = false;
    if (search.empty()) return;
    if (listed) place.fail("listed rows and candidates are not searched; valid: no \"search\"");
    options_.search = from_name<SearchKind>(search);
    if (!options_.search) {
      place.fail("found \"" + search + "\"; valid: full, dijkstra, exact");
    }
  }

  [[nodiscard]] Selection select(StackEvaluator& evaluator) const {
    const OpRule* rule = has_op_ ? &find_op_rule(call_.op, evaluator.stack().rules) : nullptr;
    if (!candidates_.empty()) {
      return evaluator.select_from(expand_candidates(candidates_, call_, mesh_), rule, call_, mesh_,
                                   options_);
    }
    if (!rows_.empty()) {
      const OpRule& used = rule == nullptr ? rule_for_listed_rows() : *rule;
      const Rows filled = fill_rows(rows_, outputs_, call_);
      return evaluator.select_from(expand_rows(filled, outputs_, used, call_, mesh_), rule, call_,
                                   mesh_, options_);
    }
    return evaluator.select(call_, mesh_, options_);
  }

  [[nodiscard]] nlohmann::json collectives(StackEvaluator& evaluator,
                                           const Selection& selection) const {
    nlohmann::json names = nlohmann::json::array();
    const auto tensors = call_.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Layout to = asked_layout(call_, selection.choice.inputs[i]);
      if (to.placements == tensors[i]->layout.placements) continue;
      const Plan plan = evaluator.plan(mesh_, tensors[i]->meta, tensors[i]->layout, to);
      for (const PlanStep& step : plan.steps) {
        if (step.collective != Collective::kLocal) names.push_back(to_string(step.collective));
      }
    }
    return names;
  }

  DeviceMesh mesh_;
  OpCall call_;
  bool has_op_ = true;
  Rows rows_;
  std::size_t outputs_ = 1;
  std::vector<FollowCandidate> candidates_;
  SelectOptions options_;
};

// -- policy: the choice among listed prices ----------------------------------------------

constexpr std::array<AnswerKey, 4> kPolicyAnswers = {
    {{"selected"}, {"ties"}, {"flips_with_order"}, {"margin_us"}}};

// What a case says about its candidates.
class ListedTies final : public TieBreaker {
 public:
  struct Row {
    double collectives = 0.0;
    double bytes = 0.0;
    double compute_us = 0.0;
    std::string text = {};
  };
  std::vector<Row> rows;

  double collectives(std::size_t candidate) override { return rows[candidate].collectives; }
  double bytes(std::size_t candidate) override { return rows[candidate].bytes; }
  double compute_us(std::size_t candidate) override { return rows[candidate].compute_us; }
  std::string text(std::size_t candidate) override { return rows[candidate].text; }
};

class PolicyCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    auto check = std::make_unique<PolicyCheck>();
    source.scene = Scene::read(reader, source.setup);
    const nlohmann::json& candidates = reader.array("candidates");
    const JsonPlace place = reader.place("candidates");
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      ObjectReader candidate(candidates[i], place.at(i));
      const nlohmann::json& total = candidate.value("total_us");
      check->totals_.push_back(total.is_null() ? kInfinity
                                               : json_number(total, candidate.place("total_us")));
      check->keeps_.push_back(candidate.boolean_or("keeps_inputs", false) ? 1 : 0);
      ListedTies::Row& row = check->rows_.emplace_back();
      row.collectives = candidate.number_or("collectives", 0.0, {.min = 0.0, .max = 1e9});
      row.bytes = candidate.number_or("bytes", 0.0, {.min = 0.0, .max = 1e30});
      row.compute_us = candidate.number_or("compute_us", 0.0, {.min = 0.0, .max = 1e30});
      row.text = candidate.text_or("text", "");
      candidate.finish();
    }
    if (candidates.empty())
      place.fail("found an empty array; valid: an array of at least one candidate");
    const std::string name = reader.text_or("policy", "");
    if (!name.empty()) {
      check->policy_ = from_name<Policy>(name);
      if (!check->policy_) {
        reader.place("policy").fail("found \"" + name + "\"; valid: " + valid_names<Policy>());
      }
    }
    check->order_ = read_order(reader);
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "policy" + (policy_ ? " " + std::string(to_string(*policy_)) : "") + " among " +
           std::to_string(totals_.size()) + " prices, " + order_.text();
  }
  [[nodiscard]] bool uses_stack() const override { return !policy_; }

  [[nodiscard]] Observation observe(Bench& bench, const std::set<std::string>&) const override {
    const Policy policy = policy_ ? *policy_ : bench.evaluator().stack().policy;
    std::vector<double> totals;
    std::vector<std::uint8_t> keeps;
    ListedTies breaker;
    const std::vector<std::size_t> order = order_.permutation(totals_.size());
    for (const std::size_t i : order) {
      totals.push_back(totals_[i]);
      keeps.push_back(keeps_[i]);
      breaker.rows.push_back(rows_[i]);
    }
    const PricedCandidates seen_by_policy{totals, keeps, &breaker};
    const auto margin = margin_us(totals);
    Observation seen;
    seen.answers = {{"selected", order[shardlab::select(policy, seen_by_policy)]},
                    {"ties", ties_at_minimum(totals).size()},
                    {"flips_with_order", flips_with_order(policy, seen_by_policy)},
                    {"margin_us", margin ? nlohmann::json(*margin) : nlohmann::json(nullptr)}};
    return seen;
  }

 private:
  std::vector<double> totals_;
  std::vector<std::uint8_t> keeps_;
  std::vector<ListedTies::Row> rows_;
  std::optional<Policy> policy_;
  CandidateOrder order_;
};

// -- rules: the rows of an op ------------------------------------------------------------

constexpr std::array<AnswerKey, 7> kRulesAnswers = {{
    {"rows"},     // the rows as the rule lists them, with placeholders ?d
    {"filled"},   // with placeholders filled from the inputs, the all-replicate row first
    {"count"},    // how many filled rows there are
    {"outputs"},  // shapes and dtypes of the outputs
    {"has", Match::kIncludes},  // elements that `rows` holds
    {"lacks", Match::kLacks},
    {"error", Match::kContains},
}};

class RulesCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<RulesCheck>();
    const DeviceMesh& mesh = mesh_of(source.scene, source.place);
    check->call_ = read_call(reader, mesh, true);
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override { return "rules of " + call_.text(); }

  [[nodiscard]] Observation observe(Bench& bench, const std::set<std::string>&) const override {
    const OpRule& rule = find_op_rule(call_.op, bench.evaluator().stack().rules);
    if (rule.rows == nullptr) {
      throw InputError(call_.op + " follows the layouts of its inputs, so it has no rows");
    }
    const std::vector<TensorMeta> outputs = rule.outputs(call_);
    Observation seen;
    seen.answers = {{"rows", nlohmann::json::array()},
                    {"filled", nlohmann::json::array()},
                    {"outputs", nlohmann::json::array()}};
    const Rows rows = rule.rows(call_, rule);
    for (const Row& row : rows) seen.answers["rows"].push_back(row_text(row, outputs.size()));
    const Rows filled = fill_rows(rows, outputs.size(), call_);
    for (const Row& row : filled) seen.answers["filled"].push_back(row_text(row, outputs.size()));
    for (const TensorMeta& meta : outputs) seen.answers["outputs"].push_back(meta.text());
    seen.answers["count"] = filled.size();
    seen.answers["has"] = seen.answers["rows"];
    seen.answers["lacks"] = seen.answers["rows"];
    return seen;
  }

 private:
  OpCall call_;
};

}  // namespace

constinit const CheckKind kSelectKind{
    .name = "select", .answers = kSelectAnswers, .has_price = true, .read = SelectCheck::read};
constinit const CheckKind kPolicyKind{
    .name = "policy", .answers = kPolicyAnswers, .read = PolicyCheck::read};
constinit const CheckKind kRulesKind{
    .name = "rules", .answers = kRulesAnswers, .read = RulesCheck::read};

}  // namespace shardlab::case_checks
