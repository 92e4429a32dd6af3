

@torch.no_grad()
def run_step(ranks, sources):
    """The outputs for these parameters, buffers and inputs."""
    parameters, buffers, inputs = by_kind(ranks, sources)
    with ranks.without_autocast():
        outputs, updates = forward(ranks, parameters, buffers, inputs)
    update(buffers, parameters, updates)
    return [ranks.tensor(outputs[name], layout) for name, layout in OUTPUTS.items()]
