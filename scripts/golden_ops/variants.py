"""Forms that PyTorch derives from the ops of other families: those that write to `out` tensors, and in-place ones."""

import functools

import golden_ops
from golden_ops._call import DTYPES, bind
from golden_ops._schema import overload_of

WRITERS = ("_make_out_variant_strategy_fn", "_make_same_schema_variant_strategy_fn")
# PyTorch's own functions for the shapes of these results take no `out`, or other dtypes than the op itself has.
BROKEN = ("embedding_dense_backward.out", "grid_sampler_2d_backward.out", "grid_sampler_3d_backward.out",
          *(f"{name}.out" for name in ("native_batch_norm", "native_batch_norm_backward", "_batch_norm_with_update",
                                       "_native_batch_norm_legit", "_native_batch_norm_legit_no_training")),
          "_native_batch_norm_legit.no_stats_out")
COMPOSITE = ("diag.out",)  # has a strategy since 2.14, but PyTorch runs other ops in its place
LISTED_FULLY = ("foreach", "pointwise", "prims", "upsample", "variants")  # these families have the forms of their ops


@functools.cache
def drawn():
    """What draws the calls of each op of the other families, by the op's name."""
    families = [name for name in golden_ops.families() if name not in LISTED_FULLY]
    return {name: draw for family in families for name, (_, draw) in golden_ops.ops_of(family).items()}


@functools.cache
def bases():
    """The op that each derived form comes from, by names as `drawn` has them."""
    from torch.distributed.tensor import DTensor

    found = {}
    for op, info in DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.items():
        strategy = getattr(info, "func", info)
        if not any(writer in strategy.__qualname__ for writer in WRITERS):
            continue
        cells = dict(zip(strategy.__code__.co_freevars, strategy.__closure__))
        form, base = (str(one).removeprefix("aten.").removesuffix(".default")
                      for one in (op, cells["base_op"].cell_contents))
        if base in drawn() and form not in drawn() and form not in (*BROKEN, *COMPOSITE):
            found[form] = base
    return found


def results_of(base, tensors, args, own):
    """The results of a call, without their data, where tensors without a dtype have the dtype `own`; None if the call makes
    no sense or leaves a result out."""
    import torch

    def meta(tensor):
        if tensor is None:
            return None
        if isinstance(tensor, golden_ops.TensorList):
            return [meta(one) for one in tensor]
        dtype, shape = tensor if isinstance(tensor, tuple) else (own, tensor)
        return torch.empty(shape, dtype=getattr(torch, DTYPES[dtype]), device="meta")

    overload = overload_of(base)
    positional, keywords = bind(torch, overload, [meta(tensor) for tensor in tensors], args)
    try:
        results = overload(*positional, **keywords)
    except Exception:  # noqa: BLE001: some draws are refused on purpose
        return None
    results = results if isinstance(results, (tuple, list)) else [results]
    return results if all(isinstance(result, torch.Tensor) for result in results) else None


def form(rng, base, overload):
    """A call of the form: that of its base and, where it writes to `out` tensors, one of them for each result."""
    import torch

    name = base if overload == "default" else f"{base}.{overload}"
    of = bases()[name]
    short = {getattr(torch, long): dtype for dtype, long in DTYPES.items()}
    while True:
        tensors, args = drawn()[of](rng, *(of.split(".") if "." in of else (of, "default")))
        results, others = results_of(of, tensors, args, "f32"), results_of(of, tensors, args, "bf16")
        if results is None or others is None:
            continue
        if base.endswith("_"):
            return tensors, args
        count = sum("Tensor" in str(argument.type) for argument in overload_of(of)._schema.arguments)
        tensors = list(tensors) + [None] * (count - len(tensors))
        outs = [list(one.shape) if one.dtype != other.dtype else (short[one.dtype], list(one.shape))
                for one, other in zip(results, others)]
        return tensors + outs, args


OPS = {name: (1, form) for name in bases()}
