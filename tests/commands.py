"""Verbs of the command line in this process: no start of torch for each."""

import contextlib
import io
import os
import signal
import sys
from unittest import mock

from glassformer.cli.main import main


class Said(str):
    """What stdout got, with the rest beside it."""

    code: int
    errors: str


def glassformer(*words, columns=80, code=0):
    """Run `glassformer WORDS`; it must end with `code`."""
    out, err = io.StringIO(), io.StringIO()
    environment = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        with (
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
            mock.patch.dict(os.environ, environment),
            mock.patch.object(sys, "argv", ["glassformer", *map(str, words)]),
        ):  # fmt: skip
            main()
        found = 0
    except SystemExit as stop:
        found = stop.code or 0
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    said = Said(out.getvalue())
    said.code, said.errors = found, err.getvalue()
    assert found == code, said.errors or said
    return said


def refused(*words, code=1):
    """One line on stderr, nothing on stdout; the line."""
    said = glassformer(*words, code=code)
    assert said == "" and said.errors.count("\n") == 1, said.errors
    assert said.errors.startswith("glassformer: ")
    return said.errors
