"""A call of an operator: its name, its tensors and its other arguments, bound to the parameters of its schema."""

from .errors import RequestError
from .texts import DTYPES

NUMBERS = {"inf": float("inf"), "-inf": -float("inf"), "nan": float("nan")}

# The tensors of lengths in the backward of attention. Sequences of one length have none, although the schema asks for
# them, and the graphs that AutoParallel traces leave them out.
LENGTHS = ("cum_seq_q", "cum_seq_k")


class Parameter:
    """What `bind` asks of one parameter of an operator's schema."""

    def __init__(self, argument):
        kind = str(argument.type)
        self.name, self.keyword_only = argument.name, argument.kwarg_only
        self.has_default = argument.has_default_value()
        self.default = argument.default_value if self.has_default else None
        self.is_tensor = "Tensor" in kind
        self.may_be_none = "Optional" in kind
        self.is_optional = self.has_default or self.may_be_none
        self.is_list = kind.startswith(("List[", "Optional[List["))


class Operators:
    """Operators by name, with their parameters."""

    def __init__(self, torch):
        self.torch, self.found, self.parameters = torch, {}, {}

    def named(self, name):
        """The overload of a name such as aten.mm.default."""
        if name in self.found:
            return self.found[name]
        if not isinstance(name, str) or name.count(".") < 2:
            raise RequestError(f"An operator is named as aten.mm.default, not {name!r}.")
        namespace, packet, overload = name.split(".", 2)
        try:
            packet = getattr(getattr(self.torch.ops, namespace), packet)
            found = getattr(packet, overload)
        except AttributeError:
            raise RequestError(f"PyTorch {self.torch.__version__} has no operator {name}.") from None
        if not isinstance(found, self.torch._ops.OpOverload):
            raise RequestError(f"{name} is no overload of an operator.")
        self.found[name] = found
        return found

    def parameters_of(self, overload):
        if overload not in self.parameters:
            self.parameters[overload] = [Parameter(argument) for argument in overload._schema.arguments]
        return self.parameters[overload]

    def value_of(self, value):
        """An argument that is no tensor: dtypes and infinities are written as texts."""
        if isinstance(value, str):
            return getattr(self.torch, DTYPES[value]) if value in DTYPES else NUMBERS.get(value, value)
        return value

    def bind(self, overload, inputs, args):
        """Positional and keyword arguments of a call. `inputs` are the tensor arguments in order (None is one that is
        not given), `args` the other arguments in order, keyword-only ones last."""
        parameters, inputs, args = self.parameters_of(overload), list(inputs), list(args)
        needed = sum(parameter.is_tensor and not parameter.is_optional for parameter in parameters)
        without_lengths = len(inputs) < needed
        positional, keywords = [], {}
        for parameter in parameters:
            is_left_out = without_lengths and parameter.name in LENGTHS
            # `none` may stand for any tensor, as a backward's mask has it.
            given = parameter.is_tensor and bool(inputs) or is_left_out
            if is_left_out:
                value = None
            elif parameter.is_tensor and inputs:
                value = inputs.pop(0)
                if type(value) is list and not parameter.is_list:
                    raise RequestError(f"{overload} takes one tensor as `{parameter.name}`, not a list of them.")
                if value is None and parameter.is_list and not parameter.may_be_none:
                    value = []  # such as the state that an optimizer does not have
                if parameter.is_list and value is not None and type(value) is not list:
                    raise RequestError(f"{overload} takes a list of tensors as `{parameter.name}`: [f32[8]; f32[8]].")
            elif args and not (parameter.is_tensor and parameter.is_optional):
                value = self.value_of(args.pop(0))
                if value is None and parameter.has_default:
                    value = parameter.default
            elif parameter.has_default:
                value = parameter.default
            else:
                value = None
            if value is None and not (given or parameter.is_optional):
                raise RequestError(f"The argument `{parameter.name}` of {overload} is not given. Its schema is "
                                   f"{overload._schema}.")
            if not parameter.keyword_only:
                positional.append(value)
            elif value is not None and value != parameter.default:
                keywords[parameter.name] = value
        if inputs or args:
            raise RequestError(f"{overload} has no parameter for {len(inputs)} of the inputs and {len(args)} of the "
                               f"args that are given. Its schema is {overload._schema}.")
        while positional and (positional[-1] == [] or not isinstance(positional[-1], list)):
            parameter = parameters[len(positional) - 1]
            if not parameter.has_default or positional[-1] != parameter.default:
                break
            positional.pop()
        return tuple(positional), keywords


def item_fields(item, *names):
    """The named fields of an item of a batch; a missing one is an error in a whole sentence."""
    if not isinstance(item, dict):
        raise RequestError(f"A question is an object, not {item!r}.")
    for name in names:
        if name not in item:
            raise RequestError(f"The question lacks the key `{name}`.")
    return [item[name] for name in names]


def inputs_and_args(item):
    """The texts of a question's inputs, and its other arguments."""
    inputs, args = item.get("inputs", []), item.get("args", [])
    if not isinstance(inputs, list) or not all(isinstance(text, str) for text in inputs):
        raise RequestError("`inputs` is a list of texts, one for each tensor argument.")
    if args is not None and not isinstance(args, list):
        raise RequestError("`args` is a list of the arguments that are no tensors.")
    return inputs, args or []
