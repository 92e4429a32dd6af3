

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


def own_part(ranks, tensor, layout, name):
    """What this rank holds of a parameter or buffer, in memory of its own."""
    if tensor.is_meta and not isinstance(tensor, DTensor):
        ranks = ranks.on("meta")
    return ranks.local(tensor, layout, name).clone()


def distribute(ranks, model):
    """Puts a DTensor in the place of each parameter and buffer, under all of its names. Returns tensors that are
    plain attributes of modules, which stay as they are, as DTensors."""
    plain = {}
    for kind, table in (("parameter", PARAMETERS), ("buffer", BUFFERS)):
        there = dict(model.named_parameters() if kind == "parameter" else model.named_buffers())
        for name in there:
            if kind == "parameter" and name not in table:
                raise ValueError(f"{name}: found a parameter that the plan lacks; valid: {', '.join(table)}")
        for name, layout in table.items():
            tensor = there.get(name)
            if tensor is None and kind == "buffer":
                tensor = plain_attribute(model, name)
            if tensor is None:
                made = "; a tensor that no module holds has to be a buffer" if kind == "buffer" else ""
                valid = f"the model of the plan{made}"
                raise ValueError(f"{name}: found no {kind} of this name in the model; valid: {valid}")
            made = ranks.tensor(own_part(ranks, tensor, layout, name), layout)
            if name not in there:
                plain[name] = made
                continue
            if isinstance(tensor, nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            for module in model.modules():
                for names in (module._parameters, module._buffers):
                    names.update({key: made for key, value in names.items() if value is tensor})
    return plain


def plain_attribute(model, name):
    """A tensor that a module holds as a plain attribute, or in a list or dictionary there, or None."""
    return held_tensor(model, name.split("."))


def held_tensor(found, words):
    """The tensor that these words of a name lead to, or None. The key of a dictionary may hold several of them."""
    if not words:
        return found if isinstance(found, torch.Tensor) else None
    for count in range(1, len(words) + 1):
        key, inner = ".".join(words[:count]), None
        if isinstance(found, dict):
            inner = {str(each): value for each, value in found.items()}.get(key)
        elif isinstance(found, (list, tuple)):
            inner = dict(enumerate(found)).get(int(key)) if key.isdigit() else None
        elif count == 1:
            inner = getattr(found, key, None)
        tensor = None if inner is None else held_tensor(inner, words[count:])
        if tensor is not None:
            return tensor
    return None


class Forward:
    """The forward of a module that runs the plan. A copy of the module runs it with the copy's parameters."""

    def __init__(self, module, run, signature):
        self.module, self.run, self.__signature__ = module, run, signature
        self.__name__ = "forward"

    def __call__(self, *args, **kwargs):
        return self.run(self.module, *args, **kwargs)

    def __deepcopy__(self, copies):
        return Forward(copy.deepcopy(self.module, copies), self.run, self.__signature__)


def apply(model, mesh):
    """Distributes the module's parameters and buffers in place, and makes its forward and backward run the plan.

    The parameters are new objects, so that an optimizer is made afterwards. Every rank must have the same parameters,
    buffers and inputs, unless these are DTensors. Returns the module.
    """
    if tuple(mesh.shape) != MESH:
        raise ValueError(f"mesh: found a DeviceMesh of shape {tuple(mesh.shape)}; valid: {MESH}, which the plan is for")
    ranks = Ranks(mesh)
    plain = distribute(ranks, model)
    signature = inspect.signature(model.forward)

    def run(module, *args, **kwargs):
        held = {**dict(module.named_parameters()), **dict(module.named_buffers()), **plain}
        sources = [held[name] for name in [*PARAMETERS, *BUFFERS]]
        for tensor in inputs_of(signature, args, kwargs):
            if tensor.requires_grad and not isinstance(tensor, DTensor):  # so that its gradient is a whole tensor too
                tensor = DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)
            sources.append(tensor)
        results = run_step(ranks, sources)
        return nested({name.removeprefix("output"): result for name, result in zip(OUTPUTS, results)})

    model.forward = Forward(model, run, signature)
    return model
