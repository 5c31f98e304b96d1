"""What a run's heads measure, and which source word each target word came from."""

from __future__ import annotations

from torch import Tensor

from glassformer.errors import InputError
from glassformer.generate.align import align
from glassformer.glass import (
    distance,
    entropy,
    head_scores,
    separators,
    sides,
    sink_share,
    stacks,
    strongest,
    weights,
)
from glassformer.studio.reading import NO_TOKENIZER
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import AlignmentView, Measure, Measures, StackName

CLARK = "Clark et al. 2019, What does BERT look at?"
OLSSON = "Olsson et al. 2022, In-context learning and induction heads"
XIAO = "Xiao et al. 2023, Efficient streaming language models with attention sinks"
VIG = "Vig and Belinkov 2019, Analyzing the structure of attention"
WANG = "Wang et al. 2022, Interpretability in the wild"
TITLES = {
    "entropy": ("How widely it looks", CLARK),
    "distance": ("How far away it looks", VIG),
    "sink": ("How much goes to the first token", XIAO),
    "separators": ("How much goes to separators", CLARK),
    "previous": ("Looks at the token before", CLARK),
    "next": ("Looks at the token after", CLARK),
    "duplicate": ("Looks at the same word elsewhere", WANG),
    "induction": ("Looks at what followed the same word earlier", OLSSON),
}
OWN = ("distance",)  # means something only within one text


def measures(run: RecordedRun) -> Measures:
    """Every measure of every head, (L, H) a stack, and the kind of head it looks like."""
    names: list[StackName] = [each.name for each in run.row.stacks]
    scores = {stack: head_scores(run.trace, stack) for stack in names}
    values = {stack: _values(run, stack, scores[stack]) for stack in names}
    known = {name for each in values.values() for name in each}
    return Measures(
        names=[
            Measure(id=name, title=title, paper=paper)
            for name, (title, paper) in TITLES.items()
            if name in known
        ],
        values={
            stack: {name: found.tolist() for name, found in each.items()}
            for stack, each in values.items()
        },
        types={stack: strongest(scores[stack]) for stack in names},
    )


def _values(run: RecordedRun, stack: StackName, scores: dict[str, Tensor]) -> dict[str, Tensor]:
    found = weights(run.trace, stack)
    _, asked = sides(run.trace, stack)
    all_of_them = {
        "entropy": entropy(found),
        "distance": distance(found),
        "sink": sink_share(found),
        "separators": sink_share(found, separators(asked)),
        **{name: each for name, each in scores.items() if name in TITLES},
    }
    left_out = OWN if stack == "cross" else ()
    return {name: each for name, each in all_of_them.items() if name not in left_out}


def alignment(run: RecordedRun) -> AlignmentView:
    if "cross" not in stacks(run.trace):
        raise InputError("alignment: only a translation model reads one text and writes another")
    if run.whole.tokenizer is None or run.target is None:
        raise InputError(NO_TOKENIZER)
    found = align(run.whole.task, run.whole.tokenizer, run.ask.text, run.target, edit=run.edit)
    return AlignmentView(
        source=found.source,
        target=found.target,
        soft=found.weights.tolist(),
        hard=sorted((target, source) for source, target in found.links()),
    )
