"""How figures and tables look in Markdown."""

from collections.abc import Iterable, Sequence


def figure(value: float, digits: int = 3) -> str:
    """A number with some significant digits, written without an exponent: 1234.5 is "1,230", 0.01234 is "0.0123"."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    if abs(rounded) >= 10 ** (digits - 1):
        return f"{rounded:,.0f}"
    places = digits - 1
    magnitude = abs(rounded)
    while magnitude < 1:
        magnitude *= 10
        places += 1
    while magnitude >= 10:
        magnitude /= 10
        places -= 1
    return f"{rounded:,.{max(places, 0)}f}"


def percent(part: float, whole: float, places: int = 1) -> str:
    return f"{100 * part / whole:.{places}f} %" if whole else "-"


def microseconds(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{figure(value / 1e6)} s"
    return f"{figure(value / 1e3)} ms" if abs(value) >= 1e3 else f"{figure(value)} us"


def size(value: float) -> str:
    """Bytes in the decimal units of this project's figures."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if value >= scale:
            digits = figure(value / scale)
            return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} {unit}"
    return f"{value:.0f} B"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table. The head of a column of numbers ends in a colon, which is not printed: "bytes:" is right-aligned."""
    heads = [column.removesuffix(":") for column in columns]
    rules = ["---:" if column.endswith(":") else "---" for column in columns]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(rules)}|"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def commands(*lines: str) -> str:
    """Commands that a reader can paste, as a block of code."""
    return "\n".join(f"    {line}" for line in lines)


def listed(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
