"""Errors for users: one line that names file, field, value and what to write instead."""

import importlib.util

MAX_LINE, MAX_SHOWN = 1_000, 80  # characters
DEVICES = ("auto", "cpu", "cuda", "mps")


class GlassformerError(Exception):
    """An error that a user can fix. The command line prints its line and exits with `exit_code`.

    The line is printable, whatever it quotes from a file: control characters are escaped.
    """

    exit_code = 1

    def __init__(self, line: str) -> None:
        if len(line) > MAX_LINE:
            line = f"{line[: MAX_LINE // 2]} … {line[-MAX_LINE // 4 :]}"
        super().__init__(printable(line))


class ConfigError(GlassformerError):
    """A field, flag or argument has a value that cannot work."""

    exit_code = 2


class CheckpointError(GlassformerError):
    """A model folder that is incomplete, unknown or unsafe."""


class InputError(GlassformerError):
    """A text, or a list of token ids, that the model cannot read."""


def check_device_name(name: str, option: str) -> None:
    """ConfigError if no device has this name; `option` is how the user has set it."""
    *names, last = DEVICES
    if name not in DEVICES:
        raise ConfigError(f"{option} {name!r}: write {', '.join(names)} or {last}")


def check_installed(feature: str, extra: str, *packages: str) -> None:
    """Raise a ConfigError if one of the packages of an extra, which `feature` needs, is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"{feature} needs {package}: pip install 'glassformer[{extra}]'")


def printable(text: str) -> str:
    """`text` with control characters escaped, so that it cannot move the cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def counted(number: int, things: str) -> str:
    """`1 document`, `2,000 documents of one sentence`: `things` begins with a plural."""
    first, space, rest = things.partition(" ")
    return f"{number:,} {first.removesuffix('s') if number == 1 else first}{space}{rest}"


def with_article(noun: str) -> str:
    """`an encoder`, `a decoder`."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def shown(value: object) -> str:
    """A value from a file as an error message shows it: its repr, cut if it is long."""
    if isinstance(value, str) and len(value) > MAX_SHOWN:
        return repr(value[:MAX_SHOWN]) + "…"
    text = repr(value)
    return text if len(text) <= 2 * MAX_SHOWN else text[:MAX_SHOWN] + "…"
