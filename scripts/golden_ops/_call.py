"""How a drawn call becomes the arguments of one of PyTorch's operators; no family of its own."""

DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64",
          "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool",
          "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def bind(torch, overload, inputs, args):
    """Positional and keyword arguments of a call: `inputs` are its tensor arguments in order (None is
    one that is not given), `args` its other arguments in order, keyword-only ones last."""
    inputs, args, positional, keywords = list(inputs), list(args), [], {}
    for parameter in overload._schema.arguments:
        is_tensor = "Tensor" in str(parameter.type)
        optional = parameter.has_default_value() or "Optional" in str(parameter.type)
        if is_tensor and inputs:
            value = inputs.pop(0)
        elif args and not (is_tensor and optional):
            value = args.pop(0)
            if isinstance(value, str) and value in DTYPES:
                value = getattr(torch, DTYPES[value])
            elif value in ("inf", "-inf"):
                value = float(value)
            if value is None and parameter.has_default_value():
                value = parameter.default_value
        elif parameter.has_default_value():
            value = parameter.default_value
        else:
            value = None
        if not parameter.kwarg_only:
            positional.append(value)
        elif value is not None and value != parameter.default_value:
            keywords[parameter.name] = value
    if inputs or args:
        raise ValueError(f"{overload}: too many arguments, {inputs} {args} are left")
    parameters = overload._schema.arguments
    while positional and (positional[-1] == [] or not isinstance(positional[-1], (list, torch.Tensor))):
        parameter = parameters[len(positional) - 1]
        if not parameter.has_default_value() or positional[-1] != parameter.default_value:
            break
        positional.pop()
    return tuple(positional), keywords
