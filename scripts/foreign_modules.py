"""Small modules of transformers, diffusers, timm, torchvision and PyTorch, for scripts/try_modules.py.

FACTORIES has them by name. Each factory takes no arguments and returns (module, positional inputs), as --factory of
scripts/export_program.py wants it: foreign_modules:t5. In these names "_" stands for "-". The extents are short, so that a training step can be run on virtual ranks with data. The classes are taken as their packages have
them; the configurations say no more than makes them small, and turn off caches of keys and values.
"""

import functools
import importlib

import torch

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 128}
FEED_FORWARD = {"intermediate_size": 128}
DECODER = {**SMALL, **FEED_FORWARD, "use_cache": False}
GROUPED = {**DECODER, "num_key_value_heads": 4, "head_dim": 8}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def tokens(samples, length):
    """A batch of token ids."""
    return torch.zeros(samples, length, dtype=torch.int64)


def image(samples=8, side=64):
    """A batch of pictures."""
    return torch.zeros(samples, 3, side, side)


class Named(torch.nn.Module):
    """Calls a module with keyword arguments, and returns the one result that a loss would be computed from."""

    RESULTS = ("logits", "last_hidden_state", "pred_boxes", "sample")

    def __init__(self, module, names):
        super().__init__()
        self.module = module
        self.names = names

    def forward(self, *inputs):
        """The first of RESULTS that the module returns, or else its first result."""
        results = self.module(**dict(zip(self.names, inputs, strict=True)))
        for name in self.RESULTS:
            if hasattr(results, "get") and results.get(name) is not None:
                return results[name]
        return results[0]


class Recurrent(torch.nn.Module):
    """An LSTM between an embedding and a head."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(128, 32)
        self.lstm = torch.nn.LSTM(32, 32, 2, batch_first=True)
        self.head = torch.nn.Linear(32, 128)

    def forward(self, ids):
        """The logits of every position."""
        return self.head(self.lstm(self.embedding(ids))[0])


def of_transformers(name, config, inputs, names=()):
    """A factory of the class `name` of transformers, with the configuration class (before "For...", or named)."""
    def make():
        package = importlib.import_module("transformers")
        settings = dict(config)
        config_class = settings.pop("config_class", None) or name.split("For", maxsplit=1)[0] + "Config"
        module = getattr(package, name)(getattr(package, config_class)(**settings))
        return (Named(module, names) if names else module), inputs()
    return make


def of_package(package, function, inputs, *args, names=(), **settings):
    """A factory that calls a function or class of a package."""
    def make():
        found = functools.reduce(getattr, function.split("."), importlib.import_module(package))
        module = found(*args, **settings)
        return (Named(module, names) if names else module), inputs()
    return make


def batch(length=32, samples=8):
    """Inputs of a language model."""
    return lambda: (tokens(samples, length),)


def pictures():
    """Inputs of a model of pictures."""
    return (image(),)


TWO_SEQUENCES = ("input_ids", "decoder_input_ids")
VISION = {"hidden_size": 64, **FEED_FORWARD, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64,
          "patch_size": 16}
UNET_BLOCKS = {"down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
               "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}

FACTORIES = {
    "llama": of_transformers("LlamaForCausalLM", GROUPED, batch()),
    "llama4": of_transformers("Llama4ForCausalLM", {**GROUPED, "intermediate_size": 64, "intermediate_size_mlp": 128,
                                                    "num_local_experts": 4, "config_class": "Llama4TextConfig"}, batch()),
    "mixtral": of_transformers("MixtralForCausalLM", {**GROUPED, "num_local_experts": 8}, batch()),
    "qwen3-moe": of_transformers("Qwen3MoeForCausalLM", {**GROUPED, **EXPERTS}, batch()),
    "gemma3": of_transformers("Gemma3ForCausalLM", {**GROUPED, "config_class": "Gemma3TextConfig"}, batch()),
    "deepseek-v3": of_transformers("DeepseekV3ForCausalLM", {
        **DECODER, "num_key_value_heads": 8, "moe_intermediate_size": 32, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 128,
        "kv_lora_rank": 64}, batch()),
    "gpt-oss": of_transformers("GptOssForCausalLM", {**GROUPED, "intermediate_size": 64, "num_local_experts": 8,
                                                     "num_experts_per_tok": 2}, batch()),
    "olmo2": of_transformers("Olmo2ForCausalLM", DECODER, batch()),
    "gpt-neox": of_transformers("GPTNeoXForCausalLM", DECODER, batch()),
    "opt": of_transformers("OPTForCausalLM", {**SMALL, "ffn_dim": 128, "word_embed_proj_dim": 64, "use_cache": False},
                           batch()),
    "falcon": of_transformers("FalconForCausalLM", {**SMALL, "use_cache": False}, batch()),
    "bloom": of_transformers("BloomForCausalLM", {"hidden_size": 64, "n_layer": 2, "n_head": 8, "vocab_size": 128,
                                                  "use_cache": False}, batch()),
    "mamba": of_transformers("MambaForCausalLM", {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 128,
                                                  "use_cache": False}, batch()),
    "mamba2": of_transformers("Mamba2ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "num_heads": 16,
                                                    "head_dim": 8, "vocab_size": 128, "use_cache": False,
                                                    "n_groups": 1, "state_size": 64}, batch()),
    "zamba2": of_transformers("Zamba2ForCausalLM", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128, "use_cache": False,
        "layers_block_type": ["mamba", "hybrid"], "hybrid_layer_ids": [1], "num_mem_blocks": 1,
        "intermediate_size": 64, "n_mamba_heads": 8, "mamba_d_state": 32, "mamba_ngroups": 1,
        "attention_hidden_size": 64, "attention_head_dim": 16, "num_query_groups": 4}, batch(samples=4)),
    "rwkv": of_transformers("RwkvForCausalLM", {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 128,
                                                "use_cache": False, "context_length": 32}, batch(16)),
    "bert": of_transformers("BertForMaskedLM", {**SMALL, **FEED_FORWARD}, batch()),
    "deberta-v2": of_transformers("DebertaV2ForMaskedLM", {
        **SMALL, **FEED_FORWARD, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
        "max_position_embeddings": 64}, batch()),
    "esm": of_transformers("EsmForMaskedLM", {
        "vocab_size": 33, "hidden_size": 80, "num_hidden_layers": 2, "num_attention_heads": 20,
        **FEED_FORWARD, "pad_token_id": 1, "mask_token_id": 32, "position_embedding_type": "rotary"}, batch()),
    "t5": of_transformers("T5ForConditionalGeneration", {"d_model": 64, "d_kv": 8, "d_ff": 128, "num_layers": 2,
                                                         "num_heads": 8, "vocab_size": 128, "use_cache": False},
                          lambda: (tokens(8, 32), tokens(8, 16)), TWO_SEQUENCES),
    "bart": of_transformers("BartForConditionalGeneration", {
        "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 128,
        "use_cache": False}, lambda: (tokens(8, 32), tokens(8, 16)), TWO_SEQUENCES),
    "whisper": of_transformers("WhisperForConditionalGeneration", {
        "d_model": 32, "max_source_positions": 64, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "use_cache": False},
        lambda: (torch.zeros(8, 80, 128), tokens(8, 16)), ("input_features", "decoder_input_ids")),
    "wav2vec2": of_transformers("Wav2Vec2ForCTC", {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
        "mask_time_prob": 0.0, "layerdrop": 0.0}, lambda: (torch.zeros(8, 4000),)),
    "clip": of_transformers("CLIPModel", {
        "config_class": "CLIPConfig", "projection_dim": 64, "vision_config": {**VISION, "projection_dim": 64},
        "text_config": {**SMALL, **FEED_FORWARD, "num_attention_heads": 4, "projection_dim": 64}},
        lambda: (tokens(8, 16), image()), ("input_ids", "pixel_values")),
    "vit": of_transformers("ViTForImageClassification", VISION, pictures),
    "dinov2": of_transformers("Dinov2Model", {**VISION, "config_class": "Dinov2Config"}, pictures),
    "swin": of_transformers("SwinForImageClassification", {
        "image_size": 64, "window_size": 2, "depths": [2, 2], "num_heads": [4, 8], "embed_dim": 96}, pictures),
    "convnext": of_transformers("ConvNextForImageClassification", {"depths": [2, 2, 2, 2],
                                                                   "hidden_sizes": [16, 32, 32, 64]}, pictures),
    "segformer": of_transformers("SegformerForSemanticSegmentation", {}, lambda: (image(4, 32),)),
    "detr": of_transformers("DetrForObjectDetection", {"use_timm_backbone": False, "use_pretrained_backbone": False,
                                                       "encoder_layers": 1, "decoder_layers": 1},
                            lambda: (image(4, 32),)),
    "timm-vit": of_package("timm", "create_model", pictures, "vit_base_patch16_224", depth=2, img_size=64,
                           embed_dim=96, num_heads=4),
    "timm-mixer": of_package("timm", "create_model", pictures, "mixer_s32_224", img_size=64),
    "resnet18": of_package("torchvision", "models.resnet18", pictures),
    "efficientnet": of_package("torchvision", "models.efficientnet_b0", lambda: (image(8, 32),)),
    "unet": of_package("diffusers", "UNet2DConditionModel",
                       lambda: (torch.zeros(8, 4, 16, 16), torch.zeros(8), torch.zeros(8, 16, 32)),
                       names=("sample", "timestep", "encoder_hidden_states"), sample_size=16,
                       block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, **UNET_BLOCKS),
    "dit": of_package("diffusers", "DiTTransformer2DModel",
                      lambda: (torch.zeros(8, 4, 16, 16), tokens(8, 1)[:, 0], tokens(8, 1)[:, 0]),
                      names=("hidden_states", "timestep", "class_labels"), num_attention_heads=8,
                      attention_head_dim=16, num_layers=2, sample_size=16),
    "vae": of_package("diffusers", "AutoencoderKL", lambda: (image(8, 16),), names=("sample",),
                      block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2,
                      up_block_types=("UpDecoderBlock2D",) * 2),
    "transformer": of_package("torch", "nn.Transformer",
                              lambda: (torch.zeros(8, 16, 64), torch.zeros(8, 16, 64)), batch_first=True, d_model=64,
                              nhead=8, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=128),
    "lstm": lambda: (Recurrent(), (tokens(8, 8),)),
}


def __getattr__(name):
    """FACTORIES["gpt-oss"] as foreign_modules.gpt_oss."""
    for key, factory in FACTORIES.items():
        if key.replace("-", "_") == name:
            return factory
    raise AttributeError(f"module {__name__} has no attribute {name}")
