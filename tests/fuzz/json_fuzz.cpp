// A JSON document of any kind is refused with a ConfigError, also for texts inside it, or it is
// read, and what was read prints JSON that means the same.
//
// Byte 0 is the kind; then comes the document.
#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "runner/config/configs.h"
#include "strategies/cases/case.h"
#include "strategies/programs/program.h"
#include "strategies/select/questionnaire.h"
#include "strategies/select/suite.h"
#include "strategies/select/ties.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/reference_stacks.h"

namespace shardlab::testing_support {
namespace {

using nlohmann::json;
const JsonPlace kPlace{"f.json", ""};

json shipped_stack_json(const std::string& name) {
  const std::string known = name == "alpha-beta" ? name : "dtensor-v3";
  return stack_json(known);
}

const Topology& h100() {
  static const Topology topology = Topology::from_json(
      read_json_file(SHARDLAB_SOURCE_DIR "/configs/topologies/h100.json"), kPlace);
  return topology;
}

void expect_price(double us, const std::string& what) { FUZZ_CHECK(us >= 0, what); }

void price_something(const Stack& stack, const Topology& topology) {
  StackEvaluator evaluator(stack, topology);
  const DeviceMesh mesh = DeviceMesh::parse("2x3");
  const TensorMeta meta = TensorMeta::parse("bf16[6,4]");
  Redistributor& redistributor = evaluator.on(mesh);
  for (const char* to : {"RR", "S(1)R", "S(0)S(0)"}) {
    expect_price(redistributor.cost_us(meta, Layout::parse("S(0)R", 2), Layout::parse(to, 2)), to);
    expect_price(redistributor.cost_us(meta, Layout::parse("P(sum)R", 2), Layout::parse(to, 2)),
                 to);
  }
}

void stack(const json& document) {
  const Stack value = Stack::from_json(document, kPlace, shipped_stack_json);
  const json printed = value.to_json();
  FUZZ_CHECK(Stack::from_json(printed, kPlace).to_json() == printed, printed.dump());
  price_something(value, h100());
}

void topology(const json& document) {
  const Topology value = Topology::from_json(document, kPlace);
  const json printed = value.to_json();
  FUZZ_CHECK(Topology::from_json(printed, kPlace).to_json() == printed, printed.dump());
  for (const char* name : {"dtensor-v3", "alpha-beta"}) {
    price_something(Stack::from_json(shipped_stack_json(name), kPlace), value);
  }
}

// How many questions a document would generate. Large suites would be right but slow, so they are
// skipped.
double questions_of(const json& document) {
  if (!document.is_object() || !document.contains("generate")) return 0;
  const json& generate = document["generate"];
  if (!generate.is_object()) return 0;
  const auto size = [&](const char* key) {
    return generate.contains(key) ? static_cast<double>(generate[key].size()) : 0.0;
  };
  const auto number = [&](const char* key) {
    return generate.contains(key) && generate[key].is_number() ? generate[key].get<double>() : 0.0;
  };
  return size("meshes") * size("sizes_bytes") *
         (size("ops") * number("layouts_per_case") + number("redistributions_per_case"));
}

bool is_small(const Question& question) {
  if (question.mesh.ndim() > 3) return false;
  const auto tensors = question.call.tensors();
  if (tensors.size() > 4) return false;
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorSpec* spec) { return spec->meta.ndim() <= 4; });
}

// A question that was read can be asked. It has an answer, or an InputError that audit_ties keeps
// as a text.
void ask(const Question& question) {
  static const std::vector<Stack> stacks = {
      Stack::from_json(shipped_stack_json("dtensor-v3"), kPlace),
      Stack::from_json({{"base", "alpha-beta"}, {"rules", "shardlab"}}, kPlace,
                       shipped_stack_json)};
  for (const Stack& each : stacks) {
    StackEvaluator evaluator(each, h100());
    const TieItem item = audit_ties(question, evaluator, 1.0);
    FUZZ_CHECK(item.total_us >= 0, question.id + ": " + item.choice);
  }
  const QuestionResult result = Questionnaire(stacks, stacks[1], h100()).ask(question);
  for (const Answer& answer : result.answers) {
    FUZZ_CHECK(!answer.price_us || *answer.price_us >= 0, question.id + ": " + answer.choice);
    FUZZ_CHECK(!answer.reference_us || (result.best.us && *result.best.us <= *answer.reference_us),
               question.id + ": " + answer.choice);
  }
}

void suite(const json& document) {
  const double expected = questions_of(document);
  if (expected > 2000 && expected < 1e6) return;
  const Suite value = Suite::from_json(document, kPlace);
  for (const Question& question : value.questions) {
    FUZZ_CHECK(question.bytes() >= 0, question.id);
    static_cast<void>(question.inputs());
  }
  std::size_t asked = 0;
  for (const Question& question : value.questions) {
    if (asked == 4) break;
    if (!is_small(question)) continue;
    ++asked;
    ask(question);
  }
}

// Ops on a few ranks and few elements are run as well.
bool only_executes_small(const json& document) {
  for (const json& check : document["checks"]) {
    if (!check.contains("execute")) return false;
    for (const json& input : check["execute"]["inputs"]) {
      const std::string text =
          input.is_string() ? input.get<std::string>() : input["tensor"].get<std::string>();
      double elements = 1;
      for (const std::int64_t extent : TensorMeta::parse(text).shape) {
        elements *= static_cast<double>(extent);
      }
      if (elements > 1000) return false;
    }
    const auto ranks = [](const json& scene) {
      return scene.contains("mesh") && scene["mesh"].is_string()
                 ? DeviceMesh::parse(scene["mesh"].get<std::string>()).size()
                 : 1;
    };
    if (ranks(check["execute"]) > 16 || ranks(document["setup"]) > 16) return false;
  }
  return true;
}

void regression(const json& document) {
  const Case value = Case::parse(document, kPlace);
  FUZZ_CHECK(value.is_named(value.id()), value.id());
  static_cast<void>(value.setup_text());
  if (!only_executes_small(document)) return;
  const CaseSources sources{
      .stack =
          [](const json& choice, const JsonPlace& place) {
            return Stack::from_json(
                choice.is_string() ? shipped_stack_json(choice.get<std::string>()) : choice, place,
                shipped_stack_json);
          },
      .topology = [](const std::string&, std::optional<std::int64_t>) { return h100(); }};
  try {
    static_cast<void>(value.run(sources, std::nullopt));
  } catch (const InputError&) {  // a limit
  }
}

void program(const json& document) {
  const Program value = Program::from_json(document, kPlace);
  for (std::size_t n = 0; n < value.nodes.size(); ++n) {
    FUZZ_CHECK(value.find(value.nodes[n].name) == n, value.nodes[n].name);
    for (const ProgramInput& input : value.nodes[n].inputs) {
      for (const ValueRef& ref : input.values) {
        FUZZ_CHECK(ref.node < n && ref.output < value.nodes[ref.node].outputs.size(),
                   value.nodes[n].name);
      }
    }
  }
}

constexpr std::array<void (*)(const json&), 5> kKinds = {stack, topology, suite, regression,
                                                         program};

}  // namespace
}  // namespace shardlab::testing_support

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  Bytes8 input(data, size);
  const auto kind = static_cast<std::size_t>(input.below(static_cast<int>(kKinds.size())));
  try {
    kKinds[kind](parse_json(input.rest(), "f.json"));
  } catch (const ConfigError&) {
  }
  return 0;
}
