"""`glassformer COMMAND …`: a table from command to function; each is a file beside this one."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable, Iterable
from typing import Any

import typer

from glassformer.cli.common import ignore_emulation, with_paths
from glassformer.errors import GlassformerError
from glassformer.strict import plainly
from glassformer.version import __version__

# The module and the function of each command. A process imports only those of its own command:
# all of them take a third as long as torch.
COMMANDS = {
    "answer": "answer.run",
    "chat": "chat.run",
    "classify": "classify.run",
    "demo": "demo.run",
    "doctor": "doctor.run",
    "embed": "embed.run",
    "export": "export.run",
    "fill": "fill.run",
    "follows": "classify.follows",
    "generate": "generate.run",
    "inspect": "inspect.run",
    "list": "list_models.run",
    "params": "params.run",
    "plot": "plot.run",
    "presets": "presets.run",
    "publish": "publish.run",
    "rank": "rank.run",
    "reproduce": "reproduce.run",
    "serve": "serve.run",
    "similarity": "embed.similarity",
    "studio": "studio.run",
    "tag": "tag.run",
    "translate": "translate.run",
    "word": "embed.word",
}
ANY_FIELD = {  # they take any recipe field as an option
    "compare": "compare.run",
    "evaluate": "evaluate.run",
    "finetune": "training.finetune",
    "pretrain": "training.pretrain",
}
GROUPS = {
    "data": "data.app",
    "explain": "explain.app",
    "map": "map_files.app",
    "recipe": "recipe.app",
    "tokenizer": "tokenizer.app",
}
ALL = (*COMMANDS, *ANY_FIELD, *GROUPS)


def command(name: str) -> Callable[..., None]:
    """The function of a command."""
    function: Callable[..., None] = _imported((COMMANDS | ANY_FIELD)[name])
    return function


def application(names: Iterable[str] = ALL) -> typer.Typer:
    """The command line with these commands."""
    app = typer.Typer(
        help="Transformers you can see through.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        callback=_options,
    )
    for name in names:
        if name in GROUPS:
            app.add_typer(_imported(GROUPS[name]), name=name)
            continue
        extra = {"allow_extra_args": True, "ignore_unknown_options": True}
        settings = extra if name in ANY_FIELD else None
        app.command(name, context_settings=settings)(with_paths(command(name)))
    return app


def _imported(path: str) -> Any:
    module, _, name = path.partition(".")
    return getattr(importlib.import_module(f"glassformer.cli.{module}"), name)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """A user's mistake is one line on stderr, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a console may lack characters: cp1252 has no я
            stream.reconfigure(errors="backslashreplace")
    ignore_emulation()
    named = sys.argv[1:2]
    app = application(named if named and named[0] in ALL else ALL)
    try:
        sys.exit(app(standalone_mode=False))
    except GlassformerError as error:
        typer.echo(f"glassformer: {error}", err=True)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        if not hasattr(error, "format_message"):  # as the usage errors of click and typer do
            raise
        _explain(error)
        sys.exit(2)


def _explain(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    line, context = " ".join(plainly(error.format_message()).split()), error.ctx
    takes_text = context is not None and any(
        each.param_type_name == "argument" for each in context.command.params
    )
    if "unexpected extra argument" in line and takes_text:
        line += ": write a text of several words in quotation marks"
    end = "" if line[-1] in ".?" else "."
    path = context.command_path if context is not None else "glassformer"
    typer.echo(f"glassformer: {line}{end} See {path} --help", err=True)
