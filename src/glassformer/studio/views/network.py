"""The whole model on one text: norms, what each part adds, the lens after each layer."""

from __future__ import annotations

from glassformer.glass import lens
from glassformer.glass.stacks import StackName, stream
from glassformer.precision import widen
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import (
    LayerAttention,
    LayerPoint,
    Network,
    NetworkGuesses,
    StackNorms,
)
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Side
from glassformer.studio.views.encode import mean_heads
from glassformer.studio.views.layers import check_token, layer_point
from glassformer.studio.views.predictions import guesses

ADDS = {"attention": "attention", "cross": "cross", "block": "mlp"}  # the part before each point


def network(run: RecordedRun) -> Network:
    """Norms of the residual stream and of what the parts of each layer add to it."""
    sides: list[Side] = [side for side in ("encoder", "decoder") if side in run.tokens]
    return Network(stacks=[_norms(run, side) for side in sides])


def network_guesses(run: RecordedRun, progress: JobMonitor) -> NetworkGuesses:
    """What the model would predict at every token if it stopped after each layer."""

    def on_progress(done: int, of: int) -> None:
        progress.report("layer", done, of)

    model = run.loaded_model
    by_point = lens(model, run.trace, top_k=1, on_progress=on_progress)
    return NetworkGuesses(
        points=[layer_point(name) for name in by_point],
        guesses=[
            [guesses(model, prediction, row)[0] for row in range(len(prediction.tokens))]
            for prediction in by_point.values()
        ],
    )


def layer_attention(run: RecordedRun, stack: StackName, query: int) -> LayerAttention:
    check_token(run, stack, query)
    return LayerAttention(weights=mean_heads(run, stack)[:, query].tolist())


def _norms(run: RecordedRun, side: Side) -> StackNorms:
    vectors = stream(run.trace, side, inside=True)
    points = [layer_point(name) for name in vectors]
    return StackNorms(
        name=side,
        points=points,
        norm=[rows.norm(dim=-1).tolist() for rows in vectors.values()],
        added=[_added(run, side, point) for point in points],
    )


def _added(run: RecordedRun, side: Side, point: LayerPoint) -> list[float] | None:
    name = f"{side}.blocks.{point.layer}.{ADDS.get(point.part)}.out"
    return widen(run.trace[name]).norm(dim=-1).tolist() if name in run.trace else None
