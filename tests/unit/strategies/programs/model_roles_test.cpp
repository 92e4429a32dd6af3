// Which roles the nodes of a program have: in the built-in models in both forms of their products,
// and in small programs that store the same layers in different ways.
#include "strategies/programs/model_roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "strategies/programs/batched_nodes.h"
#include "strategies/programs/built_in_programs.h"
#include "strategies/programs/parameter_products.h"
#include "strategies/programs/recipe.h"

namespace shardlab {
namespace model_roles_test {

using nlohmann::json;

constexpr MatmulForm kForms[] = {MatmulForm::kEinsum, MatmulForm::kNative};

Program built_in(const char* name, MatmulForm form = MatmulForm::kEinsum, std::int64_t layers = 1) {
  return find_built_in_program(name)->make(
      {.layers = layers, .batch = 8, .seqlen = 64, .matmul = form});
}

// A program of these nodes; each is written as "name kind-or-op inputs shape", as in
// "w parameter - 4,8", "y aten.mm.default x,w 16,4". Arguments may follow.
Program program_of(const std::vector<const char*>& lines) {
  json program = {{"schema", "shardlab/program/1"},
                  {"name", "p"},
                  {"source", "written by hand"},
                  {"nodes", json::array()}};
  const auto split = [](const std::string& text, char at) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(at, begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  };
  for (const char* line : lines) {
    const std::vector<std::string> words = split(line, ' ');
    json node = {{"name", words[0]}};
    if (words[1].starts_with("aten.")) {
      node["op"] = words[1];
    } else {
      node["kind"] = words[1];
      if (words[1] == "output") node["op"] = "aten.alias.default";
    }
    if (words[2] != "-") {
      node["inputs"] = json::array();
      for (const std::string& input : split(words[2], ',')) node["inputs"].push_back(input);
    }
    json shape = json::array();
    for (const std::string& extent : split(words[3], ',')) shape.push_back(std::stoll(extent));
    node["outputs"] =
        json::array({{{"dtype", words[0] == "ids" ? "i64" : "f32"}, {"shape", shape}}});
    if (words.size() > 4) node["args"] = {{"positional", json::parse(words[4])}};
    program["nodes"].push_back(std::move(node));
  }
  return Program::from_json(program, {"p.json", ""});
}

std::size_t node_of(const Program& program, std::string_view name) {
  const std::optional<std::size_t> node = program.find(name);
  EXPECT_TRUE(node.has_value()) << name;
  return node.value_or(0);
}

// The roles of a node, in the order of the table: "column_linear, inner".
std::string text_of(const NodeRoles& roles) {
  std::string text;
  for (const auto& [role, name] : EnumNames<ModelRole>::kNames) {
    if (roles.has(role)) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

// The model says in its labels what the roles are found to be from the graph alone.
std::string role_in_llama(const std::string& label) {
  for (const char* column : {"*.wq.*", "*.wk.*", "*.wv.*", "*.w1.*", "*.w3.*", "output.*"}) {
    if (matches_pattern(column, label)) return "column_linear";
  }
  for (const char* row : {"*.wo.*", "*.w2.*"}) {
    if (matches_pattern(row, label)) return "row_linear";
  }
  return matches_pattern("tok_embeddings.*", label) ? "embedding" : "norm";
}

TEST(ModelRoles, ThoseOfLlamasParametersAreWhatItsLabelsSay) {
  for (const MatmulForm form : kForms) {
    for (const char* name : {"llama3-8b", "llama3-70b"}) {
      const Program program = built_in(name, form, 2);
      const std::vector<NodeRoles> roles = model_roles(program);
      for (std::size_t n = 0; n < roles.size(); ++n) {
        const ProgramNode& node = program.nodes[n];
        if (node.kind != NodeKind::kParameter) continue;
        const std::string expected = role_in_llama(node.label);
        EXPECT_EQ(text_of(roles[n]), expected) << node.label;
        if (expected.ends_with("linear")) {
          EXPECT_EQ(roles[n].dim(RoleDim::kOut), 0) << node.label;
          EXPECT_EQ(roles[n].dim(RoleDim::kIn), 1) << node.label;
        } else if (expected == "embedding") {
          EXPECT_EQ(roles[n].dim(RoleDim::kOut), 1);
          EXPECT_EQ(roles[n].dim(RoleDim::kIn), 0);
        }
      }
    }
  }
}

// The stream is what LLaMA's labels of norms, of the embedding and of the sums say, forward and
// backward. A sum that is still spread over ranks is not: a row-wise product, and what is added to
// it before a norm or the stream reads it.
TEST(ModelRoles, TheStreamOfLlamaIsWhatItsLabelsSay) {
  for (const MatmulForm form : kForms) {
    const Program program = built_in("llama3-8b", form, 2);
    const std::vector<NodeRoles> roles = model_roles(program);
    const std::vector<bool> batched = batched_nodes(program);
    std::size_t count = 0;
    for (std::size_t n = 0; n < roles.size(); ++n) {
      const ProgramNode& node = program.nodes[n];
      if (!batched[n] || node.kind != NodeKind::kOp || node.label.empty()) continue;
      const bool labelled =
          matches_pattern("*norm", node.label) || matches_pattern("tok_embeddings", node.label) ||
          matches_pattern("*.h", node.label) || matches_pattern("*.out", node.label);
      if (labelled) {
        EXPECT_TRUE(roles[n].has(ModelRole::kStream)) << node.name << " " << node.label;
        EXPECT_EQ(roles[n].dim(RoleDim::kSequence), 1) << node.name << " " << node.label;
        ++count;
      }
      if (matches_pattern("*.w*", node.label)) {
        EXPECT_FALSE(roles[n].has(ModelRole::kStream)) << node.name << " " << node.label;
      }
    }
    EXPECT_GT(count, 100U);
  }
}

TEST(ModelRoles, EachWeightOfLlamaHasOneProductForwardAndOneOpThatComputesItsGradient) {
  for (const MatmulForm form : kForms) {
    const Program program = built_in("llama3-8b", form);
    const std::vector<NodeRoles> roles = model_roles(program);
    std::map<std::string, std::size_t> products;
    std::size_t gradients = 0;
    for (std::size_t n = 0; n < roles.size(); ++n) {
      const ProgramNode& node = program.nodes[n];
      if (roles[n].has(ModelRole::kWeightGradient)) ++gradients;
      if (!is_product(node) || roles[n].has(ModelRole::kWeightGradient)) continue;
      ++products[std::string(to_string(node.phase)) + ": " + text_of(roles[n])];
      if (roles[n].has(ModelRole::kColumnLinear)) {
        EXPECT_EQ(roles[n].dim(RoleDim::kOut), static_cast<int>(node.outputs[0].shape.size()) - 1);
      }
    }
    EXPECT_EQ(gradients, 9U);  // of eight layers and of the table
    EXPECT_EQ(products["forward: column_linear, inner"], 6U);
    EXPECT_EQ(products["forward: row_linear"], 2U);
    EXPECT_EQ(products["backward: "], 6U);       // partial gradients of the stream
    EXPECT_EQ(products["backward: inner"], 2U);  // gradients inside attention and the MLP
  }
}

TEST(ModelRoles, Gpt2HasBiasesAndItsMergedProjectionIsColumnWise) {
  for (const MatmulForm form : kForms) {
    const Program program = built_in("gpt2-xl", form);
    const std::vector<NodeRoles> roles = model_roles(program);
    std::string found;
    for (std::size_t n = 0; n < roles.size(); ++n) {
      if (program.nodes[n].kind == NodeKind::kParameter) {
        found += program.nodes[n].outputs[0].text() + " " + text_of(roles[n]) + "\n";
      }
    }
    EXPECT_EQ(found, R"(f32[50257,1600] embedding
f32[64,1600] embedding
f32[1600] norm
f32[1600] norm
f32[4800,1600] column_linear
f32[4800] column_bias
f32[1600,1600] row_linear
f32[1600] row_bias
f32[1600] norm
f32[1600] norm
f32[6400,1600] column_linear
f32[6400] column_bias
f32[1600,6400] row_linear
f32[1600] row_bias
f32[1600] norm
f32[1600] norm
f32[50257,1600] column_linear
)");
  }
}

TEST(ModelRoles, AMixtureOfExpertsHasARouterAndExperts) {
  for (const MatmulForm form : kForms) {
    const Program program = built_in("moe-1.3b-64e", form);
    const std::vector<NodeRoles> roles = model_roles(program);
    std::size_t routers = 0;
    for (std::size_t n = 0; n < roles.size(); ++n) {
      const ProgramNode& node = program.nodes[n];
      if (node.kind != NodeKind::kParameter) continue;
      if (roles[n].has(ModelRole::kRouter)) {
        EXPECT_EQ(node.outputs[0].text(), "f32[2048,64]");
        ++routers;
      }
      if (node.outputs[0].shape.size() != 3) continue;
      const bool is_first = node.outputs[0].shape[2] == 8192;  // [experts, in, out]
      EXPECT_EQ(text_of(roles[n]), is_first ? "column_linear, expert" : "row_linear, expert");
      EXPECT_EQ(roles[n].dim(RoleDim::kExpert), 0);
      EXPECT_EQ(roles[n].dim(RoleDim::kIn), 1);
      EXPECT_EQ(roles[n].dim(RoleDim::kOut), 2);
    }
    EXPECT_EQ(routers, 1U);
  }
}

struct Stored {
  const char* name;
  std::vector<const char*> lines;  // x [4, 6, 8] to y, by a weight w to 16 features
  int out_dim;
  int feature_dim;
};
void PrintTo(const Stored& stored, std::ostream* out) { *out << stored.name; }

class StoredWeight : public testing::TestWithParam<Stored> {};

// One layer of 8 to 16 features, whose weight and product appear in different ways.
TEST_P(StoredWeight, IsFoundWithItsDims) {
  std::vector<const char*> lines = {"x input - 4,6,8"};
  lines.insert(lines.end(), GetParam().lines.begin(), GetParam().lines.end());
  const Program program = program_of(lines);
  const std::vector<NodeRoles> roles = model_roles(program);
  const NodeRoles& weight = roles[node_of(program, "w")];
  EXPECT_EQ(text_of(weight), "column_linear");
  EXPECT_EQ(weight.dim(RoleDim::kOut), GetParam().out_dim);
  EXPECT_EQ(weight.dim(RoleDim::kIn), 1 - GetParam().out_dim);
  const NodeRoles& product = roles[node_of(program, "y")];
  EXPECT_EQ(text_of(product), "column_linear, inner");
  EXPECT_EQ(product.dim(RoleDim::kOut), GetParam().feature_dim);
  if (const std::optional<std::size_t> bias = program.find("b")) {
    EXPECT_EQ(text_of(roles[*bias]), "column_bias");
    EXPECT_EQ(roles[*bias].dim(RoleDim::kOut), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StoredWeight,
    testing::Values(
        Stored{"Einsum",
               {"w parameter - 16,8", "t aten.permute.default w 8,16 [[1,0]]",
                "y aten.einsum.default x,t 4,6,16 [\"abk,kn->abn\"]"},
               0,
               2},
        Stored{"LinearOnMatrices",
               {"w parameter - 16,8", "b parameter - 16", "t aten.t.default w 8,16",
                "m aten.view.default x 24,8 [[24,8]]", "p aten.addmm.default b,m,t 24,16",
                "y aten.view.default p 4,6,16 [[4,6,16]]"},
               0,
               2},
        Stored{"Conv1D",
               {"w parameter - 8,16", "b parameter - 16", "m aten.view.default x 24,8 [[24,8]]",
                "p aten.mm.default m,w 24,16", "q aten.view.default p 4,6,16 [[4,6,16]]",
                "y aten.add.Tensor q,b 4,6,16"},
               1,
               2},
        Stored{"TheWeightOnTheLeft",
               {"w parameter - 16,8", "m aten.view.default x 24,8 [[24,8]]",
                "t aten.permute.default m 8,24 [[1,0]]", "p aten.mm.default w,t 16,24",
                "y aten.transpose.int p 24,16 [0,1]"},
               0,
               1},
        Stored{"CastScaledAndUndecomposed",
               {"w parameter - 16,8", "b parameter - 16", "c aten._to_copy.default w 16,8",
                "s aten.mul.Scalar c 16,8 [2]", "y aten.linear.default x,s,b 4,6,16"},
               0,
               2}),
    [](const auto& test) { return std::string(test.param.name); });

// Two layers with an activation function between them, and the residual sum.
TEST(ModelRoles, AlternateBetweenColumnsAndRows) {
  const Program program = program_of(
      {"x input - 6,8", "a parameter - 16,8", "b parameter - 8,16", "c parameter - 16,8",
       "at aten.t.default a 8,16", "bt aten.t.default b 16,8", "ct aten.t.default c 8,16",
       "h aten.mm.default x,at 6,16", "g aten.gelu.default h 6,16", "y aten.mm.default g,bt 6,8",
       "r aten.add.Tensor x,y 6,8", "z aten.mm.default r,ct 6,16", "o output z 6,16"});
  const std::vector<NodeRoles> roles = model_roles(program);
  std::string found;
  for (const char* name : {"x", "a", "b", "c", "h", "g", "y", "r", "z", "o"}) {
    found += std::string(name) + ": " + text_of(roles[node_of(program, name)]) + "\n";
  }
  EXPECT_EQ(found, R"(x: stream
a: column_linear
b: row_linear
c: column_linear
h: column_linear, inner
g: inner
y: row_linear
r: stream
z: column_linear, inner
o: column_linear, inner
)");
  // Its stream is matrices of tokens.
  EXPECT_EQ(roles[node_of(program, "r")].dim(RoleDim::kSequence), 0);
}

// A norm over all features of an inner value needs them on every rank (BERT's head); one inside
// each head does not (Qwen3's norms of queries and keys).
TEST(ModelRoles, ANormOverAllFeaturesReturnsToTheStream) {
  const auto next_layer = [](const char* norm, const char* back) {
    const Program program =
        program_of({"x input - 6,8", "a parameter - 16,8", "b parameter - 8,16", "g parameter - 16",
                    "at aten.t.default a 8,16", "bt aten.t.default b 16,8",
                    "h aten.mm.default x,at 6,16", norm, back, "y aten.mm.default v,bt 6,8"});
    return text_of(model_roles(program)[node_of(program, "b")]);
  };
  EXPECT_EQ(next_layer("n aten.native_layer_norm.default h,g 6,16 [[16],1e-5]",
                       "v aten.alias.default n 6,16"),
            "column_linear");
  EXPECT_EQ(
      next_layer("n aten.view.default h 6,4,4 [[6,4,4]]", "v aten.view.default n 6,16 [[6,16]]"),
      "row_linear");
}

TEST(ModelRoles, ANormThatIsWrittenOutIsOne) {
  const Program program =
      program_of({"x input - 4,6,8", "g parameter - 8", "b parameter - 8",
                  "s aten.pow.Tensor_Scalar x 4,6,8 [2]", "m aten.mean.dim s 4,6,1 [[-1],true]",
                  "r aten.rsqrt.default m 4,6,1", "n aten.mul.Tensor x,r 4,6,8",
                  "k aten.mul.Tensor g,n 4,6,8", "y aten.add.Tensor k,b 4,6,8"});
  const std::vector<NodeRoles> roles = model_roles(program);
  for (const char* name : {"g", "b"}) EXPECT_EQ(text_of(roles[node_of(program, name)]), "norm");
  for (const char* name : {"k", "y"}) {
    EXPECT_EQ(text_of(roles[node_of(program, name)]), "norm, stream");
  }
}

// A table that is the head's weight too has both roles and the head's dims.
TEST(ModelRoles, ATiedTableHasTheHeadsDims) {
  const Program program =
      program_of({"w parameter - 32,8", "ids input - 4,6", "x aten.embedding.default w,ids 4,6,8",
                  "t aten.t.default w 8,32", "y aten.einsum.default x,t 4,6,32 [\"abk,kn->abn\"]"});
  const NodeRoles table = model_roles(program)[node_of(program, "w")];
  EXPECT_EQ(text_of(table), "column_linear, embedding");
  EXPECT_EQ(table.dim(RoleDim::kOut), 0);
}

// The same layers have the same roles whatever they are called.
TEST(ModelRoles, DoNotDependOnLabels) {
  Program program = built_in("llama3-8b");
  const std::vector<NodeRoles> labelled = model_roles(program);
  for (ProgramNode& node : program.nodes) node.label.clear();
  const std::vector<NodeRoles> bare = model_roles(program);
  for (std::size_t n = 0; n < bare.size(); ++n) EXPECT_EQ(text_of(bare[n]), text_of(labelled[n]));
}

}  // namespace model_roles_test
}  // namespace shardlab
