#include "runner/session/op_arguments.h"

#include "runner/config/read_json.h"
#include "runner/session/command.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab {

void OpArguments::add_options(const Command& command, bool required) {
  command.option("--op", op, "aten.mm.default, aten::mm or mm").required(required);
  command
      .option("--inputs", inputs,
              "one text per tensor argument: \"f32[8,8] S(0)R\", a list \"[f32[8] R; f32[8] R]\", "
              "or none")
      .required(required);
  command.option("--args", args,
                 "JSON array of the positional arguments that are not tensors, e.g. [1,false]");
}

OpCall OpArguments::read(const DeviceMesh& mesh, const Rules& rules) const {
  OpCall call;
  call.op = std::string(find_op_rule(op, rules).op);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::string_view input = inputs[i];
    if (input.starts_with(" [")) input.remove_prefix(1);  // see with_whole_lists()
    const std::string option =
        inputs.size() == 1 ? "--inputs" : "--inputs, text " + std::to_string(i + 1);
    call.inputs.push_back(
        parse_option(option, [&] { return OpCall::parse_input(input, mesh.ndim()); }));
  }
  if (args.empty()) return call;
  try {
    call.args = parse_json(args, "--args");
  } catch (const ConfigError& error) {
    throw InputError(error.what());
  }
  if (!call.args.is_array()) {
    throw InputError("--args: found " + describe_json(call.args) +
                     "; valid: a JSON array, such as [1,false]");
  }
  expect_arguments_of_schema(call);
  return call;
}

}  // namespace shardlab
