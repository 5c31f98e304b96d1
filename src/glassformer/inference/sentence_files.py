"""The files by which sentence-transformers, and `embed` here, know how texts become vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glassformer.checkpoint.folder import MAX_MODULES, MODULE, is_module_file
from glassformer.errors import CheckpointError, shown
from glassformer.strictjson import parse

MODULES, SENTENCE, SETTINGS = (
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
)  # fmt: skip
# Their names of poolings, in the order in which they are concatenated, and ours.
MODES = {
    "cls": "first",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weightedmean",
    "lasttoken": "last",
}
# Older files have a key for each, which is true or false.
KEYS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "last",
}
AFTER = ("Dense", "Normalize")  # the modules that may follow the pooling


class Module(NamedTuple):
    """One line of modules.json."""

    kind: str
    path: str


@dataclass(frozen=True)
class EmbeddingConfig:
    """How a text becomes one vector, as the files of a sentence-transformers folder say.

    Args:
        pool: one or more poolings; their vectors are concatenated
        layers: the modules after the pooling, before the normalisation
        normalise: divide the vector by its length at the end
        max_length: longer texts are truncated
        lower_case: texts are lower-cased first
        prompts: texts that are put before a text, by name
        default_prompt_name: the prompt of a text, if none is asked for
        pools_prompt: whether its tokens are pooled with the others
    """

    pool: tuple[str, ...] = ("mean",)
    layers: tuple[Module, ...] = ()
    normalise: bool = False
    max_length: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    pools_prompt: bool = True


def embedding_config(files: Mapping[str, bytes], source: str) -> EmbeddingConfig:
    """Read the files of sentence-transformers, of all its versions; the defaults without them."""
    modules = _modules(files, source)
    layers = modules[1:] if modules and modules[0].kind == "Transformer" else modules
    has_pooling = bool(layers) and layers[0].kind == "Pooling"
    where = f"{layers[0].path if has_pooling else '1_Pooling'}/config.json"
    layers = layers[has_pooling:]
    for module in layers:
        _check_layer(module, files, source)
    normalise = bool(layers) and layers[-1].kind == "Normalize"
    pooling = settings(files, where, source)
    sentence = settings(files, SENTENCE, source)
    prompts, default = _prompts(settings(files, SETTINGS, source), f"{source}: {SETTINGS}")
    return EmbeddingConfig(
        pool=_poolings(pooling, f"{source}: {where}"),
        layers=tuple(layers[:-1] if normalise else layers),
        normalise=normalise,
        max_length=_max_length(files, source, bool(modules)),
        lower_case=_flag(sentence, "do_lower_case", False, f"{source}: {SENTENCE}"),
        prompts=prompts,
        default_prompt_name=default,
        pools_prompt=_flag(pooling, "include_prompt", True, f"{source}: {where}"),
    )


def settings(files: Mapping[str, bytes], name: str, source: str, kind: type = dict) -> Any:
    """The JSON of a file; empty if there is no such file."""
    return parse(files[name], f"{source}: {name}", kind) if name in files else kind()


def sentence_files(
    files: Mapping[str, bytes], how: str, length: int, width: int
) -> dict[str, bytes]:
    """With files that say how; those that say the same already are left as they are."""
    config = embedding_config(files, MODULES)
    if MODULES in files and config.pool == (how,) and not config.layers:
        return dict(files)
    names = {"0": ("", "Transformer"), "1": ("1_Pooling", "Pooling")}
    modules = [
        {"idx": int(i), "name": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in names.items()
    ]
    pooling = {"word_embedding_dimension": width, **{key: KEYS[key] == how for key in KEYS}}
    made = {
        MODULES: modules,
        "1_Pooling/config.json": pooling,
        SENTENCE: {"max_seq_length": length, "do_lower_case": False},
    }
    rest = {name: data for name, data in files.items() if not is_module_file(name)}
    return {**rest, **{name: json.dumps(each, indent=2).encode() for name, each in made.items()}}


def is_sentence_file(name: str) -> bool:
    """Whether a file is for embeddings alone."""
    return name in (MODULES, SENTENCE, SETTINGS) or is_module_file(name)


def _modules(files: Mapping[str, bytes], source: str) -> list[Module]:
    modules: list[Module] = []
    entries = settings(files, MODULES, source, list)
    if len(entries) > MAX_MODULES:
        raise CheckpointError(
            f"{source}: {MODULES}: {len(entries):,} modules: write at most {MAX_MODULES}"
        )
    for i, entry in enumerate(entries):
        fields = entry if isinstance(entry, dict) else {}
        name = str(fields.get("type", ""))
        kind = name.rpartition(".")[2]
        if not name.startswith("sentence_transformers.") or kind not in (
            "Transformer", "Pooling", *AFTER
        ):  # fmt: skip
            raise CheckpointError(
                f"{source}: {MODULES}: module {i} is {shown(name)}, which is not supported: "
                "glassformer reads Transformer, Pooling, Dense and Normalize"
            )
        usual = "" if kind == "Transformer" else f"{i}_{kind}"
        path = fields.get("path", usual)
        if path != usual and not (usual and isinstance(path, str) and MODULE.fullmatch(path)):
            if kind != "Normalize":  # which has no files that matter
                raise CheckpointError(
                    f"{source}: {MODULES}: {kind} has path = {shown(path)}: write "
                    f"{json.dumps(usual)}, and move its files there"
                )
            path = usual
        if path in [module.path for module in modules]:
            raise CheckpointError(
                f"{source}: {MODULES}: two modules have path = {shown(path)}: write one for each"
            )
        modules.append(Module(kind, path))
    return modules


def _check_layer(module: Module, files: Mapping[str, bytes], source: str) -> None:
    if module.kind not in AFTER:
        raise CheckpointError(
            f"{source}: {MODULES}: {module.kind} at {shown(module.path)} is not supported there: "
            "glassformer reads Transformer, Pooling, then Dense and Normalize"
        )
    fields = settings(files, f"{module.path}/config.json", source)
    for key in ("module_input_name", "module_output_name"):
        if fields.get(key) not in (None, "sentence_embedding"):
            raise CheckpointError(
                f"{source}: {module.path}/config.json: {key} = {shown(fields[key])} is not "
                "supported: glassformer reads sentence_embedding"
            )


def _poolings(pooling: Mapping[str, Any], source: str) -> tuple[str, ...]:
    if "pooling_mode" in pooling:
        stated, known = pooling["pooling_mode"], MODES
        names = stated if isinstance(stated, list) and stated else [stated]
    else:
        on = {key for key, value in pooling.items() if value is True and "pooling_mode_" in key}
        known = KEYS
        names = [key for key in KEYS if key in on] + sorted(on - KEYS.keys())
    unknown = [name for name in names if not isinstance(name, str) or name not in known]
    if unknown:
        raise CheckpointError(
            f"{source}: pooling_mode = {shown(unknown[0])} is not known: write one or more of "
            f"{', '.join(MODES)}"
        )
    if len(set(names)) < len(names):
        raise CheckpointError(f"{source}: pooling_mode = {shown(names)}: write each of them once")
    return tuple(known[name] for name in names) or ("mean",)


def _prompts(own: Mapping[str, Any], source: str) -> tuple[dict[str, str], str | None]:
    prompts, default = own.get("prompts") or {}, own.get("default_prompt_name")
    texts = prompts.values() if isinstance(prompts, dict) else [prompts]
    if not isinstance(prompts, dict) or not all(isinstance(t, str | None) for t in texts):
        raise CheckpointError(f"{source}: prompts = {shown(prompts)}: write a text for each name")
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise CheckpointError(
            f"{source}: default_prompt_name = {shown(default)} is not in prompts: add it there"
        )
    return {name: text or "" for name, text in prompts.items()}, default


def _max_length(files: Mapping[str, bytes], source: str, sentences: bool) -> int | None:
    where, name = SENTENCE, "max_seq_length"
    most = settings(files, where, source).get(name)
    if sentences and most is None:
        where, name = "tokenizer_config.json", "model_max_length"
        most = settings(files, where, source).get(name)
    if most is not None and (type(most) is not int or most < 1):
        raise CheckpointError(f"{source}: {where}: {name} = {shown(most)}: write a number")
    return most


def _flag(fields: Mapping[str, Any], name: str, default: bool, source: str) -> bool:
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise CheckpointError(f"{source}: {name} = {shown(value)}: write true or false")
    return value
