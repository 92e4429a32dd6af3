// Samples of layer, rms, batch and group norms, and of their backwards.
#include "strategies/proof/op_sample.h"

namespace shardlab {
namespace norm_samples {

constexpr OpSample kSamples[] = {
    {"aten._batch_norm_with_update.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([0.1, 1e-5])"},
    {"aten._batch_norm_with_update.default",
     "f32[6,5] | none | none | f32[5] unit | f32[5] positive", R"([0.1, 1e-5])"},
    {"aten._fused_rms_norm.default", "f32[4,6] | f32[6]", R"([[6], 1e-5])"},
    {"aten._fused_rms_norm.default", "f32[6,5,4] | none", R"([[5, 4]])"},
    {"aten._fused_rms_norm_backward.default", "f32[4,6] | f32[4,6] | f32[4,1] positive | f32[6]",
     R"([[6], [true, true]])"},
    {"aten._fused_rms_norm_backward.default", "f32[6,5] | f32[6,5] | f32[6,1] positive | none",
     R"([[5], [true, true]])"},
    {"aten._fused_rms_norm_backward.default",
     "f32[6,2,4] | f32[6,2,4] | f32[6,2,1] positive | f32[4]", R"([[4], [false, true]])"},
    {"aten._native_batch_norm_legit.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([true, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit.default",
     "f32[6,5] | none | none | f32[5] unit | f32[5] positive", R"([true, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([false, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit.default",
     "f32[6,5] | none | none | f32[5] unit | f32[5] positive", R"([false, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit.no_stats", "f32[4,6,2] | f32[6] | none",
     R"([true, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit.no_stats", "f32[6,5] | none | none", R"([true, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit_functional.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([true, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit_functional.default",
     "f32[6,5] | none | none | f32[5] unit | f32[5] positive", R"([true, 0.5, 1e-5])"},
    {"aten._native_batch_norm_legit_functional.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([false, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit_functional.default",
     "f32[6,5] | none | none | f32[5] unit | f32[5] positive", R"([false, 0.1, 1e-5])"},
    {"aten._native_batch_norm_legit_no_training.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([0.1, 1e-5])"},
    {"aten._native_batch_norm_legit_no_training.default",
     "f32[6,5] | none | none | f32[5] unit | f32[5] positive", R"([0.1, 1e-5])"},
    {"aten.native_batch_norm.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([true, 0.1, 1e-5])"},
    {"aten.native_batch_norm.default", "f32[6,5] | none | none | f32[5] unit | f32[5] positive",
     R"([true, 0.1, 1e-5])"},
    {"aten.native_batch_norm.default",
     "f32[4,6,2] | f32[6] | f32[6] | f32[6] unit | f32[6] positive", R"([false, 0.1, 1e-5])"},
    {"aten.native_batch_norm.default", "f32[6,5] | none | none | f32[5] unit | f32[5] positive",
     R"([false, 0.1, 1e-5])"},
    {"aten.native_batch_norm_backward.default",
     "f32[4,6,2] | f32[4,6,2] | f32[6] | f32[6] unit | f32[6] positive | f32[6] unit | f32[6] "
     "positive",
     R"([true, 1e-5, [true, true, true]])"},
    {"aten.native_batch_norm_backward.default",
     "f32[4,6,2] | f32[4,6,2] | f32[6] | f32[6] unit | f32[6] positive | f32[6] unit | f32[6] "
     "positive",
     R"([false, 1e-5, [true, true, true]])"},
    {"aten.native_batch_norm_backward.default",
     "f32[6,5] | f32[6,5] | none | none | none | f32[5] unit | f32[5] positive",
     R"([true, 1e-5, [true, false, true]])"},
    {"aten.native_group_norm.default", "f32[6,4,2] | f32[4] | f32[4]", R"([6, 4, 2, 2, 1e-5])"},
    {"aten.native_group_norm.default", "f32[5,6] | none | none", R"([5, 6, 1, 3, 1e-5])"},
    {"aten.native_layer_norm.default", "f32[4,6] | f32[6] | f32[6]", R"([[6], 1e-5])"},
    {"aten.native_layer_norm.default", "f32[6,5,4] | none | none", R"([[5, 4], 1e-5])"},
    {"aten.native_layer_norm.default", "f32[6,2,4] | f32[4] | none", R"([[4], 1e-5])"},
    {"aten.native_layer_norm_backward.default",
     "f32[4,6] | f32[4,6] | f32[4,1] unit | f32[4,1] positive | f32[6] | f32[6]",
     R"([[6], [true, true, true]])"},
    {"aten.native_layer_norm_backward.default",
     "f32[6,5] | f32[6,5] | f32[6,1] unit | f32[6,1] positive | none | none",
     R"([[5], [true, true, true]])"},
    {"aten.native_layer_norm_backward.default",
     "f32[6,2,4] | f32[6,2,4] | f32[6,2,1] unit | f32[6,2,1] positive | f32[4] | f32[4]",
     R"([[4], [true, false, true]])"},
};

}  // namespace norm_samples

OP_SAMPLES(norm){norm_samples::kSamples};

}  // namespace shardlab
