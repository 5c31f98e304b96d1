"""Measures of a run's heads, and the alignment of a translation."""

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
from glassformer.glass.stacks import StackName
from glassformer.inference.recording import NO_TOKENIZER
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import AlignmentView, Measure, Measures

CLARK = "Clark et al. 2019, What does BERT look at?"
OLSSON = "Olsson et al. 2022, In-context learning and induction heads"
XIAO = "Xiao et al. 2023, Efficient streaming language models with attention sinks"
VIG = "Vig and Belinkov 2019, Analyzing the structure of attention"
WANG = "Wang et al. 2022, Interpretability in the wild"
MEASURES = [  # the field's term, the same in plain words, where it comes from
    Measure(id=id, title=title, text=text, paper=paper)
    for id, title, text, paper in (
        ("entropy", "Entropy (nats)", "how widely it attends", CLARK),
        ("distance", "Mean distance (tokens)", "how far away it attends", VIG),
        ("sink", "Attention to the first token", "its share there", XIAO),
        ("separators", "Attention to separators", "its share on [SEP] and punctuation", CLARK),
        ("previous", "Previous-token score", "its share one token back", CLARK),
        ("next", "Next-token score", "its share one token ahead", CLARK),
        ("duplicate", "Duplicate-token score", "its share on the same token before", WANG),
        ("induction", "Induction score", "its share on what followed the same token", OLSSON),
    )
]
WITHIN_ONE_TEXT = ("distance",)  # meaningless for cross-attention


def measures(run: RecordedRun) -> Measures:
    """Every measure of every head, (L, H) for each stack, and the type each head resembles."""
    names: list[StackName] = [stack.name for stack in run.row.stacks]
    scores = {stack: head_scores(run.trace, stack) for stack in names}
    values = {stack: _values(run, stack, scores[stack]) for stack in names}
    used = {name for by_name in values.values() for name in by_name}
    return Measures(
        names=[measure for measure in MEASURES if measure.id in used],
        values={
            stack: {name: heads.tolist() for name, heads in by_name.items()}
            for stack, by_name in values.items()
        },
        types={stack: strongest(scores[stack]) for stack in names},
    )


def _values(run: RecordedRun, stack: StackName, scores: dict[str, Tensor]) -> dict[str, Tensor]:
    heads, known = weights(run.trace, stack), {measure.id for measure in MEASURES}
    _, keys = sides(run.trace, stack)
    values = {
        "entropy": entropy(heads),
        "distance": distance(heads),
        "sink": sink_share(heads),
        "separators": sink_share(heads, separators(keys)),
        **{name: score for name, score in scores.items() if name in known},
    }
    excluded = WITHIN_ONE_TEXT if stack == "cross" else ()
    return {name: value for name, value in values.items() if name not in excluded}


def alignment(run: RecordedRun) -> AlignmentView:
    """Which source words each target word attends to; raises InputError without cross-attention."""
    if "cross" not in stacks(run.trace):
        raise InputError("alignment: only an encoder-decoder model has cross-attention")
    model = run.loaded_model
    if model.tokenizer is None or run.target is None:
        raise InputError(NO_TOKENIZER)
    aligned = align(model.task, model.tokenizer, run.request.text, run.target, edit=run.edit)
    return AlignmentView(
        source=aligned.source,
        target=aligned.target,
        soft=aligned.weights.tolist(),
        hard=sorted((target, source) for source, target in aligned.links()),
    )
