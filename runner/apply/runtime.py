# ----- What the steps above are written in ----------------------------------------------------------


def chunk(extent, pieces, index):
    """The rows of piece `index` where `extent` rows are cut as torch.chunk cuts them; the last pieces may be empty."""
    size = -(-extent // pieces)
    return range(min(extent, size * index), min(extent, size * (index + 1)))


def strided_rows(extent, factor, pieces, index):
    """The rows of piece `index` of a _StridedShard: its chunk of each of `factor` larger chunks."""
    wholes = [chunk(extent, factor, each) for each in range(factor)]
    return [whole.start + row for whole in wholes for row in chunk(len(whole), pieces, index)]


def padded(x, dim, extent):
    """The tensor with zeros behind it, so that it is `extent` long in one dim."""
    missing = extent - x.shape[dim]
    if missing == 0:
        return x
    zeros = x.new_zeros([*x.shape[:dim], missing, *x.shape[dim + 1 :]])
    return torch.cat([x, zeros], dim)


class Ranks:
    """This rank's place in the mesh. Its methods are the steps of the plan, on the tensors that the ranks hold.

    `over` is the mesh dim whose ranks take part, and `dim` the tensor dim. `extent` is given where the ranks may hold
    shards of different lengths: it is the length of all of them together. `factor` is that of a _StridedShard.
    """

    REDUCTIONS = {
        "sum": dist.ReduceOp.SUM,
        "avg": dist.ReduceOp.SUM,  # and then divided, since not every backend has AVG
        "max": dist.ReduceOp.MAX,
        "min": dist.ReduceOp.MIN,
        "product": dist.ReduceOp.PRODUCT,
    }

    def __init__(self, mesh):
        self.mesh = mesh
        self.sizes = tuple(mesh.shape)
        self.place = tuple(mesh.get_coordinate())
        self.groups = [mesh.get_group(over) for over in range(mesh.ndim)]
        self.device = torch.device(mesh.device_type)
        if mesh.device_type != "cpu":
            self.device = torch.device(mesh.device_type, torch.get_device_module(mesh.device_type).current_device())

    def without_autocast(self):
        """Runs operators in the dtypes that the plan has for them, whatever torch.autocast says around the step."""
        return torch.autocast(self.device.type, enabled=False)

    def on(self, device):
        """The same ranks, which put tensors on another device."""
        other = copy.copy(self)
        other.device = torch.device(device)
        return other

    def all_gather(self, x, over, dim, extent=None, factor=1):
        """S(dim) to R."""
        ranks = self.sizes[over]
        if ranks == 1:
            return x
        extent = x.shape[dim] * ranks if extent is None else extent
        rows = [strided_rows(extent, factor, ranks, rank) for rank in range(ranks)]
        longest = max(map(len, rows))
        part = padded(x, dim, longest).movedim(dim, 0).contiguous()
        whole = part.new_empty([ranks * longest, *part.shape[1:]])
        dist.all_gather_single(whole, part, group=self.groups[over])
        if factor > 1 or ranks * longest != extent:
            place = {row: rank * longest + i for rank in range(ranks) for i, row in enumerate(rows[rank])}
            whole = whole[torch.tensor([place[row] for row in range(extent)], device=x.device, dtype=torch.int64)]
        return whole.movedim(0, dim).contiguous()

    def all_reduce(self, x, over, op="sum"):
        """P(op) to R."""
        ranks = self.sizes[over]
        if ranks == 1:
            return x
        x = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(x, self.REDUCTIONS[op], group=self.groups[over])
        return x / ranks if op == "avg" else x

    def reduce_scatter(self, x, over, dim, op="sum", factor=1):
        """P(op) to S(dim)."""
        ranks, rank = self.sizes[over], self.place[over]
        if ranks == 1:
            return x
        rows = [strided_rows(x.shape[dim], factor, ranks, each) for each in range(ranks)]
        longest = max(map(len, rows))
        x = x.movedim(dim, 0)
        if factor > 1 or ranks * longest != x.shape[0]:
            x = torch.cat([padded(x[each], 0, longest) for each in rows])
        part = x.new_empty([longest, *x.shape[1:]])
        dist.reduce_scatter_single(part, x.contiguous(), self.REDUCTIONS[op], group=self.groups[over])
        part = part[: len(rows[rank])].movedim(0, dim).contiguous()
        return part / ranks if op == "avg" else part

    def all_to_all(self, x, over, dim, to, extent=None):
        """S(dim) to S(to)."""
        ranks, rank = self.sizes[over], self.place[over]
        if ranks == 1:
            return x
        extent = x.shape[dim] * ranks if extent is None else extent
        here, there = len(chunk(extent, ranks, 0)), len(chunk(x.shape[to], ranks, 0))
        mine = len(chunk(x.shape[to], ranks, rank))
        x = padded(padded(x, dim, here), to, ranks * there)
        sent = torch.stack(x.tensor_split(ranks, to)).contiguous()
        got = torch.empty_like(sent)
        dist.all_to_all_single(got, sent, group=self.groups[over])
        parts = [got[each].narrow(dim, 0, len(chunk(extent, ranks, each))) for each in range(ranks)]
        return torch.cat(parts, dim).narrow(to, 0, mine).contiguous()

    def cut(self, x, over, dim, factor=1):
        """R to S(dim): each rank keeps its rows."""
        ranks, rank = self.sizes[over], self.place[over]
        if factor > 1:
            rows = strided_rows(x.shape[dim], factor, ranks, rank)
            return x.index_select(dim, torch.tensor(rows, device=x.device, dtype=torch.int64))
        rows = chunk(x.shape[dim], ranks, rank)
        return x.narrow(dim, rows.start, len(rows)).contiguous()

    def part(self, x, over, op="sum"):
        """R to P(op): what each rank contributes to the same value."""
        if op != "sum" or self.sizes[over] == 1:
            return x
        if x.is_floating_point() or x.is_complex():
            return x / self.sizes[over]
        return x if self.place[over] == 0 else torch.zeros_like(x)

    def cut_all(self, x, placements):
        """What this rank holds of a whole tensor in this layout."""
        for over, placement in enumerate(placements):
            if not placement.is_replicate():
                x = self.cut(x, over, placement.dim, getattr(placement, "split_factor", 1))
        return x

    def shape(self, shape, placements):
        """The shape that this rank holds of a tensor in this layout."""
        shape = list(shape)
        for over, placement in enumerate(placements):
            if isinstance(placement, (Shard, _StridedShard)):
                factor = getattr(placement, "split_factor", 1)
                extent = shape[placement.dim]
                shape[placement.dim] = len(strided_rows(extent, factor, self.sizes[over], self.place[over]))
        return shape

    def rows(self, extent, *overs):
        """The rows that this rank holds where these mesh dims cut `extent` rows one after another."""
        rows = range(extent)
        for over in overs:
            part = chunk(len(rows), self.sizes[over], self.place[over])
            rows = rows[part.start : part.stop]
        return rows

    def drawn(self, placements, draw):
        """Random numbers: the same ones on ranks that hold the same rows, and others on all others.

        Every rank has to be seeded alike (torch.manual_seed).
        """
        seed = int(torch.randint(2**62, ()))
        for over, placement in enumerate(placements):
            if isinstance(placement, (Shard, _StridedShard)):
                seed = (seed * 6364136223846793005 + self.place[over] + 1) % 2**63
        devices = [] if self.device.type == "cpu" else [self.device]
        with torch.random.fork_rng(devices, device_type=self.device.type if devices else "cuda"):
            torch.manual_seed(seed)
            return draw()

    def tensor(self, local, layout):
        """The DTensor of which this rank holds `local`."""
        strides, stride = [], 1
        for extent in reversed(layout.shape):
            strides.insert(0, stride)
            stride *= max(extent, 1)
        return DTensor.from_local(
            local.contiguous(),
            self.mesh,
            layout.placements,
            run_check=False,
            shape=torch.Size(layout.shape),
            stride=tuple(strides),
        )

    def local(self, tensor, layout, name):
        """What this rank holds of a DTensor, or of a tensor that all ranks have, in the layout of the plan."""
        if tuple(tensor.shape) != tuple(layout.shape) or tensor.dtype != layout.dtype:
            raise ValueError(
                f"{name}: found {tensor.dtype} of shape {tuple(tensor.shape)}; valid: {layout.dtype} of shape "
                f"{tuple(layout.shape)}, for which the plan was made"
            )
        if not isinstance(tensor, DTensor):
            return self.cut_all(tensor.detach().to(self.device), layout.placements)
        if not torch.is_inference_mode_enabled():  # in which autograd sees nothing, and DTensor has no detach
            tensor = tensor.detach()
        if tensor.device_mesh != self.mesh:
            raise ValueError(f"{name}: found a DTensor on {tensor.device_mesh}; valid: one on {self.mesh}")
        if tuple(tensor.placements) == tuple(layout.placements):
            return tensor.to_local()
        if any(isinstance(each, _StridedShard) for each in (*tensor.placements, *layout.placements)):
            return self.cut_all(tensor.full_tensor(), layout.placements)
        return tensor.redistribute(placements=layout.placements).to_local()


def tensors(results):
    """The results of an operator without those that are no tensors."""
    return [each for each in results if isinstance(each, torch.Tensor)]


def leaves(value, name):
    """The tensors in nested arguments, each with the name that the plan has for it."""
    if isinstance(value, collections.abc.Mapping):
        pairs = [(f"{name}.{key}", each) for key, each in value.items()]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = [(f"{name}.{key}", each) for key, each in zip(value._fields, value)]
    elif isinstance(value, (list, tuple)):
        pairs = [(f"{name}[{i}]", each) for i, each in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = [(f"{name}.{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    else:
        return [(name, value)] if isinstance(value, torch.Tensor) else []
    return [leaf for key, each in pairs for leaf in leaves(each, key)]


def inputs_of(signature, args, kwargs):
    """The tensors among the arguments of forward, in the order of INPUTS."""
    names = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(len(args) - len(names))]
            break
        names.append(parameter.name)
    names += [f"args[{i}]" for i in range(len(names), len(args))]
    found = [leaf for name, value in [*zip(names, args), *kwargs.items()] for leaf in leaves(value, name)]
    if not INPUTS_HAVE_NAMES:  # they are the tensors in the order of the call
        given = dict(zip(INPUTS, (tensor for _, tensor in found)))
        found = []
    else:
        given = {name: tensor for name, tensor in found if name in INPUTS}
    for name, tensor in found:
        if not any(tensor is each for each in given.values()):
            raise ValueError(f"{name}: found a tensor; valid: {', '.join(INPUTS)}, for which the plan was made")
    for name in INPUTS:
        if name not in given:
            raise ValueError(f"{name}: found no tensor; valid: {', '.join(INPUTS)}, for which the plan was made")
    return [given[name] for name in INPUTS]


class Outputs(dict):
    """Outputs with names, also as attributes and by their place, as the outputs of Hugging Face's models."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(f"the outputs have no {name}; they have {', '.join(self)}")

    def __getitem__(self, key):
        if isinstance(key, int) and str(key) in self:  # forward returned a dictionary with numbers as keys
            return super().__getitem__(str(key))
        return tuple(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)


def nested(values):
    """What forward returns. A tuple stands for a list too, and None for what is no tensor."""
    if list(values) == [""]:
        return values[""]
    parts = {}
    for path, value in values.items():
        head, rest = re.fullmatch(r"(\.[^.\[]+|\[\d+\])(.*)", path, re.DOTALL).groups()
        parts.setdefault(head, {})[rest] = value
    if all(head.startswith("[") for head in parts):
        found = {int(head[1:-1]): nested(inner) for head, inner in parts.items()}
        return tuple(found.get(i) for i in range(max(found) + 1))
    return Outputs((head.strip(".[]"), nested(inner)) for head, inner in parts.items())
