"""torchtitan 0.2.2: one training step under its own parallelize functions, with its loss, clipping and optimizer.

The step is that of torchtitan.train.Trainer (`__init__`, `forward_backward_step` and `train_step`), without its data
loader, metrics and checkpoints. The model is cut to a few layers, since every further layer asks the same.
"""

from dataclasses import replace
from unittest import mock

import torch
from fake_tensors import balanced_top_k, integer_histogram
from public_suites.cuda_kernels import cuda_kernels



def prepare(values, model, flavor, layers, batch, seqlen, changes=None, **degrees):
    """The training step of a model, ready to run."""
    values.answer(torch.ops.aten.topk.default, balanced_top_k)
    values.answer(torch.ops.aten.histc.default, integer_histogram)
    with mock.patch("torch._utils._get_available_device_type", lambda: "cpu"):  # torchtitan asks once, when imported
        import torchtitan.tools.utils as tools
    from torchtitan.components.loss import IGNORE_INDEX
    from torchtitan.config import ConfigManager, TORCH_DTYPE_MAP
    from torchtitan.distributed import ParallelDims, utils as dist_utils
    from torchtitan.distributed.context_parallel import prepare_context_parallel_input
    from torchtitan.models.moe import kernels
    from torchtitan.protocols.train_spec import get_train_spec

    config = ConfigManager().parse_args([f"--model.name={model}", f"--model.flavor={flavor}",
                                         f"--training.local_batch_size={batch}", f"--training.seq_len={seqlen}"])
    for name, degree in degrees.items():
        setattr(config.parallelism, name, degree)
    spec, parallelism = get_train_spec(model), config.parallelism
    dims = ParallelDims(
        dp_replicate=1, dp_shard=parallelism.data_parallel_shard_degree, cp=parallelism.context_parallel_degree,
        tp=parallelism.tensor_parallel_degree, pp=1, ep=parallelism.expert_parallel_degree,
        etp=parallelism.expert_tensor_parallel_degree, world_size=torch.distributed.get_world_size())
    dims.build_mesh()
    arguments = replace(spec.model_args[flavor], n_layers=layers, **(changes or {}))
    arguments.update_from_config(config)
    with torch.device("meta"), tools.set_default_dtype(TORCH_DTYPE_MAP[config.training.dtype]):
        built = spec.model_cls(arguments)
    parallel = spec.parallelize_fn(built, dims, config)
    parallel.to_empty(device="cpu")
    # The weights are not drawn: their values play no part, and drawing them reads values.
    with torch.no_grad(), mock.patch("torch.nn.init._no_grad_trunc_normal_", lambda tensor, *_, **__: tensor):
        parallel.init_weights(buffer_device=None)
    parallel.train()
    optimizers = spec.build_optimizers_fn([parallel], config.optimizer, dims)
    loss_function = spec.build_loss_fn(config, parallel_dims=dims)

    def step():
        tokens = torch.arange(batch * (seqlen + 1)).reshape(batch, seqlen + 1) % 1000
        inputs, labels = tokens[:, :-1], tokens[:, 1:]
        valid = (labels != IGNORE_INDEX).sum().float() * dims.dp_shard
        optimizers.zero_grad()
        extra = {}
        if dims.cp_enabled:
            inputs, labels, extra = prepare_context_parallel_input(
                inputs, labels, extra, dims.get_mesh("cp"), torch.device("cpu"),
                parallelism.context_parallel_load_balancer)
        uses_loss_parallel = dims.tp_enabled and not parallelism.disable_loss_parallel
        with (dist_utils.get_train_context(uses_loss_parallel)(), cuda_kernels(),
              mock.patch.object(kernels, "fill_indices_wrapper", kernels.fill_indices_cpu)):
            loss = loss_function(parallel(inputs, **extra), labels) / valid
            loss.backward()
        dist_utils.clip_grad_norm_(list(parallel.parameters()), config.training.max_norm, foreach=True,
                                   pp_mesh=None, ep_enabled=dims.ep_enabled)
        optimizers.step()

    return step
