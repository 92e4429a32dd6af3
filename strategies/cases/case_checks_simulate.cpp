// Checks that run a redistribution, planned or by the steps that a case lists, on virtual ranks
// with real bytes.
#include <array>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/executor.h"
#include "sim/tensor_kernels.h"
#include "strategies/cases/case_checks.h"

namespace shardlab::case_checks {
namespace {

// Cases are small, so a larger one is a mistake.
constexpr std::int64_t kMostSimulateBytes = std::int64_t{1} << 30U;

constexpr std::array<AnswerKey, 11> kSimulateAnswers = {{
    {"path"},
    {"verified"},
    {"max_abs_error"},
    {"replicas_bitwise_equal"},
    {"bytes_moved"},
    {"communicating"},  // how many steps move bytes
    {"local"},          // what the asked rank holds at the end, row-major
    {"mismatch", Match::kContains},
    {"refused", Match::kContains},
    {"notes"},
    {"error", Match::kContains},
}};

class SimulateCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<SimulateCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    check->meta_ = tensor_of(source.scene, source.place);
    const auto layout = [&](std::string_view key) {
      const std::string text = reader.text(key);
      return parse_at(reader.place(key),
                      [&] { return parse_layout(text, check->mesh_.ndim(), check->meta_); });
    };
    check->from_ = layout("from");
    check->to_ = layout("to");
    check->rank_ = reader.integer_or("rank", 0, 0, check->mesh_.size() - 1);
    check->data_.seed =
        static_cast<std::uint64_t>(reader.integer_or("seed", 0, 0, std::int64_t{1} << 53U));
    const std::string values = reader.text_or("values", "whole");
    if (values == "uniform") {
      check->data_.values = DataValues::kUniform;
    } else if (values == "counting") {
      check->counting_ = true;
    } else if (values != "whole") {
      reader.place("values").fail("found \"" + values + "\"; valid: whole, uniform, counting");
    }
    const std::string order = reader.text_or("reduction", "ring");
    const std::optional<ReductionOrder> known = from_name<ReductionOrder>(order);
    if (!known) {
      reader.place("reduction")
          .fail("found \"" + order + "\"; valid: " + valid_names<ReductionOrder>(" "));
    }
    check->options_.reduction.order = *known;
    check->options_.reduction.domains_first = reader.boolean_or("domains_first", false);
    check->options_.memory_limit_bytes = kMostSimulateBytes;
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "simulate " + meta_.text() + " " + from_.text() + "->" + to_.text() + " on " +
           mesh_.text();
  }

  [[nodiscard]] Observation observe(Bench& bench,
                                    const std::set<std::string>& asked) const override {
    const Plan plan = bench.evaluator().plan(mesh_, meta_, from_, to_);
    const Executor executor(mesh_, bench.evaluator().topology(), options_);
    Observation seen;
    seen.answers["path"] = plan.path();
    const std::string& refused = plan.refusal();
    if (!refused.empty()) {
      seen.answers["refused"] = refused;
      seen.answers["verified"] = false;
      return seen;
    }
    DistributedTensor tensor = distribute(executor, plan);
    const ExecutionResult result = executor.run(plan, tensor);
    int communicating = 0;
    for (const StepExecution& step : result.steps) communicating += step.bytes_moved > 0 ? 1 : 0;
    seen.answers["refused"] = "";
    seen.answers["verified"] = result.verified;
    seen.answers["max_abs_error"] = finite_or_null(result.max_abs_error);
    seen.answers["replicas_bitwise_equal"] = result.replicas_bitwise_equal;
    seen.answers["bytes_moved"] = result.bytes_moved;
    seen.answers["communicating"] = communicating;
    seen.answers["mismatch"] = result.mismatch;
    seen.answers["notes"] = result.notes;
    if (asked.contains("local")) {
      const HostTensor& local = tensor.locals[to_index(rank_)];
      nlohmann::json& values = seen.answers["local"] = nlohmann::json::array();
      for (std::int64_t i = 0; i < local.elements(); ++i) {
        values.push_back(finite_or_null(element_as_double(local, i)));
      }
    }
    return seen;
  }

 private:
  [[nodiscard]] DistributedTensor distribute(const Executor& executor, const Plan& plan) const {
    if (!counting_) return executor.distribute(meta_, plan.start, data_);
    HostTensor global = HostTensor::make(executor.memory(), meta_.dtype, meta_.shape);
    for (std::int64_t i = 0; i < global.elements(); ++i) {
      set_element(global, i, static_cast<double>(i + 1));
    }
    return executor.distribute(meta_, plan.start, std::move(global), data_);
  }

  DeviceMesh mesh_;
  TensorMeta meta_;
  Layout from_;
  Layout to_;
  std::int64_t rank_ = 0;
  DataOptions data_;
  bool counting_ = false;  // whether the elements are 1, 2, 3...
  ExecutionOptions options_;
};

}  // namespace

constinit const CheckKind kSimulateKind{
    .name = "simulate", .answers = kSimulateAnswers, .read = SimulateCheck::read};

}  // namespace shardlab::case_checks
