"""The type of the entries of `tables/`, which convert a config.json to ours and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.checkpoint.keys import Json, Key, check_fixed, names, put, read_keys, write_keys
from glassformer.checkpoint.rows import Row
from glassformer.config import TRAITS, ModelConfig, TaskConfig, TaskKind
from glassformer.errors import CheckpointError, shown
from glassformer.strict import read

PROBLEM, SEVERAL = "problem_type", "multi_label_classification"
MAX_LAYERS, MAX_NUMBER, MAX_LABELS = 160, (1 << 31) - 1, 100_000


@dataclass(frozen=True)
class Head:
    """A class of transformers: a head on the body."""

    kind: TaskKind
    rows: tuple[Row, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)  # of TaskConfig
    dropout: tuple[str, ...] = ()  # config keys of the head's dropout; the first one present counts
    default_dropout: float = 0.0
    # Fields of ModelConfig, for a class that uses only half of the body.
    body: Mapping[str, Any] = field(default_factory=dict)
    pool: tuple[str, Mapping[str, str]] | None = None  # the config key; their value → ours

    def pooled(self, foreign: Json, source: str) -> Json:
        """The pooling that the config names; the first of `pool` if it names none."""
        if self.pool is None:
            return {}
        key, known = self.pool
        value = foreign.get(key, next(iter(known)))
        if value not in known:
            raise CheckpointError(
                f"{source}: {key} = {shown(value)} is not known: write one of {', '.join(known)}"
            )
        return {"pool": known[value]}

    def rate(self, foreign: Json) -> Any:
        """The head's dropout in their config."""
        rates = (foreign.get(key) for key in self.dropout)
        return next((rate for rate in rates if rate is not None), self.default_dropout)


@dataclass(frozen=True)
class Architecture:
    model_type: str
    prefix: str  # of the body's tensors in a model with a head
    heads: Mapping[str, Head]  # by class name; the first is the bare body
    rows: tuple[Row, ...]
    keys: tuple[Key, ...]
    constants: Mapping[str, Any]  # our fields with a constant value here
    fixed: Mapping[str, Any]  # their fields with the only value that is supported
    # What is wrong with a config, if anything.
    rule: Callable[[Json, ModelConfig], str | None] = lambda foreign, config: None
    inert: tuple[str, ...] = ()  # tensors of some files that are not weights
    tables: bool = False  # whether it may have no blocks: a table of vectors
    ours: bool = False  # no other library opens it

    def read(self, foreign: Json, source: str) -> tuple[ModelConfig, TaskConfig]:
        """Our configs for their config.json, which `source` names in error messages."""
        check_fixed(self.fixed, foreign, source)
        head = self.heads[self.head_name(foreign, source)]
        fields = read_keys(self.keys, foreign, source) | {**self.constants, **head.body}
        task: Json = {"kind": head.kind, **head.fields, **head.pooled(foreign, source)}
        if TRAITS[head.kind].named_labels and "labels" not in head.fields:
            task["labels"] = _labels(foreign, source)
            one_text = TRAITS[head.kind].predicts == "label"
            task["several"] = one_text and foreign.get(PROBLEM) == SEVERAL
        task["dropout"] = head.rate(foreign)
        config = read(ModelConfig, fields, source, self.spelling)
        self._check_numbers(config, source)  # before a rule makes a list of that length
        if wrong := self.rule(foreign, config):
            raise CheckpointError(f"{source}: {wrong}")
        return config, read(TaskConfig, task, source)

    @property
    def spelling(self) -> dict[str, str]:
        """What their config calls our fields."""
        return names(self.keys)

    def _check_numbers(self, config: ModelConfig, source: str) -> None:
        if config.depth == 0 and not self.tables:
            raise CheckpointError(f"{source}: {self.spelling['depth']} = 0: write at least 1")
        layers = MAX_LAYERS // (1 if config.decoder_depth is None else 2)
        for name, value in config:
            most = layers if name.endswith("depth") else MAX_NUMBER
            if type(value) is int and value > most:
                raise CheckpointError(
                    f"{source}: {self.spelling.get(name, name)} = {value}: write at most {most:,}"
                )

    def write(self, config: ModelConfig, task: TaskConfig, foreign: Json) -> Json:
        """Their config for this model; `foreign` is the one it was loaded with, or empty."""
        if foreign and self.read(foreign, "config.json") == (config, task):
            return foreign
        classes = [name for name, head in self.heads.items() if self._fits(head, config, task)]
        if not classes:
            raise CheckpointError(
                f"the architecture {self.model_type} has no head for {task.kind!r}"
            )
        written = foreign or self._blank()
        if (foreign.get("architectures") or [None])[0] not in classes:
            written = {**written, "architectures": [classes[0]]}
        head = self.heads[self.head_name(written, "config.json")]
        if (
            "labels" not in head.fields
            and task.traits.named_labels
            and (not foreign or _labels(foreign, "config.json") != task.labels)
        ):
            written = {
                **written,
                "id2label": {str(i): label for i, label in enumerate(task.labels)},
                "label2id": {label: i for i, label in enumerate(task.labels)},
            }
        if task.several != (written.get(PROBLEM) == SEVERAL):
            written = {name: value for name, value in written.items() if name != PROBLEM}
            written |= {PROBLEM: SEVERAL} if task.several else {}
        if head.pool is not None:
            key, known = head.pool
            written = {**written, key: {ours: theirs for theirs, ours in known.items()}[task.pool]}
        written = write_keys(self.keys, config.model_dump(), written)
        if head.dropout and head.rate(written) != task.dropout:
            written = {**written, head.dropout[0]: task.dropout}
        self._agree(written, config, task)
        return written

    @property
    def families(self) -> set[str]:
        return {self._family(head) for head in self.heads.values()}

    def _family(self, head: Head) -> str:
        return str(head.body.get("family", self.constants["family"]))

    def _fits(self, head: Head, config: ModelConfig, task: TaskConfig) -> bool:
        fields = task.model_dump()
        same = all(fields[name] == value for name, value in head.fields.items())
        same = same and (head.pool is None or task.pool in head.pool[1].values())
        return same and (head.kind, self._family(head)) == (task.kind, config.family)

    def _blank(self) -> Json:
        """A config with the fixed fields only."""
        written: Json = {"model_type": self.model_type}
        for name, value in self.fixed.items():
            written = put(written, name, value)
        return written

    def _agree(self, written: Json, config: ModelConfig, task: TaskConfig) -> None:
        """Check that the written config reads back as the same model."""
        for back, ours in zip(self.read(written, "config.json"), (config, task), strict=True):
            read_back = back.model_dump()
            for name, value in ours.model_dump().items():
                if read_back[name] != value:
                    raise CheckpointError(
                        f"{name} = {shown(value)} cannot be written as a {self.model_type}: "
                        f"there it is {shown(read_back[name])}"
                    )

    def head_name(self, foreign: Json, source: str) -> str:
        """The class that their config names; the bare body if it names none."""
        classes = foreign.get("architectures") or [next(iter(self.heads))]
        first = classes[0] if isinstance(classes, list) else None
        if not isinstance(first, str) or first not in self.heads:
            raise CheckpointError(
                f"{source}: architectures = {shown(classes)} is not known: write one of "
                f"{', '.join(self.heads)}"
            )
        return first

    def patterns(self) -> list[str]:
        """The tensors that a file of this architecture may have beside those of the model."""
        rows = [row for head in self.heads.values() for row in head.rows]
        return [*(row.theirs for row in rows), *self.inert]


def _labels(foreign: Json, source: str) -> tuple[str, ...]:
    """The labels in the order of their ids; transformers' default names if there are none."""
    named = foreign.get("id2label")
    if named is None:
        count = foreign.get("num_labels", 2)
        if type(count) is not int or not 0 < count <= MAX_LABELS:
            raise CheckpointError(
                f"{source}: num_labels = {shown(count)}: write the number of labels"
            )
        return tuple(f"LABEL_{i}" for i in range(count))
    numbers = [str(i) for i in range(len(named))] if isinstance(named, dict) else []
    simple = numbers and all(isinstance(label, str | int | float) for label in named.values())
    if not simple or len(numbers) > MAX_LABELS or sorted(named) != sorted(numbers):
        raise CheckpointError(
            f"{source}: id2label = {shown(named)}: write a name for each id from 0 on, "
            "such as {'0': 'no', '1': 'yes'}"
        )
    return tuple(str(named[number]) for number in numbers)
