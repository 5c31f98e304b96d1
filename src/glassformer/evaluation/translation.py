"""How good translations are, by sacreBLEU: BLEU, chrF and TER, with the signatures that say how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.generate.translate import translate
from glassformer.tasks import Task
from glassformer.text import Tokenizer

HIGHER = ("bleu", "chrf")  # the better


@dataclass(frozen=True)
class Score:
    value: float
    signature: str


@dataclass(frozen=True)
class Examples:
    sources: list[str]
    references: list[list[str]]  # all translations of each source that are known

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], most: int | None = None) -> Examples:
        """Each source once; at most so many, from all over the data: files are often sorted."""
        known: dict[str, list[str]] = {}
        for source, target in pairs:
            if source.strip() and target.strip():
                known.setdefault(source, []).append(target)
        chosen = list(known)
        if most is not None and most < len(chosen):
            chosen = [chosen[i * len(chosen) // most] for i in range(most)]
        return cls(chosen, [known[source] for source in chosen])


def scores(
    found: Sequence[str],
    references: Sequence[Sequence[str]],
    names: Sequence[str] = ("bleu", "chrf", "ter"),
) -> dict[str, Score]:
    """Over all sentences together; where a source has several references, against all of them."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    width = max(map(len, references))
    # As sacreBLEU wants them: the first reference of every sentence, then the second …
    columns = [[each[n] if n < len(each) else None for each in references] for n in range(width)]
    made = {}
    for name in names:
        metric = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name]()
        value = metric.corpus_score(list(found), columns).score
        made[name] = Score(value, str(metric.get_signature()))
    return made


@dataclass(frozen=True)
class TranslationEvaluator:
    """Translates the same sentences again and again, while the model learns."""

    names: ClassVar[tuple[str, ...]] = HIGHER

    tokenizer: Tokenizer
    examples: Examples
    search: Mapping[str, Any]  # num_beams and the like

    def metrics(self, task: Task) -> dict[str, float]:
        return {name: each.value for name, each in self(task, self.names).items()}

    def __call__(self, task: Task, names: Sequence[str] = ("bleu", "chrf")) -> dict[str, Score]:
        was = task.training
        task.eval()
        found = translate(task, self.tokenizer, self.examples.sources, **self.search)
        task.train(was)
        return scores([each.text for each in found], self.examples.references, names)
