"""What a table of `tables/` holds, and how a config.json becomes ours and theirs again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.checkpoint.keys import Json, Key, check_fixed, names, put, read_keys, write_keys
from glassformer.checkpoint.rows import Row
from glassformer.config import ModelConfig, TaskConfig, TaskKind, read
from glassformer.errors import CheckpointError, shown

PROBLEM, SEVERAL = "problem_type", "multi_label_classification"
MOST_LAYERS, MOST_NUMBER, MOST_LABELS = 160, (1 << 31) - 1, 100_000


@dataclass(frozen=True)
class Head:
    """A class of the reference: what stands on the body."""

    kind: TaskKind
    rows: tuple[Row, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)  # of TaskConfig
    dropout: tuple[str, ...] = ()  # config keys of the head's dropout, the first that is there
    default_dropout: float = 0.0
    body: Mapping[str, Any] = field(default_factory=dict)  # of ModelConfig, where only half is used
    pool: tuple[str, Mapping[str, str]] | None = None  # the key that says it; theirs → ours

    def pooled(self, foreign: Json, source: str) -> Json:
        """What stands for a text, where the config says it; the first of `pool` if it does not."""
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
        rates = (foreign.get(key) for key in self.dropout)
        return next((rate for rate in rates if rate is not None), self.default_dropout)


@dataclass(frozen=True)
class Architecture:
    model_type: str
    prefix: str  # of the body's tensors where there is a head
    heads: Mapping[str, Head]  # by class name; the first is the bare body
    rows: tuple[Row, ...]
    keys: tuple[Key, ...]
    constants: Mapping[str, Any]  # our fields that are always so here
    fixed: Mapping[str, Any]  # their fields that must be so
    rule: Callable[[Json, ModelConfig], str | None] = lambda foreign, config: None  # what is wrong
    inert: tuple[str, ...] = ()  # tensors some files hold that are no weights
    tables: bool = False  # may it be a table of vectors, without a block?

    def read(self, foreign: Json, source: str) -> tuple[ModelConfig, TaskConfig]:
        check_fixed(self.fixed, foreign, source)
        head = self.heads[self.head_name(foreign, source)]
        fields = read_keys(self.keys, foreign, source) | {**self.constants, **head.body}
        task: Json = {"kind": head.kind, **head.fields, **head.pooled(foreign, source)}
        if head.kind in ("classification", "token_classification") and "labels" not in head.fields:
            task["labels"] = _labels(foreign, source)
            task["several"] = head.kind == "classification" and foreign.get(PROBLEM) == SEVERAL
        task["dropout"] = head.rate(foreign)
        config = read(ModelConfig, fields, source, self.spelling)
        self._check_numbers(config, source)  # before a rule counts up to one of them
        if wrong := self.rule(foreign, config):
            raise CheckpointError(f"{source}: {wrong}")
        return config, read(TaskConfig, task, source)

    @property
    def spelling(self) -> dict[str, str]:
        """What our fields are called here."""
        return names(self.keys)

    def _check_numbers(self, config: ModelConfig, source: str) -> None:
        if config.depth == 0 and not self.tables:
            raise CheckpointError(f"{source}: {self.spelling['depth']} = 0: write at least 1")
        layers = MOST_LAYERS // (1 if config.decoder_depth is None else 2)
        for name, value in config:
            most = layers if name.endswith("depth") else MOST_NUMBER
            if type(value) is int and value > most:
                raise CheckpointError(
                    f"{source}: {self.spelling.get(name, name)} = {value}: write at most {most:,}"
                )

    def write(self, config: ModelConfig, task: TaskConfig, foreign: Json) -> Json:
        """Their config for this model; `foreign` is the one it came with, or empty."""
        if foreign and self.read(foreign, "config.json") == (config, task):
            return foreign
        classes = [name for name, head in self.heads.items() if self._fits(head, config, task)]
        if not classes:
            raise CheckpointError(f"a {self.model_type} has no head for {task.kind!r}")
        written = foreign or self._blank()
        if (foreign.get("architectures") or [None])[0] not in classes:
            written = {**written, "architectures": [classes[0]]}
        head = self.heads[self.head_name(written, "config.json")]
        if (
            "labels" not in head.fields
            and task.kind in ("classification", "token_classification")
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
        wanted = task.model_dump()
        same = all(wanted[name] == value for name, value in head.fields.items())
        return same and (head.kind, self._family(head)) == (task.kind, config.family)

    def _blank(self) -> Json:
        """A config with nothing but what is always so."""
        written: Json = {"model_type": self.model_type}
        for name, value in self.fixed.items():
            written = put(written, name, value)
        return written

    def _agree(self, written: Json, config: ModelConfig, task: TaskConfig) -> None:
        """What was written must read back as the same model, or this layout cannot hold it."""
        for back, wanted in zip(self.read(written, "config.json"), (config, task), strict=True):
            found = back.model_dump()
            for name, value in wanted.model_dump().items():
                if found[name] != value:
                    raise CheckpointError(
                        f"{name} = {shown(value)} cannot be written as a {self.model_type}: "
                        f"there it is {shown(found[name])}"
                    )

    def head_name(self, foreign: Json, source: str) -> str:
        classes = foreign.get("architectures") or [next(iter(self.heads))]
        first = classes[0] if isinstance(classes, list) else None
        if not isinstance(first, str) or first not in self.heads:
            raise CheckpointError(
                f"{source}: architectures = {shown(classes)} is not known: write one of "
                f"{', '.join(self.heads)}"
            )
        return first

    def patterns(self) -> list[str]:
        """The tensors a file of this kind may hold that this model may not use."""
        rows = [row for head in self.heads.values() for row in head.rows]
        return [*(row.theirs for row in rows), *self.inert]


def _labels(foreign: Json, source: str) -> tuple[str, ...]:
    """Class names in the order of their numbers; the reference's own names if there are none."""
    named = foreign.get("id2label")
    if named is None:
        count = foreign.get("num_labels", 2)
        if type(count) is not int or not 0 < count <= MOST_LABELS:
            raise CheckpointError(
                f"{source}: num_labels = {shown(count)}: write how many labels there are"
            )
        return tuple(f"LABEL_{i}" for i in range(count))
    numbers = [str(i) for i in range(len(named))] if isinstance(named, dict) else []
    simple = numbers and all(isinstance(label, str | int | float) for label in named.values())
    if not simple or len(numbers) > MOST_LABELS or sorted(named) != sorted(numbers):
        raise CheckpointError(
            f"{source}: id2label = {shown(named)}: write a name for each number from 0 on, "
            "such as {'0': 'no', '1': 'yes'}"
        )
    return tuple(str(named[number]) for number in numbers)
