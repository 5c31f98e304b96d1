"""`glassformer COMMAND …`: a table from command to function; each is a file beside this one."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import typer

from glassformer.cli import (
    answer,
    chat,
    classify,
    compare,
    data,
    demo,
    doctor,
    embed,
    evaluate,
    explain,
    export,
    fill,
    generate,
    inspect,
    list_models,
    map_files,
    params,
    plot,
    presets,
    publish,
    rank,
    recipe,
    reproduce,
    serve,
    studio,
    tag,
    tokenizer,
    training,
    translate,
)
from glassformer.cli.common import ignore_emulation, with_paths
from glassformer.errors import GlassformerError
from glassformer.strict import plainly
from glassformer.version import __version__

COMMANDS: dict[str, Callable[..., None]] = {
    "answer": answer.run,
    "chat": chat.run,
    "classify": classify.run,
    "demo": demo.run,
    "doctor": doctor.run,
    "embed": embed.run,
    "export": export.run,
    "fill": fill.run,
    "follows": classify.follows,
    "generate": generate.run,
    "inspect": inspect.run,
    "list": list_models.run,
    "params": params.run,
    "plot": plot.run,
    "presets": presets.run,
    "publish": publish.run,
    "rank": rank.run,
    "reproduce": reproduce.run,
    "serve": serve.run,
    "similarity": embed.similarity,
    "studio": studio.run,
    "tag": tag.run,
    "translate": translate.run,
    "word": embed.word,
}

app = typer.Typer(
    help="Transformers you can see through.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for name, function in COMMANDS.items():
    app.command(name)(with_paths(function))
ANY_FIELD: dict[str, Callable[..., None]] = {  # they take any recipe field as an option
    "compare": compare.run,
    "evaluate": evaluate.run,
    "finetune": training.finetune,
    "pretrain": training.pretrain,
}
for name, function in ANY_FIELD.items():
    extra = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, context_settings=extra)(with_paths(function))
app.add_typer(data.app, name="data")
app.add_typer(explain.app, name="explain")
app.add_typer(map_files.app, name="map")
app.add_typer(recipe.app, name="recipe")
app.add_typer(tokenizer.app, name="tokenizer")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
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
