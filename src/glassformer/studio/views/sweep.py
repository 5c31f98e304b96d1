"""Every patch from another text, each alone: how much of its answer comes back?"""

from __future__ import annotations

from glassformer.errors import InputError
from glassformer.interpret.patching import patching_sweep
from glassformer.studio.cause_schemas import PatchSweep
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Side


def patch_sweep(run: RecordedRun, donor: RecordedRun, side: Side, token: int) -> PatchSweep:
    """Patches of block outputs from `donor` into `run`, with the answer read at `token`."""
    model = run.loaded_model
    if (donor.request.model, donor.request.step) != (run.request.model, run.request.step):
        raise InputError("only two texts of the same model can be patched")
    clean, corrupted = donor.inputs, run.inputs
    if run.trace.source_tokens:
        if side == "decoder":
            raise InputError("choose the encoder: the other sentence has a translation of its own")
        clean = (donor.inputs[0], run.inputs[1])  # both with the same translation so far
    result = patching_sweep(model, clean, corrupted, stack=side, position=token)
    return PatchSweep(
        answer=result.words[0],
        other=result.words[1],
        clean=result.clean,
        corrupted=result.corrupted,
        recovered=result.recovered.tolist(),
    )
