"""Errors for people: one line that names file, field, value and what to write instead."""


class GlassformerError(Exception):
    """Anything a user can mend. The command line prints its one line and exits with `exit_code`."""

    exit_code = 1


class ConfigError(GlassformerError):
    """A field, flag or argument has a value that cannot work."""

    exit_code = 2


class CheckpointError(GlassformerError):
    """A model folder that is not whole, not known, or not safe."""


class InputError(GlassformerError):
    """A text, or a list of token ids, that the model cannot read."""
