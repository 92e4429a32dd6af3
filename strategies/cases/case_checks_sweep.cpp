// Sweeps check one law over every layout that a list of placements spans, or over ranges of
// extents:
//
//   search         the priority-queue search of an op against full enumeration, priced by the stack
//   reach          the search reaches every candidate of full enumeration from some layouts
//   triangle       cost(a, c) <= cost(a, b) + cost(b, c)
//   graph          the minimum-cost plan costs no more than the greedy one
//   merged_gather  a gather merged onto a flattened mesh puts every row where it belongs
//   strided        strided chunks partition the extent; shard orders survive the strided encoding
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "strategies/cases/case_checks.h"

namespace shardlab::case_checks {
namespace {

constexpr double kSame = 1e-9;
constexpr std::size_t kMaxLayouts = 512;

// All layouts in default order, with the last mesh dim changing fastest. Layouts that mix partials,
// or that have more shards than a dim has elements, are left out.
std::vector<Layout> all_layouts(const std::vector<Placement>& placements, const Shape& shape,
                                const DeviceMesh& mesh) {
  std::vector<Layout> layouts;
  std::vector<std::size_t> digits(static_cast<std::size_t>(mesh.ndim()), 0);
  while (true) {
    Placements current;
    for (const std::size_t digit : digits) current.push_back(placements[digit]);
    if (!has_mixed_partials(current) && is_shardable(shape, current, mesh)) {
      layouts.emplace_back(current);
    }
    std::size_t i = digits.size();
    while (i > 0 && ++digits[i - 1] == placements.size()) digits[--i] = 0;
    if (i == 0) return layouts;
  }
}

struct SweepInput {
  DeviceMesh mesh;
  std::optional<TensorMeta> meta;
  std::vector<Placement> placements;
  OpCall call;  // for search and reach, which sweep the layouts of its tensors
  bool nesting_guard = true;
  std::int64_t max_extent = 17;
};

using Law = nlohmann::json (*)(const SweepInput&, Bench&);

double least_total(const Expansion& expansion, const OpRule& rule, const OpCall& call,
                   const DeviceMesh& mesh, StackEvaluator& evaluator) {
  const Pricing pricing = evaluator.price(expansion, &rule, call, mesh);
  return *std::min_element(pricing.totals.begin(), pricing.totals.end());
}

// Calls visit(call) for every combination of the inputs' layouts; the last input changes fastest.
template <class Visit>
void for_each_call(const SweepInput& input, Visit&& visit) {
  std::vector<std::vector<Layout>> layouts;
  for (const TensorArg& arg : input.call.inputs) {
    layouts.push_back(all_layouts(input.placements, arg.tensors[0].meta.shape, input.mesh));
  }
  OpCall call = input.call;
  std::vector<std::size_t> at(layouts.size(), 0);
  while (true) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      call.inputs[i].tensors[0].layout = layouts[i][at[i]];
    }
    visit(call);
    std::size_t i = at.size();
    while (i > 0 && ++at[i - 1] == layouts[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

nlohmann::json search_law(const SweepInput& input, Bench& bench) {
  StackEvaluator& evaluator = bench.evaluator();
  const OpRule& rule = find_op_rule(input.call.op, evaluator.stack().rules);
  Redistributor& redistributor = evaluator.on(input.mesh);
  std::int64_t questions = 0;
  std::int64_t equal = 0;
  std::int64_t under = 0;
  std::int64_t over = 0;
  std::int64_t inputs_under = 0;
  double worst = 0.0;
  std::string worst_question;
  for_each_call(input, [&](const OpCall& call) {
    const SearchOutcome found = search_rows(rule, call, input.mesh, redistributor.pricer(),
                                            {.nesting_guard = input.nesting_guard});
    if (!found.result) throw InputError(call.text() + ": " + found.fallback);
    const double difference =
        found.result->total_us -
        least_total(expand(rule, call, input.mesh), rule, call, input.mesh, evaluator);
    ++questions;
    equal += std::abs(difference) <= kSame ? 1 : 0;
    under += difference < -kSame ? 1 : 0;
    over += difference > kSame ? 1 : 0;
    if (difference < worst - kSame) {
      worst = difference;
      worst_question = call.text();
    }
    // The search never charges less for an input than the plan of this input costs.
    bool one_under = false;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const TensorSpec& tensor = call.inputs[i].tensors[0];
      const double alone =
          redistributor.cost_us(tensor.meta, tensor.layout, Layout(found.result->inputs[i]));
      one_under = one_under || found.result->input_us[i] < alone - kSame;
    }
    inputs_under += one_under ? 1 : 0;
  });
  return {{"questions", questions},
          {"equal", equal},
          {"under_priced", under},
          {"over_priced", over},
          {"inputs_under_priced", inputs_under},
          {"worst", worst_question}};
}

nlohmann::json reach_law(const SweepInput& input, Bench& bench) {
  StackEvaluator& evaluator = bench.evaluator();
  const OpRule& rule = find_op_rule(input.call.op, evaluator.stack().rules);
  const TransitionPricer& pricer = evaluator.on(input.mesh).pricer();
  std::set<std::vector<Placements>> candidates;
  std::set<std::vector<Placements>> reached;
  std::int64_t questions = 0;
  for_each_call(input, [&](const OpCall& call) {
    ++questions;
    const Expansion expansion = expand(rule, call, input.mesh);
    for (std::size_t c = 0; c < expansion.size(); ++c) {
      std::vector<Placements> inputs;
      for (std::size_t i = 0; i < expansion.inputs(); ++i) inputs.push_back(expansion.input(c, i));
      candidates.insert(std::move(inputs));
    }
    const SearchOutcome found = search_rows(
        rule, call, input.mesh, pricer, {.nesting_guard = input.nesting_guard, .exhaustive = true});
    if (found.result) {
      reached.insert(found.result->all_matches.begin(), found.result->all_matches.end());
    }
  });
  std::int64_t missed = 0;
  for (const auto& inputs : candidates) missed += reached.contains(inputs) ? 0 : 1;
  return {{"questions", questions}, {"candidates", candidates.size()}, {"violated", missed}};
}

// What it costs to move the input's tensor from one layout to each of the others, in microseconds.
void price_moves(StackEvaluator& evaluator, const SweepInput& input, const Layout& from,
                 std::span<const Layout> targets, std::span<double> prices) {
  if (!evaluator.plans_elsewhere()) {
    evaluator.on(input.mesh).costs_us(*input.meta, from, targets, prices);
    return;
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Plan plan = evaluator.plan(input.mesh, *input.meta, from, targets[i]);
    prices[i] = plan.impossible.empty() ? plan.price.total.value() : kInfinity;
  }
}

nlohmann::json triangle_law(const SweepInput& input, Bench& bench) {
  StackEvaluator& evaluator = bench.evaluator();
  const std::vector<Layout> layouts = all_layouts(input.placements, input.meta->shape, input.mesh);
  const std::size_t count = layouts.size();
  std::vector<double> cost(count * count);
  for (std::size_t a = 0; a < count; ++a) {
    price_moves(evaluator, input, layouts[a], layouts, std::span(cost).subspan(a * count, count));
  }
  std::int64_t triples = 0;
  std::int64_t violated = 0;
  double worst = 0.0;
  std::string witness;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      for (std::size_t c = 0; c < count; ++c) {
        ++triples;
        const double around = cost[a * count + b] + cost[b * count + c];
        const double direct = cost[a * count + c];
        if (around == kInfinity || direct <= around + kSame) continue;
        ++violated;
        if (direct - around <= worst + kSame) continue;
        worst = direct - around;
        witness = layouts[a].text() + "->" + layouts[b].text() + "->" + layouts[c].text();
      }
    }
  }
  return {{"questions", triples}, {"violated", violated}, {"worst", witness}};
}

nlohmann::json graph_law(const SweepInput& input, Bench& bench) {
  StackEvaluator& evaluator = bench.evaluator();
  const std::vector<Layout> layouts = all_layouts(input.placements, input.meta->shape, input.mesh);
  Redistributor& redistributor = evaluator.on(input.mesh);
  const auto price = [&](const Layout& from, const Layout& to, PlannerKind planner) {
    const Plan plan = redistributor.plan(*input.meta, from, to, {.planner = planner});
    return plan.impossible.empty() ? plan.price.total.value() : kInfinity;
  };
  std::int64_t pairs = 0;
  std::int64_t cheaper = 0;
  std::int64_t violated = 0;
  std::string witness;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      const double greedy = price(from, to, PlannerKind::kGreedy);
      const double graph = price(from, to, PlannerKind::kGraph);
      ++pairs;
      cheaper += graph < greedy - kSame ? 1 : 0;
      if (graph > greedy + kSame) {
        ++violated;
        if (witness.empty()) witness = from.text() + "->" + to.text();
      }
    }
  }
  return {{"questions", pairs}, {"cheaper", cheaper}, {"violated", violated}, {"worst", witness}};
}

// Gathers a tensor of one dim, which every mesh dim shards, in one step on a flattened mesh. The
// ranks concatenate what they hold in the order of the flattened mesh, and drop padding by the
// sizes of flat chunks. This is right only if the nested chunks equal the flat ones.
nlohmann::json merged_gather_law(const SweepInput& input, Bench& bench) {
  StackEvaluator& evaluator = bench.evaluator();
  const DeviceMesh& mesh = input.mesh;
  const Layout sharded(Placements(static_cast<std::size_t>(mesh.ndim()), Placement::shard(0)));
  const Layout replicated = Layout::replicated(mesh.ndim());
  nlohmann::json merged = nlohmann::json::array();
  nlohmann::json wrong = nlohmann::json::array();
  for (std::int64_t extent = 1; extent <= input.max_extent; ++extent) {
    TensorMeta meta;
    meta.shape = {extent};
    const Plan plan =
        evaluator.on(mesh).plan(meta, sharded, replicated, {.planner = PlannerKind::kGreedy});
    if (plan.steps.size() != 1 || !plan.steps[0].is_merged()) continue;
    merged.push_back(extent);
    for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
      const std::vector<std::int64_t> coordinate = mesh.coordinate(rank);
      const std::vector<std::int64_t> nested = local_rows(meta.shape, 0, sharded, mesh, coordinate);
      const Chunk flat = chunk_of(extent, mesh.size(), rank);
      std::vector<std::int64_t> rows(static_cast<std::size_t>(flat.size));
      std::iota(rows.begin(), rows.end(), flat.offset);
      if (rows != nested) {
        wrong.push_back(extent);
        break;
      }
    }
  }
  return {{"questions", input.max_extent}, {"merged", merged}, {"wrong", wrong}};
}

nlohmann::json strided_law(const SweepInput& input, Bench&) {
  std::int64_t questions = 0;
  std::int64_t violated = 0;
  for (std::int64_t extent = 0; extent <= input.max_extent; ++extent) {
    for (std::int64_t factor = 1; factor <= 4; ++factor) {
      for (std::int64_t chunks = 1; chunks <= 4; ++chunks) {
        std::vector<std::int64_t> all;
        bool sizes_agree = true;
        for (std::int64_t i = 0; i < chunks; ++i) {
          const auto rows = strided_rows(extent, factor, chunks, i);
          sizes_agree = sizes_agree && static_cast<std::int64_t>(rows.size()) ==
                                           strided_size(extent, factor, chunks, i);
          all.insert(all.end(), rows.begin(), rows.end());
        }
        std::sort(all.begin(), all.end());
        std::vector<std::int64_t> expected(static_cast<std::size_t>(extent));
        std::iota(expected.begin(), expected.end(), std::int64_t{0});
        ++questions;
        violated += all == expected && sizes_agree ? 0 : 1;
      }
    }
  }
  // Visits every order in which the mesh dims can shard one tensor dim.
  std::vector<int> order(static_cast<std::size_t>(input.mesh.ndim()));
  std::iota(order.begin(), order.end(), 0);
  do {
    Layout layout(Placements(static_cast<std::size_t>(input.mesh.ndim()), Placement::shard(0)));
    for (std::size_t i = 0; i < order.size(); ++i) layout.order.set(order[i], static_cast<int>(i));
    const Layout encoded = encode_order_as_strided(layout, input.mesh);
    ++questions;
    const auto decoded = decode_strided_as_order(encoded, input.mesh);
    violated += decoded && encode_order_as_strided(*decoded, input.mesh) == encoded ? 0 : 1;
  } while (std::next_permutation(order.begin(), order.end()));
  return {{"questions", questions}, {"violated", violated}};
}

struct LawRow {
  std::string_view name;
  Law law;
};
constexpr std::array<LawRow, 6> kLaws = {{{"search", search_law},
                                          {"reach", reach_law},
                                          {"triangle", triangle_law},
                                          {"graph", graph_law},
                                          {"merged_gather", merged_gather_law},
                                          {"strided", strided_law}}};

constexpr std::array<AnswerKey, 12> kSweepAnswers = {{
    {"questions"},
    {"candidates"},
    {"equal"},
    {"under_priced"},
    {"over_priced"},
    {"inputs_under_priced"},
    {"cheaper"},
    {"violated"},
    {"merged"},
    {"wrong"},
    {"worst"},
    {"error", Match::kContains},
}};

class SweepCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<SweepCheck>();
    check->input_.mesh = mesh_of(source.scene, source.place);
    check->read_law(reader);
    const std::string_view law = check->law_.name;
    const bool sweeps_op = law == "search" || law == "reach";
    const bool sweeps_tensor = law == "triangle" || law == "graph";
    if (sweeps_op || sweeps_tensor) check->read_placements(reader);
    if (sweeps_op) check->read_op(reader);
    if (sweeps_tensor) {
      check->input_.meta = tensor_of(source.scene, source.place);
    }
    if (law == "merged_gather" || law == "strided") {
      check->input_.max_extent = reader.integer_or("max_extent", 17, 1, 64);
    }
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "sweep " + std::string(law_.name) +
           (input_.call.op.empty() ? "" : " " + input_.call.op) +
           (input_.meta ? " " + input_.meta->text() : "") + " on " + input_.mesh.text() +
           (input_.nesting_guard ? "" : " without nesting guard");
  }
  [[nodiscard]] bool uses_stack() const override { return law_.name != "strided"; }

  [[nodiscard]] Observation observe(Bench& bench, const std::set<std::string>&) const override {
    Observation seen;
    seen.answers = law_.law(input_, bench);
    return seen;
  }

 private:
  void read_law(ObjectReader& reader) {
    const std::string name = reader.text("law");
    std::vector<std::string_view> valid;
    for (const LawRow& row : kLaws) {
      valid.push_back(row.name);
      if (row.name == name) {
        law_ = row;
        return;
      }
    }
    reader.place("law").fail("found \"" + name + "\"" + did_you_mean(name, valid) +
                             "; valid: " + join(valid));
  }

  void read_placements(ObjectReader& reader) {
    const JsonPlace place = reader.place("placements");
    const std::vector<std::string> texts = read_texts(reader.value("placements"), place);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      input_.placements.push_back(
          parse_at(place.at(i), [&] { return Placement::parse(texts[i]); }));
    }
    const double layouts =
        std::pow(static_cast<double>(texts.size()), static_cast<double>(input_.mesh.ndim()));
    if (texts.empty() || layouts > static_cast<double>(kMaxLayouts)) {
      place.fail("found " + std::to_string(texts.size()) + " placements, which make " +
                 format_double(layouts) + " layouts of the mesh; valid: 1 to " +
                 std::to_string(kMaxLayouts) + " layouts");
    }
  }

  void read_op(ObjectReader& reader) {
    input_.call.op = reader.text("op");
    const JsonPlace place = reader.place("inputs");
    const std::vector<std::string> texts = read_texts(reader.value("inputs"), place);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const TensorMeta meta = parse_at(place.at(i), [&] { return TensorMeta::parse(texts[i]); });
      input_.call.inputs.push_back(
          {.tensors = {{meta, Layout::replicated(input_.mesh.ndim())}}, .is_list = false});
    }
    if (reader.find("args") != nullptr) input_.call.args = reader.array("args");
    input_.nesting_guard = reader.boolean_or("nesting_guard", true);
  }

  LawRow law_ = kLaws[0];
  SweepInput input_;
};

}  // namespace

constinit const CheckKind kSweepKind{
    .name = "sweep", .answers = kSweepAnswers, .read = SweepCheck::read};

}  // namespace shardlab::case_checks
