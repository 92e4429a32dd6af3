#include "runner/simulate/redistribution.h"

#include "runner/session/command.h"

namespace shardlab {

void RedistributionArguments::add_options(const Command& command, bool required) {
  command.option("--mesh", mesh, "8x8, dp=8,tp=8, or as PyTorch writes it: \"(8, 8)\"").required();
  command
      .option("--tensor", tensor,
              "dtype and global shape, such as bf16[8192,4096]; dtypes may be PyTorch's: "
              "torch.bfloat16[8192,4096]")
      .required(required);
  command.option("--from", from, "layout now, e.g. S(0)R").required(required);
  command.option("--to", to, "layout wanted").required(required);
  command.option("--stack", stack, "shipped name or path").show_default();
  command.option("--planner", planner, "the planner to use instead of the stack's")
      .check(one_of<PlannerKind>());
  flattened.add(command);
  command.option("--rank", rank, "the rank whose logical shapes are shown")
      .check(integer_from(0, (std::uint64_t{1} << 40) - 1))
      .show_default();
}

RedistributionQuestion RedistributionArguments::read() const {
  RedistributionQuestion question;
  question.mesh = flattened.read(mesh);
  question.meta = parse_option("--tensor", [&] { return TensorMeta::parse(tensor); });
  const int ndim = question.mesh.ndim();
  question.from = parse_option("--from", [&] { return parse_layout(from, ndim, question.meta); });
  question.to = parse_option("--to", [&] { return parse_layout(to, ndim, question.meta); });
  if (rank >= question.mesh.size()) {
    throw InputError("--rank: found " + std::to_string(rank) + "; valid: 0 to " +
                     std::to_string(question.mesh.size() - 1) + ", the ranks of mesh " +
                     question.mesh.text());
  }
  question.options = {.planner = {}, .rank = rank, .count_optimal_paths = true};
  question.options.planner = from_name<PlannerKind>(planner);
  return question;
}

}  // namespace shardlab
