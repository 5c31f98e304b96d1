"""Errors for people: one line that names file, field, value and what to write instead."""

import importlib.util

MOST_LINE, MOST_SHOWN = 1_000, 80  # characters


class GlassformerError(Exception):
    """Anything a user can mend. The command line prints its one line and exits with `exit_code`.

    Whatever a file's names and values hold, the line is printable: no control characters.
    """

    exit_code = 1

    def __init__(self, line: str) -> None:
        if len(line) > MOST_LINE:
            line = f"{line[: MOST_LINE // 2]} … {line[-MOST_LINE // 4 :]}"
        super().__init__(printable(line))


class ConfigError(GlassformerError):
    """A field, flag or argument has a value that cannot work."""

    exit_code = 2


class CheckpointError(GlassformerError):
    """A model folder that is not whole, not known, or not safe."""


class InputError(GlassformerError):
    """A text, or a list of token ids, that the model cannot read."""


def check_installed(why: str, extra: str, *packages: str) -> None:
    """Before the work that needs them begins."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"{why} takes {package}: pip install 'glassformer[{extra}]'")


def printable(text: str) -> str:
    """Nothing in a text may move the cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown(value: object) -> str:
    """A value out of somebody's file, as an error may show it: in quotes, and cut if it is long."""
    if isinstance(value, str) and len(value) > MOST_SHOWN:
        return repr(value[:MOST_SHOWN]) + "…"
    text = repr(value)
    return text if len(text) <= 2 * MOST_SHOWN else text[:MOST_SHOWN] + "…"
