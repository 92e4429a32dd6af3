// One question of a comparison and what every stack answers, as a record keeps it and as
// strategies/select/questionnaire.h makes it.
//
// To add a figure, add a member here and a line to the list of fields below, set the member where
// the answer is made (strategies/select/questionnaire.cpp), and show it in a section of the report.
// Times are in microseconds, sizes in bytes. A missing price has its reason beside it. Tested by
// tests/unit/reports/records/record_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/base/enum_names.h"
#include "costmodel/base/fields.h"
#include "reports/records/answer_detail.h"
#include "reports/records/price_basis.h"

namespace shardlab {
namespace reports {

enum class QuestionKind {
  kSelect,  // which placements does an op take?
  kPlan,    // which steps take one layout to another?
};

// Collectives of one kind. The bytes of one are those of the larger of a rank's two buffers
// (costmodel/collective.h), as in the steps of a plan.
struct CollectiveTraffic {
  std::int64_t count = 0;
  double bytes = 0.0;
  friend bool operator==(const CollectiveTraffic&, const CollectiveTraffic&) = default;
};
using TrafficByKind = std::map<std::string, CollectiveTraffic>;  // "all_gather" and so on

struct BestChoice {
  std::string choice;
  std::optional<double> us;
  std::string reason;
  std::optional<PriceBasis> basis = {};
  friend bool operator==(const BestChoice&, const BestChoice&) = default;
};

struct StackAnswer {
  std::string choice;
  std::vector<std::string> path;
  std::optional<double> price_us;
  std::string impossible;
  std::optional<double> reference_us;
  std::string reference_impossible;
  std::optional<double> reference_kernel_us;
  // The bounds of the 95 % interval of reference_us, if the reference knows its error.
  std::optional<double> reference_low_us = {};
  std::optional<double> reference_high_us = {};
  // Half the width of the 95 % interval of the difference from the first stack's reference_us.
  std::optional<double> reference_gain_error_us = {};
  std::string cannot_run;
  std::string computes_wrong = {};  // strategies/proof/choice_proof.h; "" if it is not known to
  std::string replicas_may_differ = {};  // after which step of which plan; "" if not, or not asked
  std::optional<PriceBasis> basis;
  // The collectives that bring the inputs into the layouts of the choice. Empty if the reference
  // has no price for them, or if the record is older than the figure.
  std::optional<TrafficByKind> traffic = {};
  std::int64_t ties = 1;
  bool flips_with_order = false;
  std::optional<double> margin_us;
  std::optional<double> kendall_tau;
  std::optional<AnswerDetail> detail;
  // Whether the choice runs and, as far as is known, computes what its op should.
  [[nodiscard]] bool is_usable() const { return cannot_run.empty() && computes_wrong.empty(); }
  friend bool operator==(const StackAnswer&, const StackAnswer&) = default;
};

struct RecordQuestion {
  std::string id;
  std::string suite;
  QuestionKind kind = QuestionKind::kSelect;
  std::string op;
  std::string mesh;
  std::int64_t mesh_dims = 1;
  double bytes = 0.0;
  std::vector<std::string> inputs;  // its tensors, and then its other arguments as texts
  std::vector<nlohmann::json> args;
  std::int64_t count = 1;
  std::int64_t candidates = 0;
  BestChoice best;
  std::vector<StackAnswer> answers;
  friend bool operator==(const RecordQuestion&, const RecordQuestion&) = default;
};

}  // namespace reports

template <>
struct EnumNames<reports::QuestionKind> {
  static constexpr std::string_view kKind = "kind of question";
  static constexpr std::array kNames = {Named{reports::QuestionKind::kSelect, "select"},
                                        Named{reports::QuestionKind::kPlan, "plan"}};
};

template <>
struct Fields<reports::CollectiveTraffic> {
  using Self = reports::CollectiveTraffic;
  static constexpr std::string_view kName = "traffic";
  static constexpr auto kList = std::tuple(
      field("count", &Self::count, "", {.min = 1}),
      field("bytes", &Self::bytes,
            "of the larger of one rank's two buffers, added over the collectives", kAmount));
};

template <>
struct Fields<reports::BestChoice> {
  using Self = reports::BestChoice;
  static constexpr auto kList =
      std::tuple(field("choice", &Self::choice, ""), field("us", &Self::us, ""),
                 nullable_text("reason", &Self::reason, "why there is no price"),
                 optional_field("rests_on", &Self::basis, ""));
};

template <>
struct Fields<reports::StackAnswer> {
  using Self = reports::StackAnswer;
  static constexpr std::string_view kName = "answer";
  static constexpr std::string_view kMeaning =
      "what one stack chose; a price that is null has its reason beside it";
  static constexpr auto kList = std::tuple(
      field("choice", &Self::choice, "empty: nothing is possible"),
      field("path", &Self::path, "the steps of the plan, or one redistribution for each input"),
      field("price_us", &Self::price_us, "the stack's own price of its choice"),
      nullable_text("impossible", &Self::impossible, "why there is no price"),
      field("reference_us", &Self::reference_us, "the reference's price of the same choice"),
      nullable_text("reference_impossible", &Self::reference_impossible,
                    "why there is no reference_us"),
      field("ties", &Self::ties,
            "candidates at the lowest price: 2 or more are a tie; 0: not known, of a recorded "
            "choice"),
      field("flips_with_order", &Self::flips_with_order,
            "whether another order of the candidates gives another choice"),
      field("margin_us", &Self::margin_us, "distance to the best different price"),
      field("kendall_tau", &Self::kendall_tau,
            "Kendall's tau-b between its prices of the candidates and the reference's"),
      optional_field(
          "reference_kernel_us", &Self::reference_kernel_us,
          "the part of reference_us that is the op's own kernel; missing in older records"),
      optional_field("reference_low_us", &Self::reference_low_us,
                     "95 of 100 clusters like those that the reference was fitted to take longer "
                     "than this or less than reference_high_us"),
      optional_field("reference_high_us", &Self::reference_high_us, ""),
      optional_field("reference_gain_error_us", &Self::reference_gain_error_us,
                     "how far the difference from the baseline's reference_us may be off: half the "
                     "width of its interval, of 95 of 100 such clusters"),
      optional_field("cannot_run", &Self::cannot_run, "the step that no collective can do"),
      optional_field("computes_wrong", &Self::computes_wrong,
                     "the row of the choice that computes something else, with a call that shows "
                     "it; missing: none is known to. Proved where a live PyTorch's choice differs "
                     "from another stack's"),
      optional_field(
          "replicas_may_differ", &Self::replicas_may_differ,
          "with --require-bitwise-replicas: the plan and its step after which replicas of "
          "one value may differ in their last bits; missing: after none, or not asked"),
      optional_field("rests_on", &Self::basis, "what reference_us rests on"),
      optional_field("collectives", &Self::traffic,
                     "the collectives that the choice runs, by kind, where reference_us is given; "
                     "missing in older records"),
      optional_field("detail", &Self::detail,
                     "details of the baseline's answer and of answers that differ from it"));
};

template <>
struct Fields<reports::RecordQuestion> {
  using Self = reports::RecordQuestion;
  static constexpr std::string_view kName = "question";
  static constexpr auto kList = std::tuple(
      field("id", &Self::id, "unique within the record",
            {.schema = R"({"type": "string", "minLength": 1})"}),
      field("suite", &Self::suite, ""), field("kind", &Self::kind, ""),
      field("op", &Self::op, "aten.mm.default, or redistribute"),
      field("mesh", &Self::mesh, "dp=8,tp=8"), field("mesh_dims", &Self::mesh_dims, ""),
      field("bytes", &Self::bytes, "bytes of the largest tensor, unsharded", kAmount),
      field("inputs", &Self::inputs, "its tensors with their layouts, then its other arguments"),
      optional_field(
          "args", &Self::args,
          "the arguments that are no tensors, as the suite has them; missing where there "
          "are none, and in older records",
          {.schema = R"({"type": "array"})"}),
      field("count", &Self::count, "how often the suite asks it: its weight", {.min = 1}),
      field("candidates", &Self::candidates, ""),
      field("best", &Self::best, "the cheapest choice by the reference, over all candidates"),
      field("answers", &Self::answers, "one for each stack, in the order of stacks"));
};

}  // namespace shardlab
