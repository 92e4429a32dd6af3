// Calls that make no sense, made from every op's sample calls by changes at random. Each is
// answered, or refused as bad input, at once: nothing else is thrown, and memory never runs out.
//
// scripts/check.sh --full runs this test under the address and undefined behaviour sanitizers. With
// SHARDLAB_TEST_TRACE set, every call is printed before it is made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/fake_group.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_execution.h"
#include "strategies/proof/op_sample.h"
#include "strategies/rules/op_schemas.h"
#include "strategies/rules/rule_table.h"
#include "strategies/select/evaluator.h"
#include "tests/support/op_samples.h"
#include "tests/support/random_layouts.h"
#include "tests/support/random_source.h"
#include "tests/support/reference_stacks.h"
#include "tests/support/reference_topology.h"

namespace shardlab {
namespace op_garbage_contract_test {

using namespace testing_support;
using nlohmann::json;

constexpr int kParts = 8;  // test cases among which the ops are divided
#ifdef SHARDLAB_SANITIZED
constexpr double kMostSeconds = 20.0;
#else
constexpr double kMostSeconds =
    4.0;  // of processor time: a call takes about a second on a busy machine
#endif

// -- Garbage --------------------------------------------------------------------------------------

DType any_dtype(Random& random) {
  static const std::vector<DType> kTypes = {
      DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2,
      DType::kI64, DType::kI32, DType::kI16, DType::kI8,   DType::kU8,     DType::kB8};
  return random.pick(kTypes);
}

std::int64_t any_extent(Random& random) {
  if (random.percent(70)) return random.below(7);
  static const std::vector<std::int64_t> kExtents = {
      0, 1, 64, 1 << 16, std::int64_t{1} << 32, std::int64_t{1} << 40};
  return random.pick(kExtents);
}

// A legal layout, now and then with strided shards, any partials and any shard order.
Layout any_layout(Random& random, const DeviceMesh& mesh, const TensorMeta& meta) {
  if (random.percent(30)) return Layout::replicated(mesh.ndim());
  if (meta.ndim() > 0) {
    return random_layout(random, mesh, meta.ndim(), {.strided = random.percent(30)});
  }
  Placements placements(static_cast<std::size_t>(mesh.ndim()));
  if (random.percent(50)) placements[0] = Placement::partial();
  return Layout(placements);
}

void fit(TensorSpec& spec, Random& random, const DeviceMesh& mesh) {
  while (spec.meta.bytes() > kMaxTensorBytes) {
    *std::max_element(spec.meta.shape.begin(), spec.meta.shape.end()) = 2;
  }
  spec.layout = any_layout(random, mesh, spec.meta);
  const auto forbidden = [&](const Placement& p) {
    return p.is_partial() && !reduces(p.reduce_op(), spec.meta.dtype);
  };
  for (Placement& p : spec.layout.placements) {
    if (forbidden(p) && random.percent(90)) p = Placement::replicate();
  }
}

TensorSpec any_tensor(Random& random, const DeviceMesh& mesh) {
  TensorSpec spec;
  spec.meta.dtype = random.percent(60) ? DType::kF32 : any_dtype(random);
  for (int d = random.below(5); d > 0; --d) spec.meta.shape.push_back(any_extent(random));
  fit(spec, random, mesh);
  return spec;
}

void change_tensor(TensorSpec& spec, Random& random, const DeviceMesh& mesh) {
  Shape& shape = spec.meta.shape;
  const int kind = random.below(6);
  if (kind == 0) spec.meta.dtype = any_dtype(random);
  if (kind == 1 && shape.size() < 6) {
    shape.insert(shape.begin() + random.below(spec.meta.ndim() + 1), any_extent(random));
  }
  if (kind == 2 && !shape.empty()) shape.erase(shape.begin() + random.below(spec.meta.ndim()));
  if (kind == 3 && !shape.empty()) {
    shape[to_index(random.below(spec.meta.ndim()))] = any_extent(random);
  }
  if (kind == 4) spec = any_tensor(random, mesh);
  fit(spec, random, mesh);
}

void change_inputs(OpCall& call, Random& random, const DeviceMesh& mesh) {
  if (call.inputs.empty() || random.percent(10)) {
    call.inputs.push_back({.tensors = {any_tensor(random, mesh)}});
    return;
  }
  const int at = random.below(static_cast<int>(call.inputs.size()));
  TensorArg& arg = call.inputs[to_index(at)];
  const int kind = random.below(12);
  if (kind == 0) {
    call.inputs.erase(call.inputs.begin() + at);
  } else if (kind == 1) {
    const TensorArg copy = arg;
    call.inputs.push_back(copy);
  } else if (kind == 2) {
    arg = {};
  } else if (kind == 3 && !arg.is_list && !arg.tensors.empty()) {
    arg.is_list = true;
    if (random.percent(50)) arg.tensors.push_back(any_tensor(random, mesh));
    if (random.percent(30)) {
      arg.given.assign(arg.tensors.size() + 1, true);
      arg.given[to_index(random.below(static_cast<int>(arg.given.size())))] = false;
    }
  } else if (kind == 3 && arg.is_list) {
    arg.given.clear();
    arg.is_list = false;
    if (arg.tensors.size() > 1) arg.tensors.resize(1);
  } else if (kind == 4 && arg.is_list && arg.tensors.size() > 1) {
    arg.given.clear();
    arg.tensors.pop_back();
  } else if (kind == 5 && arg.is_list) {
    arg.tensors.clear();
    arg.given = {false};
  } else if (!arg.tensors.empty()) {
    change_tensor(arg.tensors[to_index(random.below(static_cast<int>(arg.tensors.size())))], random,
                  mesh);
  }
}

json any_arg(Random& random) {
  static const std::vector<json> kMenu = {
      nullptr,
      true,
      false,
      0,
      1,
      -1,
      2,
      3,
      7,
      -7,
      0.5,
      -0.0,
      1e300,
      1e-300,
      "",
      "mean",
      "f32",
      std::int64_t{1} << 40,
      std::int64_t{1} << 62,
      std::numeric_limits<std::int64_t>::min(),
      std::numeric_limits<std::int64_t>::max(),
      18446744073709551615ULL,
      json::array(),
      json::object(),
      json::array({0}),
      json::array({-1}),
      json::array({0, 1}),
      json::array({1, 1}),
      json::array({2, 2}),
      json::array({-3, 5}),
      json::array({0, 0, 0}),
      json::array({1, 2, 3, 4}),
      json::array({true, false}),
      json::array({true, true, true}),
      json::array({nullptr}),
      json::array({json::array({1})}),
      json::array({json::array({0, 1}), json::array({1})}),
      json::array({std::int64_t{1} << 40, std::int64_t{1} << 40}),
      json::array({std::numeric_limits<std::int64_t>::min()}),
      json::array({std::numeric_limits<std::int64_t>::max(), 1}),
      json::array({"x"}),
      json::array({0.5, -1.5}),
      json::array({-1, -1}),
      json(std::vector<int>(20, 1)),
      std::numeric_limits<double>::infinity(),
      std::numeric_limits<double>::quiet_NaN()};
  return random.pick(kMenu);
}

void change_args(OpCall& call, Random& random) {
  if (call.args.empty() || random.percent(20)) {
    call.args.push_back(any_arg(random));
    return;
  }
  const auto at = static_cast<std::size_t>(random.below(static_cast<int>(call.args.size())));
  json& arg = call.args[at];
  const int kind = random.below(8);
  if (kind == 0) {
    call.args.erase(at);
  } else if (kind < 3 && arg.is_array() && !arg.empty()) {
    json& element = arg[to_index(random.below(static_cast<int>(arg.size())))];
    element = any_arg(random);
  } else if (kind == 3 && arg.is_array()) {
    arg.push_back(arg.empty() ? any_arg(random) : arg.back());
  } else if (kind == 4 && arg.is_array() && !arg.empty()) {
    arg.erase(0);
  } else if (kind == 5 && arg.is_number()) {
    arg = -arg.get<double>();
  } else if (kind == 6 && arg.is_number_integer()) {
    arg = random.between(-8, 8);
  } else {
    arg = any_arg(random);
  }
}

OpCall garbage(OpCall call, Random& random, const DeviceMesh& mesh) {
  for (TensorArg& arg : call.inputs) {
    for (TensorSpec& spec : arg.tensors) spec.layout = any_layout(random, mesh, spec.meta);
  }
  for (int i = random.below(4); i > 0; --i) {
    if (random.percent(60)) {
      change_inputs(call, random, mesh);
    } else {
      change_args(call, random);
    }
  }
  return call;
}

HostTensor any_values(Random& random, HostMemory& memory, const TensorMeta& meta) {
  HostTensor values = HostTensor::make(memory, meta.dtype, meta.shape);
  const bool wild = random.percent(20);
  static const std::vector<double> kWild = {-1.0, 5.0, -130.0, 120.0, 0.0, 1.0};
  for (std::int64_t i = 0; i < values.elements(); ++i) {
    const bool bytes = meta.dtype == DType::kB8 || meta.dtype == DType::kU8;
    set_element(values, i, wild && !bytes ? random.pick(kWild) : random.below(2));
  }
  return values;
}

bool is_small(const OpCall& call) {
  std::int64_t elements = 0;
  for (const TensorSpec* tensor : call.tensors()) {
    std::int64_t own = 1;
    for (const std::int64_t extent : tensor->meta.shape)
      own = extent == 0 ? 0 : saturating_product(own, extent);
    if (own > 4096 || !holds_data(tensor->meta.dtype)) return false;
    elements += own;
  }
  return elements <= 4096;
}

// -- The promise ----------------------------------------------------------------------------------

class GarbageCalls : public testing::TestWithParam<int> {
 protected:
  // Whether the call was answered.
  static bool ask(const OpCall& call, const std::string& what,
                  const std::function<void()>& question) {
    static const bool traced = std::getenv("SHARDLAB_TEST_TRACE") != nullptr;
    if (traced) std::fprintf(stderr, "%s: %s\n", what.c_str(), call.text().c_str());
    const std::clock_t start = std::clock();
    bool answered = false;
    try {
      question();
      answered = true;
    } catch (const InputError& error) {
      EXPECT_NE(std::string_view(error.what()), "") << call.text();
    } catch (const TextError&) {
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << " of " << call.text() << " throws: " << error.what();
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LE(seconds, kMostSeconds) << what << " of " << call.text();
    return answered;
  }

  void ask_rules(const OpCall& call, const DeviceMesh& mesh, std::string_view op) {
    accepted_.clear();
    for (const auto& [set, name] : EnumNames<RuleSet>::kNames) {
      for (const OpRule& rule : rule_table(set).rules()) {
        if (rule.op != op) continue;
        if (set == kShardlab && rule.sets.intersects(kDTensor)) continue;  // was asked as DTensor's
        std::vector<TensorMeta> outputs;
        const std::string sets = " of rule set " + std::string(name);
        if (!ask(call, "outputs" + sets, [&] { outputs = rule.outputs(call); })) continue;
        accepted_ = outputs;
        is_accepted_ = true;
        for (const TensorMeta& meta : outputs) {
          EXPECT_LE(meta.bytes(), kMaxTensorBytes * 64) << call.text();
          for (const std::int64_t extent : meta.shape) EXPECT_GE(extent, 0) << call.text();
        }
        ask(call, "expand" + sets, [&] { static_cast<void>(expand(rule, call, mesh)); });
      }
    }
  }

  void ask_stacks(const OpCall& call, const DeviceMesh& mesh) {
    for (StackEvaluator* evaluator : {&as_is_, &own_}) {
      for (const SearchKind search :
           {SearchKind::kFull, SearchKind::kExact, SearchKind::kDijkstra}) {
        const std::string what = evaluator->stack().name + ", " + std::string(to_string(search)) +
                                 " search on " + mesh.text();
        ask(call, what, [&] {
          const Selection selection =
              evaluator->select(call, mesh, {.search = search, .order = {}});
          EXPECT_GE(selection.choice.total_us, 0.0) << what << " of " << call.text();
        });
      }
    }
  }

  void run_kernel(const OpCall& call, Random& random) {
    if (find_op_kernel(call.op) == nullptr || !is_small(call)) return;
    for (const TensorMeta& meta : accepted_) {
      if (meta.bytes() > 1 << 20U) return;  // makes many elements out of few, as factories do
    }
    const auto memory = HostMemory::make(std::int64_t{64} << 20U);
    std::vector<HostTensor> inputs;
    for (const TensorSpec* tensor : call.tensors()) {
      inputs.push_back(any_values(random, *memory, tensor->meta));
    }
    std::vector<Shape> shapes;
    for (const TensorMeta& meta : accepted_) shapes.push_back(meta.shape);
    ask(call, "kernel", [&] {
      const LocalResult result = run_op_kernel(
          {.call = call, .memory = *memory, .inputs = inputs, .output_shapes = shapes});
      ++ran_;
      ASSERT_EQ(result.outputs.size(), accepted_.size()) << call.text();
      for (std::size_t o = 0; o < shapes.size(); ++o) {
        EXPECT_EQ(result.outputs[o].shape(), shapes[o]) << "output " << o << " of " << call.text();
      }
    });
  }

  void execute(const OpCall& call, const DeviceMesh& mesh, Random& random) {
    if (find_op_kernel(call.op) == nullptr || !is_small(call)) return;
    for (StackEvaluator* evaluator : {&as_is_, &own_}) {
      ask(call, evaluator->stack().name + ", execution on " + mesh.text(), [&] {
        const Executor executor(mesh, topology_, {.memory_limit_bytes = std::int64_t{64} << 20U});
        const Candidate choice =
            evaluator->select(call, mesh, {.search = SearchKind::kExact, .order = {}}).choice;
        std::vector<DistributedTensor> tensors;
        const auto specs = call.tensors();
        for (std::size_t i = 0; i < specs.size(); ++i) {
          const Plan plan =
              evaluator->on(mesh).plan(specs[i]->meta, specs[i]->layout, Layout(choice.inputs[i]));
          if (!plan.impossible.empty() || !plan.unexecutable.empty()) return;
          tensors.push_back(
              executor.distribute(specs[i]->meta, plan.start,
                                  any_values(random, executor.memory(), specs[i]->meta), {}));
          static_cast<void>(executor.run(plan, tensors.back()));
        }
        std::vector<Layout> outputs;
        for (const Placements& p : choice.outputs) outputs.emplace_back(p);
        const OpExecution done = execute_op(executor, call, tensors, outputs);
        ++executed_;
        static const bool strict = std::getenv("SHARDLAB_TEST_STRICT") != nullptr;
        if (strict && evaluator->stack().rules == kShardlab) {
          EXPECT_TRUE(done.verified) << call.text() << ": " << done.mismatch;
        }
      });
    }
  }

  void ask_all(int calls_an_op) {
    Random random(static_cast<std::uint64_t>(1000 + GetParam()));
    SHARDLAB_TRACE_SEED();
    for (const std::string_view op : asked_ops()) {
      if (testing_support::holds_no_data(op)) continue;
      const std::vector<SampleCall> samples = samples_of(op);
      ASSERT_FALSE(samples.empty()) << op;
      for (int n = 0; n < calls_an_op; ++n) {
        const DeviceMesh mesh = random_mesh(random, 3, 4);
        const OpCall call = garbage(random.pick(samples).call, random, mesh);
        is_accepted_ = false;
        ask_rules(call, mesh, op);
        if (!is_accepted_) continue;
        ask_stacks(call, mesh);
        if (is_foreach(op)) continue;  // these are run for one element of their lists at a time
        run_kernel(call, random);
        execute(call, mesh, random);
      }
    }
  }

  // The samples of the op; for a form that a release derives, those of its base, each with an `out`
  // tensor for each result.
  static std::vector<SampleCall> samples_of(std::string_view op) {
    for (const ReleaseEntry& entry : kReleases) {
      const RuleTable& table = rule_table(entry.release);
      const OpRule* base = table.variants()->base_of(op);
      if (base == nullptr) continue;
      std::vector<SampleCall> samples = sample_calls_of(base->op, 1);
      for (SampleCall& sample : samples) add_outs(*base, table.find(op)->out_tensors, sample);
      for (SampleCall& sample : samples) sample.call.op = op;
      return samples;
    }
    return sample_calls_of(op, 1);
  }
  static void add_outs(const OpRule& base, std::size_t outs, SampleCall& sample) {
    if (outs == 0) return;
    const std::vector<TensorMeta> results = base.outputs(sample.call);
    const auto tensors =
        std::ranges::count_if(find_op_schema(base.op)->arguments,
                              [](const SchemaArgument& argument) { return argument.is_tensor(); });
    sample.call.inputs.resize(static_cast<std::size_t>(tensors));
    for (const TensorMeta& result : results) {
      sample.call.inputs.push_back(OpCall::parse_input(result.text() + " R", 1));
      sample.values.emplace_back();
    }
  }

  // Ops of this part, whose name holds SHARDLAB_TEST_OP where that is set.
  static std::vector<std::string_view> asked_ops() {
    const char* only = std::getenv("SHARDLAB_TEST_OP");
    const std::vector<std::string_view> ops = all_op_names();
    std::vector<std::string_view> asked;
    for (std::size_t i = static_cast<std::size_t>(GetParam()); i < ops.size(); i += kParts) {
      if (only == nullptr || ops[i].find(only) != std::string_view::npos) asked.push_back(ops[i]);
    }
    return asked;
  }

  const Topology topology_ = topology_with(4);
  StackEvaluator as_is_{stack_with("dtensor-2.13"), topology_};
  StackEvaluator own_{stack_with("shardlab"), topology_};
  std::vector<TensorMeta> accepted_;  // the outputs that the last rule foresees
  bool is_accepted_ = false;          // whether some rule takes the call
  int ran_ = 0;
  int executed_ = 0;
};

TEST_P(GarbageCalls, AreAnsweredOrRefused) {
  ask_all(random_cases(3));
  EXPECT_GT(ran_ + executed_, 0) << "nothing was ever computed";
}

// Rules count what a call has before they look at it.
TEST_P(GarbageCalls, HaveAnyNumberOfInputs) {
  const DeviceMesh mesh = DeviceMesh::parse("2");
  const TensorSpec matrix = {.meta = TensorMeta::parse("f32[4,4]"),
                             .layout = Layout::replicated(mesh.ndim())};
  bool was_any_accepted = false;
  for (const std::string_view op : asked_ops()) {
    for (std::size_t inputs = 0; inputs <= 8; ++inputs) {
      OpCall call;
      call.op = std::string(op);
      call.inputs.assign(inputs, {.tensors = {matrix}});
      is_accepted_ = false;
      ask_rules(call, mesh, op);
      was_any_accepted = was_any_accepted || is_accepted_;
    }
  }
  EXPECT_TRUE(was_any_accepted);
}

using GarbageCallsSlow = GarbageCalls;
TEST_P(GarbageCallsSlow, AreAnsweredOrRefused) { ask_all(random_cases(100)); }

INSTANTIATE_TEST_SUITE_P(Ops, GarbageCalls, testing::Range(0, kParts));
INSTANTIATE_TEST_SUITE_P(Ops, GarbageCallsSlow, testing::Range(0, kParts));

}  // namespace op_garbage_contract_test
}  // namespace shardlab
