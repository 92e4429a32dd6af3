"""torchtitan 0.3.0 with `spmd_backend="full_dtensor"`: parameters, activations and inputs are DTensors on one mesh of all dims.

The step is that of torchtitan.trainer.Trainer (`__init__`, `post_dataloading_process`, `_forward_backward_body` and
`train_step`), without its data loader, metrics and checkpoints. The model is cut to a few layers, since every further
layer asks the same. Its attention kernel, a compiled FlexAttention, works on local tensors, of which DTensor is asked
nothing; it gives way to one of the same shape, since it cannot be compiled for fake tensors.
"""

from unittest import mock

import torch
from fake_tensors import balanced_top_k, integer_histogram
from public_suites.cuda_kernels import cuda_kernels



def prepare(values, configuration, layers, batch, seqlen, **degrees):
    """The training step of one of torchtitan's configurations, such as `llama3.llama3_8b`, ready to run."""
    values.answer(torch.ops.aten.topk.default, balanced_top_k)
    values.answer(torch.ops.aten.histc.default, integer_histogram)
    with mock.patch("torch._utils._get_available_device_type", lambda: "cpu"):  # torchtitan asks once, when imported
        import torchtitan.tools.utils as tools
    from importlib import import_module

    from torchtitan.config import TORCH_DTYPE_MAP
    from torchtitan.distributed import full_dtensor, ParallelDims, utils as dist_utils
    from torchtitan.models.common.attention import FlexAttention

    def attention(self, q_BLNH, k_BLNH, v_BLNH, **_):
        groups = q_BLNH.shape[2] // k_BLNH.shape[2]
        keys, values = (tensor.repeat_interleave(groups, 2) for tensor in (k_BLNH, v_BLNH))
        return values + (q_BLNH * keys).sum(-1, keepdim=True)

    mock.patch.object(FlexAttention, "forward", attention).start()  # before torchtitan wraps it
    family, name = configuration.split(".")
    config = getattr(import_module(f"torchtitan.models.{family}.config_registry"), name)()
    config.parallelism.spmd_backend = "full_dtensor"
    config.training.local_batch_size, config.training.seq_len = batch, seqlen
    for key, degree in degrees.items():
        setattr(config.parallelism, key, degree)
    dims = ParallelDims.from_config(config.parallelism, torch.distributed.get_world_size())
    dims.build_mesh()
    dist_utils.set_spmd_backend(config.parallelism.spmd_backend)
    spec = config.model_spec
    spec.model.layers = spec.model.layers[:layers]
    spec.model.update_from_config(config=config)
    with torch.device("meta"), tools.set_default_dtype(TORCH_DTYPE_MAP[config.training.dtype]):
        built = spec.model.build()
    loss_function = config.loss.build(compile_config=config.compile)
    model = spec.parallelize_fn(
        built, parallel_dims=dims, training=config.training, parallelism=config.parallelism,
        compile_config=config.compile, ac_config=config.activation_checkpoint, dump_folder=config.dump_folder)
    model.to_empty(device="cpu")
    # The weights are not drawn: their values play no part, and drawing them reads values.
    with torch.no_grad(), mock.patch("torch.nn.init._no_grad_trunc_normal_", lambda tensor, *_, **__: tensor):
        model.init_weights(buffer_device=None)
    model.train()
    if hasattr(loss_function, "set_lm_head"):
        loss_function.set_lm_head(model.lm_head)
        model._skip_lm_head = True
    optimizers = config.optimizer.build(model_parts=[model])
    context = dist_utils.get_spmd_context(parallel_dims=dims, spmd_typechecking=False)

    def step():
        tokens = torch.arange(batch * (seqlen + 1)).reshape(batch, seqlen + 1) % 1000
        positions = torch.arange(seqlen).expand(batch, seqlen)
        inputs, labels, extra = full_dtensor.parallelize_inputs(
            dims, tokens[:, :-1], tokens[:, 1:], {"positions": positions})
        optimizers.zero_grad(set_to_none=True)
        valid = torch.tensor(float(batch * seqlen * dims.dp_shard))
        with context(), cuda_kernels():
            loss, _ = loss_function(model(inputs, **extra), labels, valid, positions=extra["positions"])
            loss.backward()
        dist_utils.clip_grad_norm_(list(model.parameters()), config.training.max_norm, foreach=True,
                                   pp_mesh=None, ep_enabled=dims.ep_enabled)
        optimizers.step()

    return step
