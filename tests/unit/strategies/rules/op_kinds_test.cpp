// What the refusal of an op without a rule says of a real op of PyTorch, and of an unknown word.
#include "strategies/rules/op_kinds.h"

#include <gtest/gtest.h>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"
#include "tests/support/reference_messages.h"

namespace shardlab {
namespace op_kinds_test {

OpKind kind_of(std::string_view op, Release release = Release::k2_13) {
  return find_aten_op(op, release).value_or(AtenOp{"", OpKind::kAbsent}).kind;
}

TEST(OpKinds, AreFoundByEveryFormOfTheirNames) {
  for (const char* op : {"unfold", "aten.unfold", "aten::unfold", "aten.unfold.default",
                         "torch.ops.aten.unfold.default"}) {
    const std::optional<AtenOp> found = find_aten_op(op, Release::k2_13);
    ASSERT_TRUE(found.has_value()) << op;
    EXPECT_EQ(found->name, "aten.unfold.default");
  }
  EXPECT_EQ(find_aten_op("aten.add", Release::k2_13)->name, "aten.add.Scalar");
  EXPECT_EQ(find_aten_op("aten.add.Tensor", Release::k2_13)->name, "aten.add.Tensor");
  for (const char* op : {"", "aten.", "aten.unfold.int", "aten.unfol", "aten.add.default",
                         "mylib.secret.default", "autoparallel.dtype_cast"}) {
    EXPECT_FALSE(find_aten_op(op, Release::k2_13).has_value()) << op;
  }
}

TEST(OpKinds, SayWhatEachReleaseDoes) {
  EXPECT_EQ(kind_of("aten.linear.default"), OpKind::kComposite);
  EXPECT_EQ(kind_of("aten.as_strided.default"), OpKind::kHandled);
  EXPECT_EQ(kind_of("aten.mm.default"), OpKind::kStrategy);
  EXPECT_EQ(kind_of("aten.nonzero.default"), OpKind::kDataDependent);
  EXPECT_EQ(kind_of("aten.unfold.default"), OpKind::kDecomposed);
  EXPECT_EQ(kind_of("aten._cdist_forward.default"), OpKind::kNone);
  EXPECT_EQ(kind_of("aten.qr.default"), OpKind::kComposite);
  EXPECT_EQ(kind_of("aten.qr.default", Release::k2_15), OpKind::kAbsent);
}

TEST(OpKinds, OfEveryReleaseAreInTheFile) {
  for (const ReleaseEntry& entry : kReleases) {
    EXPECT_EQ(kind_of("aten.mm.default", entry.release), OpKind::kStrategy) << entry.torch;
  }
}

struct Refusal {
  const char* name;
  const char* op;
  RuleSet set;
  const char* message;
};
void PrintTo(const Refusal& c, std::ostream* out) { *out << c.op; }
class OpsWithoutRules : public testing::TestWithParam<Refusal> {};

TEST_P(OpsWithoutRules, AreRefusedWithWhatPyTorchDoes) {
  const Refusal& c = GetParam();
  EXPECT_THROW_MSG(find_op_rule(c.op, c.set), InputError, c.message);
}

INSTANTIATE_TEST_SUITE_P(
    All, OpsWithoutRules,
    testing::Values(
        Refusal{"Decomposed", "aten.unfold", Release::k2_15,
                "op \"aten.unfold.default\" has no sharding rule, and DTensor of PyTorch 2.15.0 "
                "has no strategy for it either: it runs the strategies of the steps that the op "
                "decomposes into, and where one of them has none it raises NotImplementedError "
                "(\"Operator aten.unfold.default does not have a sharding strategy "
                "registered.\"); valid: the ops of `shardlab list ops`"},
        Refusal{"None", "torch.resize_as_", kShardlab,
                "op \"aten.resize_as_.default\" has no sharding rule, and DTensor of PyTorch "
                "2.13.0 has no strategy for it either: it raises NotImplementedError (\"Operator "
                "aten.resize_as_.default does not have a sharding strategy registered.\"); valid: "
                "the ops of `shardlab list ops`"},
        Refusal{"Handled", "aten.as_strided.default", kDTensorLegacy,
                "op \"aten.as_strided.default\" has no sharding rule, since DTensor runs a handler "
                "of its own for it, which returns the tensor itself if it is asked for its own "
                "size, stride and offset, and otherwise raises \"as_strided not supported with "
                "DTensor\"; valid: the ops of `shardlab list ops`"},
        Refusal{"Strategy", "aten.linalg_qr.default", kAutoParallel2_15,
                "op \"aten.linalg_qr.default\" has no sharding rule, although DTensor of "
                "PyTorch 2.15.0 has a strategy for it, which shardlab does not know; valid: the "
                "ops of `shardlab list ops`"},
        Refusal{"DataDependent", "nonzero", Release::k2_13,
                "op \"aten.nonzero.default\" has no sharding rule, and DTensor of PyTorch 2.13.0 "
                "has no strategy for it either: the shape of its result depends on the data, and "
                "the propagation fails; valid: the ops of `shardlab list ops`"},
        Refusal{"Absent", "aten.qr.default", Release::k2_14,
                "op \"aten.qr.default\" has no sharding rule, and PyTorch 2.14.1 has no such op, "
                "although another release has; valid: the ops of `shardlab list ops`"},
        Refusal{"Composite", "aten.pdist.default", Release::k2_13,
                "op \"aten.pdist.default\" has no sharding rule, since PyTorch runs other ops in "
                "its place; valid: those ops, which a TorchDispatchMode shows"},
        Refusal{"ListedComposite", "aten.value_selecting_reduction_backward.default",
                Release::k2_13,
                "op \"aten.value_selecting_reduction_backward.default\" has no sharding rule, "
                "since PyTorch runs other ops in its place; valid: aten.unsqueeze.default, "
                "aten.new_zeros.default, aten.scatter.src"},
        Refusal{"UnknownOverload", "aten.mm.other", Release::k2_13,
                "unknown op \"aten.mm.other\" (did you mean \"aten.mm\"?); valid: the ops of "
                "`shardlab list ops`"},
        Refusal{"FunctionWithARule", "torch.bmm", Release::k2_13,
                "unknown op \"torch.bmm\" (did you mean \"bmm\"?); valid: the ops of `shardlab "
                "list ops`"},
        Refusal{"UnknownName", "aten.cummsum.default", Release::k2_13,
                "unknown op \"aten.cummsum.default\" (did you mean \"aten.cumsum.default\"?); "
                "valid: the ops of `shardlab list ops`"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace op_kinds_test
}  // namespace shardlab
