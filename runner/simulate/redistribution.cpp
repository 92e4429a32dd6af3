#include "runner/simulate/redistribution.h"

#include <algorithm>

#include "runner/session/command.h"

namespace shardlab {
namespace {

DeviceMesh with_flattened(DeviceMesh mesh, const std::vector<std::string>& flatten) {
  for (const std::string& axes : flatten) {
    std::vector<std::string> names;
    for (std::size_t start = 0; start <= axes.size();) {
      const std::size_t comma = std::min(axes.find(',', start), axes.size());
      names.push_back(axes.substr(start, comma - start));
      start = comma + 1;
    }
    mesh = mesh.flatten(names);
  }
  return mesh;
}

}  // namespace

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
  command
      .option("--flatten", flatten,
              "axes of a registered flattened mesh, e.g. \"dp,tp\"; once per mesh")
      .repeatable();
  command.option("--rank", rank, "the rank whose logical shapes are shown")
      .check(integer_from(0, (std::uint64_t{1} << 40) - 1))
      .show_default();
}

RedistributionQuestion RedistributionArguments::read() const {
  RedistributionQuestion question;
  question.mesh = parse_option("--flatten", [&] {
    return with_flattened(parse_option("--mesh", [&] { return DeviceMesh::parse(mesh); }), flatten);
  });
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
