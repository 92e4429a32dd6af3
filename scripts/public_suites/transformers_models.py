"""Hugging Face transformers 5.23.0: one training step of a model under the plans that it ships for itself.

`DistributedConfig` names the degrees, and `PreTrainedModel.maybe_distribute_model` applies the model's own tensor
parallel, expert parallel and FSDP plans, as `from_pretrained(..., distributed_config=...)` does before it loads weights.
The configuration is the published one, cut to a few layers, since every further layer asks the same.
"""

from collections import defaultdict

import torch
from fake_tensors import balanced_top_k, integer_histogram


LLAMA3_8B = dict(  # https://huggingface.co/meta-llama/Meta-Llama-3-8B/blob/main/config.json
    architecture="LlamaForCausalLM", vocab_size=128256, hidden_size=4096, intermediate_size=14336,
    num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192, rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
QWEN3_30B_A3B = dict(  # https://huggingface.co/Qwen/Qwen3-30B-A3B/blob/main/config.json
    architecture="Qwen3MoeForCausalLM", vocab_size=151936, hidden_size=2048, intermediate_size=6144,
    moe_intermediate_size=768, num_attention_heads=32, num_key_value_heads=4, head_dim=128, num_experts=128,
    num_experts_per_tok=8, norm_topk_prob=True, decoder_sparse_step=1, max_position_embeddings=40960,
    rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})


def prepare(values, settings, layers, batch, seqlen, **degrees):
    """The training step of a model, ready to run."""
    import transformers
    from torch.distributed.tensor import DTensor
    from transformers.distributed import DistributedConfig

    values.answer(torch.ops.aten.topk.default, balanced_top_k)
    values.answer(torch.ops.aten.histc.default, integer_histogram)
    settings = dict(globals()[settings])
    model_class = getattr(transformers, settings.pop("architecture"))
    config = model_class.config_class(**settings, num_hidden_layers=layers, use_cache=False, attn_implementation="sdpa")
    distributed, _, meshes = model_class.prepare_distribute_model(DistributedConfig(**degrees))
    model = model_class._from_config(config, dtype=torch.bfloat16)
    model = model_class.maybe_distribute_model(model, distributed, meshes)
    model.train()
    # Two parts of transformers.Trainer: parameters of one mesh make one group, and gradients are clipped mesh by mesh.
    by_mesh = defaultdict(list)
    for parameter in model.parameters():
        by_mesh[parameter.device_mesh if isinstance(parameter, DTensor) else None].append(parameter)
    optimizer = torch.optim.AdamW([{"params": group} for group in by_mesh.values()], lr=1e-5, fused=True)

    def step():
        tokens = torch.arange(batch * seqlen).reshape(batch, seqlen) % 1000
        model(input_ids=tokens, labels=tokens).loss.backward()
        transformers.Trainer._mixed_mesh_grad_norm(None, model, 1.0)
        optimizer.step()

    return step
