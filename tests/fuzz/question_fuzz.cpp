// Calls of ops on any tensors, in any layouts, with any arguments. A call is refused with an
// InputError, or it has candidates, a choice among them and a price that is not negative. That does
// not depend on which evaluator is asked, or in which order.
//
// The bytes are the op, the mesh, tensors (a list or not), arguments, the stack, and the high byte
// of the op's number, which old seeds lack.
#include <array>
#include <cmath>

#include "costmodel/base/error.h"
#include "runner/config/read_json.h"
#include "strategies/select/questionnaire.h"
#include "strategies/select/ties.h"
#include "tests/fuzz/draw.h"
#include "tests/support/reference_stacks.h"

namespace shardlab::testing_support {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxInputs = 3;

TensorArg draw_input(Bytes8& input, const DeviceMesh& mesh, const TensorMeta& previous) {
  TensorArg arg;
  const int kind = input.below(6);
  arg.is_list = kind > 3;
  const int tensors = arg.is_list ? 1 + input.below(2) : 1;
  for (int i = 0; i < tensors; ++i) {
    // Mostly takes the shape of the tensor before it, since random shapes seldom fit.
    const bool same = kind % 2 == 0 && previous.ndim() > 0;
    const TensorMeta meta = same ? previous : draw_tensor(input);
    arg.tensors.push_back({meta, draw_layout(input, mesh, meta)});
  }
  return arg;
}

json draw_args(Bytes8& input) {
  static const std::vector<json> menu = {0,
                                         -1,
                                         1,
                                         2,
                                         json::array({0}),
                                         json::array({0, 1}),
                                         json::array({-1}),
                                         true,
                                         false,
                                         nullptr,
                                         2.5,
                                         "x",
                                         json::array(),
                                         json::object(),
                                         std::int64_t{1} << 62,
                                         -(std::int64_t{1} << 62),
                                         18446744073709551615ULL,
                                         1e300};
  json args = json::array();
  for (int i = input.below(4); i > 0; --i) args.push_back(menu[input.byte() % menu.size()]);
  return args;
}

const std::vector<Stack>& stacks() {
  static const std::vector<Stack> all = [] {
    std::vector<Stack> read;
    for (const char* name : {"dtensor-v0", "dtensor-v3", "dtensor-v-compute", "shardlab"}) {
      read.push_back(stack_with(name));
    }
    json legacy = read[1].to_json();
    legacy["rules"] = "dtensor-legacy";
    read.push_back(Stack::from_json(legacy, {"legacy.json", ""}));
    return read;
  }();
  return all;
}

void expect_selection(const Selection& selection, const std::string& what) {
  FUZZ_CHECK(selection.selected < selection.candidates.size(), what);
  double least = selection.candidates[0].total_us;
  for (const Candidate& candidate : selection.candidates) {
    FUZZ_CHECK(candidate.total_us >= 0 && candidate.compute_us >= 0, what);
    for (const double us : candidate.redistribute_us) FUZZ_CHECK(us >= 0, what);
    least = std::min(least, candidate.total_us);
  }
  FUZZ_CHECK(selection.choice.total_us == least, what);
  FUZZ_CHECK(!selection.ties.empty(), what);
}

void ask(Bytes8 input, const Topology& topology) {
  static const std::vector<std::string_view> ops = all_op_names();
  Question question;
  question.id = "fuzz";
  std::size_t op = input.byte();
  question.mesh = draw_mesh(input, 2);
  TensorMeta previous;
  for (std::size_t i = input.byte() % (kMaxInputs + 1); i > 0; --i) {
    question.call.inputs.push_back(draw_input(input, question.mesh, previous));
    previous = question.call.inputs.back().tensors.back().meta;
  }
  question.call.args = draw_args(input);
  const Stack& stack = stacks()[input.byte() % stacks().size()];
  op += std::size_t{input.byte()} << 8U;
  question.call.op = std::string(ops[op % ops.size()]);
  const std::string what = stack.name + ", " + question.mesh.text() + ": " + question.call.text();

  StackEvaluator evaluator(stack, topology);
  const TieItem item = audit_ties(question, evaluator, 1.0);
  FUZZ_CHECK(item.total_us >= 0, what);
  const QuestionResult result = Questionnaire({stack}, stacks()[3], topology).ask(question);
  for (const Answer& answer : result.answers) {
    FUZZ_CHECK(!answer.price_us || *answer.price_us >= 0, what);
    FUZZ_CHECK(!answer.reference_us || *result.best.us <= *answer.reference_us, what);
  }
  if (question.call.op.find("_foreach_") != std::string::npos) return;
  try {
    const Selection listed = evaluator.select(question.call, question.mesh);
    expect_selection(listed, what);
    FUZZ_CHECK(item.error.empty() && item.total_us == listed.choice.total_us, what);
    const CandidateOrder reversed{CandidateOrder::Kind::kReversed, 0};
    const Selection other =
        evaluator.select(question.call, question.mesh, {.search = {}, .order = reversed});
    expect_selection(other, what);
    FUZZ_CHECK(other.choice.total_us == listed.choice.total_us, what);
    static_cast<void>(evaluator.select(question.call, question.mesh,
                                       {.search = SearchKind::kDijkstra, .order = {}}));
  } catch (const InputError& error) {
    FUZZ_CHECK(!item.error.empty(), what + ": " + error.what());
  }
}

}  // namespace
}  // namespace shardlab::testing_support

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardlab;
  using namespace shardlab::testing_support;
  static const Topology topology = Topology::from_json(
      read_json_file(SHARDLAB_SOURCE_DIR "/configs/topologies/h100.json"), {"h100.json", ""});
  ask(Bytes8(data, size), topology);
  return 0;
}
