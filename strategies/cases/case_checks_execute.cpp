// Checks that run one op in given layouts. They compare the op's kernel on the shards of virtual
// ranks with its kernel on the whole tensors.
#include <array>
#include <limits>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/tensor_kernels.h"
#include "strategies/cases/case_checks.h"
#include "strategies/proof/op_execution.h"
#include "strategies/rules/rule_text.h"

namespace shardlab::case_checks {
namespace {

// Cases are small, so a larger one is a mistake.
constexpr std::int64_t kMostExecuteBytes = std::int64_t{1} << 28U;
constexpr std::int64_t kMostElements = 1 << 20U;

constexpr std::array<AnswerKey, 7> kExecuteAnswers = {{
    {"result"},    // the values of the first output, row-major; null for NaN and infinity
    {"verified"},  // whether the op on the whole tensors returns the same
    {"max_abs_error"},
    {"local"},  // what the asked rank holds of the first output
    {"steps"},  // how many the redistribution to "to" takes
    {"mismatch", Match::kContains},
    {"error", Match::kContains},
}};

// Reads numbers from arrays that may be nested to any depth. null stands for NaN.
void read_numbers(const nlohmann::json& json, const JsonPlace& place, std::vector<double>& out) {
  if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) read_numbers(json[i], place.at(i), out);
  } else if (json.is_null()) {
    out.push_back(std::numeric_limits<double>::quiet_NaN());
  } else if (json.is_number()) {
    out.push_back(json.get<double>());
  } else {
    place.fail("found " + describe_json(json) + "; valid: numbers, null, or arrays of them");
  }
}

struct Input {
  TensorMeta meta;
  Layout layout;
  // A case gives the whole values, or those that each rank holds, or neither. Without them the
  // values are 0, 1, 2...
  std::optional<std::vector<double>> values;
  std::vector<std::vector<double>> locals;  // by rank
  bool is_list = false;  // whether the op takes a list, which then holds this one tensor
};

Input read_input(const nlohmann::json& json, const JsonPlace& place, std::string_view layout,
                 const DeviceMesh& mesh) {
  Input input;
  const auto parse = [&](const std::string& text, const JsonPlace& text_place) {
    input.meta = parse_at(text_place, [&] { return TensorMeta::parse(text); });
    input.layout =
        parse_at(text_place, [&] { return parse_layout(layout, mesh.ndim(), input.meta); });
    if (elements_of(input.meta.shape) > kMostElements) {
      text_place.fail("found " + input.meta.text() + "; valid: at most " +
                      std::to_string(kMostElements) + " elements");
    }
  };
  if (json.is_string()) {
    parse(json.get<std::string>(), place);
    return input;
  }
  ObjectReader reader(json, place);
  parse(reader.text("tensor"), reader.place("tensor"));
  const auto expect_count = [](const JsonPlace& numbers_place, std::size_t found,
                               std::int64_t expected) {
    if (static_cast<std::int64_t>(found) == expected) return;
    numbers_place.fail("found " + std::to_string(found) +
                       " numbers; valid: " + std::to_string(expected));
  };
  if (const nlohmann::json* values = reader.find("values")) {
    input.values.emplace();
    read_numbers(*values, reader.place("values"), *input.values);
    expect_count(reader.place("values"), input.values->size(), elements_of(input.meta.shape));
  } else if (const nlohmann::json* locals = reader.find("locals")) {
    const JsonPlace locals_place = reader.place("locals");
    if (static_cast<std::int64_t>(json_array(*locals, locals_place).size()) != mesh.size()) {
      locals_place.fail("found " + std::to_string(locals->size()) +
                        " arrays; valid: one for each of the " + std::to_string(mesh.size()) +
                        " ranks");
    }
    for (std::size_t i = 0; i < locals->size(); ++i) {
      const Shape shape = local_shape(input.meta.shape, input.layout, mesh,
                                      mesh.coordinate(static_cast<std::int64_t>(i)));
      read_numbers((*locals)[i], locals_place.at(i), input.locals.emplace_back());
      expect_count(locals_place.at(i), input.locals.back().size(), elements_of(shape));
    }
  }
  input.is_list = reader.boolean_or("list", false);
  reader.finish();
  return input;
}

nlohmann::json numbers_json(const HostTensor& tensor) {
  nlohmann::json values = nlohmann::json::array();
  for (const double value : as_doubles(tensor)) values.push_back(finite_or_null(value));
  return values;
}

class ExecuteCheck final : public Check {
 public:
  static std::unique_ptr<Check> read(const CheckSource& source) {
    ObjectReader reader(source.json, source.place);
    source.scene = Scene::read(reader, source.setup);
    auto check = std::make_unique<ExecuteCheck>();
    check->mesh_ = mesh_of(source.scene, source.place);
    check->call_.op = reader.text("op");
    if (find_op_kernel(check->call_.op) == nullptr) {
      reader.place("op").fail(
          "found \"" + check->call_.op +
          "\"; valid: an op with a reference kernel (strategies/proof/kernels)");
    }
    if (const nlohmann::json* args = reader.find("args")) {
      check->call_.args = json_array(*args, reader.place("args"));
    }
    check->placements_ = reader.text("placements");
    const JsonPlace place = reader.place("placements");
    const auto [outputs, inputs] =
        parse_at(place, [&] { return split_sides("placements", check->placements_); });
    for (const std::string_view text : outputs) {
      check->outputs_.push_back(
          parse_at(place, [&] { return Layout::parse(text, check->mesh_.ndim()); }));
    }
    const JsonPlace inputs_place = reader.place("inputs");
    const nlohmann::json& tensors = reader.array("inputs");
    if (tensors.size() != inputs.size()) {
      inputs_place.fail("found " + std::to_string(tensors.size()) + " tensors; valid: " +
                        std::to_string(inputs.size()) + ", as many as \"placements\" has inputs");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check->inputs_.push_back(read_input(tensors[i], inputs_place.at(i), inputs[i], check->mesh_));
      const Input& input = check->inputs_.back();
      check->call_.inputs.push_back(
          {.tensors = {{input.meta, input.layout}}, .is_list = input.is_list});
    }
    if (const nlohmann::json* to = reader.find("to")) {
      const std::string text = json_text(*to, reader.place("to"));
      check->to_ =
          parse_at(reader.place("to"), [&] { return Layout::parse(text, check->mesh_.ndim()); });
    }
    check->rank_ = reader.integer_or("rank", 0, 0, check->mesh_.size() - 1);
    reader.finish();
    return check;
  }

  [[nodiscard]] std::string label() const override {
    return "execute " + call_.op + " " + placements_ + " on " + mesh_.text();
  }
  [[nodiscard]] Observation observe(Bench& bench,
                                    const std::set<std::string>& asked) const override {
    const Executor executor(mesh_, bench.evaluator().topology(),
                            {.memory_limit_bytes = kMostExecuteBytes});
    std::vector<DistributedTensor> inputs;
    for (const Input& input : inputs_) inputs.push_back(distributed(executor, input));
    OpExecution done = execute_op(executor, call_, inputs, outputs_);
    Observation seen;
    std::string mismatch = done.mismatch;
    bool verified = done.verified;
    double error = done.max_abs_error;
    if (!done.outputs.empty()) {
      DistributedTensor& output = done.outputs[0];
      if (to_) {
        expect_layout(output.meta, *to_);
        const Plan plan = bench.evaluator().plan(mesh_, output.meta, output.layout, *to_);
        const std::string& refused = plan.refusal();
        if (!refused.empty()) throw InputError(refused);
        const ExecutionResult moved = executor.run(plan, output);
        seen.answers["steps"] = moved.steps.size();
        verified = verified && moved.verified;
        if (mismatch.empty()) mismatch = moved.mismatch;
        error = std::max(error, moved.max_abs_error);
      }
      seen.answers["result"] = numbers_json(executor.assemble(output));
      if (asked.contains("local")) {
        seen.answers["local"] = numbers_json(output.locals[to_index(rank_)]);
      }
    }
    seen.answers["verified"] = verified;
    seen.answers["max_abs_error"] = finite_or_null(error);
    seen.answers["mismatch"] = mismatch;
    return seen;
  }

 private:
  [[nodiscard]] DistributedTensor distributed(const Executor& executor, const Input& input) const {
    if (input.locals.empty()) {
      std::vector<double> values;
      if (input.values) {
        values = *input.values;
      } else {
        for (std::int64_t i = 0; i < elements_of(input.meta.shape); ++i) {
          values.push_back(static_cast<double>(i));
        }
      }
      return executor.distribute(
          input.meta, input.layout,
          from_doubles(executor.memory(), input.meta.dtype, input.meta.shape, values), {});
    }
    expect_layout(input.meta, input.layout);
    DistributedTensor tensor;
    tensor.meta = input.meta;
    tensor.layout = input.layout;
    for (std::size_t i = 0; i < input.locals.size(); ++i) {
      const Shape shape =
          local_shape(input.meta.shape, input.layout, mesh_, executor.coordinates()[i]);
      tensor.locals.push_back(
          from_doubles(executor.memory(), input.meta.dtype, shape, input.locals[i]));
    }
    tensor.global = executor.assemble(tensor);
    return tensor;
  }

  DeviceMesh mesh_;
  OpCall call_;
  std::string placements_;
  std::vector<Input> inputs_;
  std::vector<Layout> outputs_;
  std::optional<Layout> to_;
  std::int64_t rank_ = 0;
};

}  // namespace

constinit const CheckKind kExecuteKind{
    .name = "execute", .answers = kExecuteAnswers, .read = ExecuteCheck::read};

}  // namespace shardlab::case_checks
