

def by_kind(ranks, sources):
    """What this rank holds of parameters, buffers and inputs, by name."""
    tables, at, found = (PARAMETERS, BUFFERS, INPUTS), 0, []
    for table in tables:
        each = sources[at : at + len(table)]
        found.append({name: ranks.local(x, table[name], name) for name, x in zip(table, each)})
        at += len(table)
    return found


def update(buffers, parameters, updates):
    """Gives buffers, such as the running statistics of a BatchNorm, the values that they have after the step."""
    for name, value in updates.items():
        held = buffers[name] if name in buffers else parameters[name]
        held.copy_(value)


def place_of(model, name):
    """The module that holds a tensor, and the tensor's name there."""
    path, _, key = name.rpartition(".")
    return model.get_submodule(path), key


def distribute(ranks, model):
    """Puts a DTensor in the place of each parameter and buffer, under all of its names."""
    held = {}
    for kind, table in (("parameter", PARAMETERS), ("buffer", BUFFERS)):
        named = model.named_parameters if kind == "parameter" else model.named_buffers
        there = dict(named())
        for name in there:
            if name not in table and (kind == "parameter" or there[name] is not None):
                if kind == "parameter":
                    raise ValueError(f"{name}: found a parameter that the plan lacks; valid: {', '.join(table)}")
        for name, layout in table.items():
            module, key = place_of(model, name)
            tensor = there.get(name, getattr(module, key, None))
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(f"{name}: found no {kind} of this name in the model; valid: the model of the plan")
            local = tensor.detach()
            if not isinstance(tensor, DTensor):
                if local.device.type != "meta":
                    local = local.to(ranks.device)
                found = (tuple(local.shape), local.dtype)
                if found != (tuple(layout.shape), layout.dtype):
                    raise ValueError(
                        f"{name}: found {found[1]} of shape {found[0]}; valid: {layout.dtype} of shape "
                        f"{tuple(layout.shape)}, for which the plan was made"
                    )
                local = ranks.cut_all(local, layout.placements).clone()
            else:
                local = ranks.local(tensor, layout, name)
            made = ranks.tensor(local, layout)
            if isinstance(tensor, nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            elif name not in there:  # a plain attribute, which stays as it is
                held[name] = made
                continue
            for each in model.modules():
                for names in (each._parameters, each._buffers):
                    names.update({key: made for key, value in names.items() if value is tensor})
    return held


def apply(model, mesh):
    """Distributes the module's parameters and buffers in place, and makes its forward and backward run the plan.

    The parameters are new objects, so that an optimizer is made afterwards. Every rank must have the same parameters,
    buffers and inputs, unless these are DTensors. Returns the module.
    """
    if tuple(mesh.shape) != MESH:
        raise ValueError(f"mesh: found a DeviceMesh of shape {tuple(mesh.shape)}; valid: {MESH}, which the plan is for")
    ranks = Ranks(mesh)
    held = distribute(ranks, model)
    signature = inspect.signature(model.forward)

    def find(name):
        if name in held:
            return held[name]
        module, key = place_of(model, name)
        return getattr(module, key)

    def run(*args, **kwargs):
        sources = [find(name) for name in [*PARAMETERS, *BUFFERS]]
        sources += inputs_of(signature, args, kwargs)
@CALL@
        return nested({name.removeprefix("output"): result for name, result in zip(OUTPUTS, results)})

    model.forward = run
    return model
