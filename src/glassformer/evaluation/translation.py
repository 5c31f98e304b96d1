"""Translation quality by sacreBLEU: BLEU, chrF and TER, with their signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.generate.translate import Translation, translate
from glassformer.tasks import Task
from glassformer.text import Tokenizer

GROUP = 512  # sentences between two reports
HIGHER = ("bleu", "chrf")  # higher is better


@dataclass(frozen=True)
class Score:
    value: float
    signature: str


@dataclass(frozen=True)
class Examples:
    sources: list[str]
    references: list[list[str]]  # all known translations of each source

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], most: int | None = None) -> Examples:
        """Each source once; at most `most`, evenly spaced: files are often sorted."""
        translations: dict[str, list[str]] = {}
        for source, target in pairs:
            if source.strip() and target.strip():
                translations.setdefault(source, []).append(target)
        chosen = list(translations)
        if most is not None and most < len(chosen):
            chosen = [chosen[i * len(chosen) // most] for i in range(most)]
        return cls(chosen, [translations[source] for source in chosen])


def scores(
    translations: Sequence[str],
    references: Sequence[Sequence[str]],
    names: Sequence[str] = ("bleu", "chrf", "ter"),
) -> dict[str, Score]:
    """Corpus-level scores, by metric; a source may have several references."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    width = max(map(len, references))
    # As sacreBLEU expects them: the first reference of every sentence, then the second …
    columns = [[each[n] if n < len(each) else None for each in references] for n in range(width)]
    results = {}
    for name in names:
        metric = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name]()
        value = metric.corpus_score(list(translations), columns).score
        results[name] = Score(value, str(metric.get_signature()))
    return results


@dataclass(frozen=True)
class TranslationEvaluator:
    """Translates the same sentences at each evaluation during training."""

    names: ClassVar[tuple[str, ...]] = HIGHER

    tokenizer: Tokenizer
    examples: Examples
    search: Mapping[str, Any]  # num_beams and the like

    def metrics(self, task: Task) -> dict[str, float]:
        """BLEU and chrF."""
        return {name: each.value for name, each in self(task, self.names).items()}

    def __call__(
        self,
        task: Task,
        names: Sequence[str] = ("bleu", "chrf"),
        watch: Callable[[float], None] = lambda share: None,
    ) -> dict[str, Score]:
        """The scores of these metrics; `watch` is called with the share that is translated."""
        was_training = task.training
        task.eval()
        sources, translations = self.examples.sources, list[Translation]()
        for start in range(0, len(sources), GROUP):
            group = sources[start : start + GROUP]
            translations += translate(task, self.tokenizer, group, **self.search)
            watch(len(translations) / len(sources))
        task.train(was_training)
        return scores([each.text for each in translations], self.examples.references, names)
