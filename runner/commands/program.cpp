// shardlab program: writes a built-in program as a file.
#include "runner/base/write_file.h"
#include "runner/commands/commands.h"
#include "strategies/programs/built_in_programs.h"

namespace shardlab {
namespace {

struct ProgramArguments {
  std::string name;
  std::optional<std::int64_t> layers;
  std::int64_t batch = 16;
  std::optional<std::int64_t> seqlen;
  std::string matmul = "einsum";
  bool loss = false;
  ProgramSizes sizes;
  std::string out;
};

std::vector<std::string> program_names() {
  std::vector<std::string> names;
  for (const BuiltInProgram& program : all_built_in_programs()) names.emplace_back(program.name);
  return names;
}

// Throws InputError for a tensor that is so large that the program's file could not be read back.
void expect_tensors_within_bounds(const Program& program) {
  for (const ProgramNode& node : program.nodes) {
    for (const TensorMeta& meta : node.outputs) {
      if (meta.bytes() <= kMaxTensorBytes) continue;
      throw InputError("--batch, --seqlen: found a tensor " + meta.text() + " (" + node.name +
                       "); valid: tensors of at most 2^53 bytes");
    }
  }
}

void run_program(const ProgramArguments& arguments, Session& session) {
  const BuiltInProgram& program = *find_built_in_program(arguments.name);
  const ProgramOptions options{.layers = arguments.layers.value_or(program.layers),
                               .batch = arguments.batch,
                               .seqlen = arguments.seqlen.value_or(program.seqlen),
                               .matmul = *from_name<MatmulForm>(arguments.matmul),
                               .loss = arguments.loss,
                               .sizes = arguments.sizes};
  const Program made = program.make(options);
  expect_tensors_within_bounds(made);
  const std::string text = made.text();
  if (arguments.out.empty()) {
    session.print(text);
  } else {
    write_file(arguments.out, text);
  }
}

}  // namespace

void add_program_command(const Command& root, Session& session) {
  auto arguments = std::make_shared<ProgramArguments>();
  const Command command = root.subcommand("program",
                                          "write a built-in program: a training step, for solve\n  "
                                          "shardlab program llama3-8b --layers 2 "
                                          "--batch 16 --seqlen 8192");
  command.option("name", arguments->name, "which built-in program")
      .required()
      .check(one_of(program_names()));
  command.option("--layers", arguments->layers, "number of layers; default: that of the model")
      .check(integer_from(1, 1024));
  command.option("--batch", arguments->batch, "sequences in a batch")
      .check(integer_from(1, 1 << 20))
      .show_default();
  command
      .option("--seqlen", arguments->seqlen,
              "tokens in a sequence; default: as many as the model takes")
      .check(integer_from(1, 1 << 24));
  command
      .option("--matmul", arguments->matmul,
              "how activations are multiplied by weights: einsum on [batch, rows, width], or "
              "native on matrices, as PyTorch traces them")
      .check(one_of<MatmulForm>())
      .show_default();
  command.flag("--loss", arguments->loss,
               "let the step compute the mean cross-entropy of its logits, rather than take their "
               "gradient as an input (llama only)");
  ProgramSizes& sizes = arguments->sizes;
  const std::vector<std::tuple<std::string, std::optional<std::int64_t>*, std::string>> widths = {
      {"--width", &sizes.width,
       "width of the residual stream; the default of this option and of those below comes from the "
       "model"},
      {"--heads", &sizes.heads, "attention heads"},
      {"--kv-heads", &sizes.kv_heads, "heads of keys and values (llama only)"},
      {"--ffn", &sizes.ffn, "width of the feed-forward layer"},
      {"--vocabulary", &sizes.vocabulary, "tokens in the vocabulary"},
      {"--experts", &sizes.experts, "experts of a layer (moe only)"},
      {"--experts-per-token", &sizes.experts_per_token,
       "experts that each token goes to (moe only)"}};
  for (const auto& [name, size, help] : widths) {
    const bool counts = name.starts_with("--experts");
    command.option(name, *size, help).check(integer_from(1, counts ? 1 << 16 : 1 << 24));
  }
  command.option("--out", arguments->out, "file to write; default: stdout");
  add_common_options(command, session, {});
  command.runs([arguments, &session] { run_program(*arguments, session); });
}

}  // namespace shardlab
