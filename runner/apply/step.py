

def before_update(saved, buffers, parameters, updates):
    """The saved tensors, with copies of those that share memory with a buffer that is about to change."""
    changing = {(buffers | parameters)[name].untyped_storage().data_ptr() for name in updates}
    return [each.clone() if each.untyped_storage().data_ptr() in changing else each for each in saved]


class Step(torch.autograd.Function):
    """forward() and backward() above, between DTensors and what the ranks hold of them."""

    @staticmethod
    def forward(ctx, ranks, *sources):
        parameters, buffers, inputs = by_kind(ranks, sources)
        with ranks.without_autocast():
            outputs, updates, saved = forward(ranks, parameters, buffers, inputs)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(*before_update(saved, buffers, parameters, updates))
        update(buffers, parameters, updates)
        ctx.ranks = ranks
        ctx.set_materialize_grads(False)
        results = {name: ranks.tensor(local, OUTPUTS[name]) for name, local in outputs.items()}
        ctx.mark_non_differentiable(*(result for name, result in results.items() if name not in TANGENTS))
        return tuple(results.values())

    @staticmethod
    def backward(ctx, *gradients):
        if torch.is_grad_enabled():  # PyTorch runs a backward pass with gradients only for create_graph=True
            raise RuntimeError("An applied module has no second derivatives. Found a backward pass with "
                               "create_graph=True; valid: create_graph=False.")
        ranks = ctx.ranks
        given = dict(zip(OUTPUTS, gradients))
        tangents = {}
        for name, layout in TANGENTS.items():
            if given[name] is None:
                shape = ranks.shape(layout.shape, layout.placements)
                tangents[name] = torch.zeros(shape, dtype=layout.dtype, device=ranks.device)
            else:
                tangents[name] = ranks.local(given[name], layout, f"the gradient of {name}")
        with ranks.without_autocast():
            of_parameters, of_inputs = backward(ranks, ctx.saved_tensors, tangents)
        results = [of_parameters.get(name) for name in PARAMETERS]
        results += [None] * len(BUFFERS)
        results += [of_inputs.get(name) for name in INPUTS]
        layouts = [PARAMETERS[name] for name in PARAMETERS] + [None] * len(BUFFERS) + list(INPUTS.values())
        return None, *(None if each is None else ranks.tensor(each, layout) for each, layout in zip(results, layouts))


def run_step(ranks, sources):
    """The outputs for these parameters, buffers and inputs."""
    return Step.apply(ranks, *sources)
