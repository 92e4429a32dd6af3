"""NVIDIA NeMo Automodel 0.7.0: one training step of transformers' Llama under NeMo's tensor and sequence parallel plan.

`fsdp2_strategy_parallelize` applies the plan (`optimized_tp_plans.py`, `sequence_parallel=True`), and then FSDP2. The
model is transformers' own; its configuration is the published one of Llama 3 8B, cut to a few layers, since every
further layer asks the same.
"""

import torch
from public_suites.transformers_models import LLAMA3_8B



def prepare(values, layers, batch, seqlen, fsdp, tp):
    """The training step of the model, ready to run."""
    import transformers
    from nemo_automodel.components.distributed.parallelizer import fsdp2_strategy_parallelize
    from nemo_automodel.components.loss.masked_ce import MaskedCrossEntropy
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy

    settings = {key: value for key, value in LLAMA3_8B.items() if key != "architecture"}
    config = transformers.LlamaConfig(**settings, num_hidden_layers=layers, use_cache=False, attn_implementation="sdpa")
    mesh = init_device_mesh("cpu", (1, 1, fsdp, 1, tp), mesh_dim_names=("pp", "dp_replicate", "dp_shard", "cp", "tp"))
    mesh["dp_replicate", "dp_shard"]._flatten("dp")
    mesh["dp_shard", "cp"]._flatten("dp_shard_cp")
    mesh["dp_replicate", "dp_shard", "cp"]._flatten("dp_cp")
    model = transformers.LlamaForCausalLM._from_config(config, dtype=torch.bfloat16)
    model = fsdp2_strategy_parallelize(
        model, mesh, sequence_parallel=True,
        mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    model.train()
    loss_function = MaskedCrossEntropy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True)

    def step():
        tokens = torch.arange(batch * seqlen).reshape(batch, seqlen) % 1000
        loss_function(model(input_ids=tokens).logits, tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    return step
