"""ONNX files, for onnxruntime and what is built on it: written only if they compute what the model
computes."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoint.folder import assembled
from glassformer.checkpoint.onnx_graph import PaddedGraph, by_token, graphs_of, named_outputs
from glassformer.config import DOCUMENTS, ModelConfig
from glassformer.errors import CheckpointError, InputError, check_installed
from glassformer.tasks import Ids, Task

# How far the outputs in onnxruntime may differ from ours, in parts of the largest output.
# int8 rounds, and is only checked for gross errors.
TOLERANCE, INT8_TOLERANCE = 1e-4, 0.5
LENGTHS, TARGET_LENGTHS = (7, 13, 1, 11), (5, 1, 8, 3)


def export_onnx(
    task: Task, folder: str | os.PathLike[str], files: Mapping[str, bytes], *, int8: bool = False
) -> float:
    """Write a folder with the task as .onnx files, and `files` beside them.

    The files are checked in onnxruntime; the folder is written whole, or not at all. Returns the
    largest difference from our outputs, in parts of the largest one.
    """
    check_installed("an ONNX file", "onnx", "onnx", "onnxscript", "onnxruntime")
    if task.spec.pool in DOCUMENTS:
        raise InputError(
            f"pool = {task.spec.pool!r}: models of documents cannot be written as ONNX: use export"
        )
    plain = copy.deepcopy(task).to(device="cpu", dtype=torch.float32).eval().requires_grad_(False)
    weights = sum(tensor.nbytes for tensor in plain.state_dict().values())
    target = Path(folder).absolute()
    with assembled(target, 2 * weights) as beside, quiet():
        for name, data in files.items():
            (beside / name).parent.mkdir(exist_ok=True)
            (beside / name).write_bytes(data)
        graphs = graphs_of(plain)
        for graph in graphs:
            write_graph(graph, beside / graph.file)
        difference = check_outputs(plain, graphs, beside, TOLERANCE)
        if int8:
            for graph in graphs:
                quantize(beside / graph.file, large=weights >= 1 << 30)
            difference = check_outputs(plain, graphs, beside, INT8_TOLERANCE)
    return difference


def write_graph(graph: PaddedGraph, path: Path) -> None:
    """Trace the graph and write it, with the weights of a large one in a file beside it."""
    config = graph.task.backbone.config
    shape = (3, min(5, config.max_length))
    examples = [  # none of them twice: torch would take them for one input
        torch.ones(*shape, config.width) if name.endswith("states") else torch.ones(shape).long()
        for name in graph.inputs
    ]
    try:
        program = torch.onnx.export(
            graph, tuple(examples), dynamo=True, verbose=False,
            input_names=graph.inputs, output_names=graph.outputs, dynamic_shapes=(graph.shapes,),
        )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        cause = str(error.__cause__ or error).strip().partition("\n")[0]
        raise CheckpointError(f"{path}: torch could not export the model: {cause:.200}") from None
    if program is None:
        raise CheckpointError(f"{path}: torch wrote no graph")
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # the lines of source code, with this machine's paths
    program.save(path)


def quantize(path: Path, *, large: bool) -> None:
    """Round the weights of the file to int8, as onnxruntime's own tool does."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(path)
    del model.graph.value_info[:]  # the tool transposes matrices, and then takes these for wrong
    _unshare(model.graph)
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)  # of a large model
    quantize_dynamic(
        model, path, weight_type=QuantType.QInt8, per_channel=True, use_external_data_format=large
    )


def _unshare(graph: Any) -> None:
    """A copy of each matrix of a product that other nodes read, too, such as a tied LM head: the
    tool transposes the matrix and forgets them."""
    uses = Counter(name for node in graph.node for name in node.input)
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Gemm" and uses[node.input[1]] > 1 and node.input[1] in tensors:
            graph.initializer.append(tensors[node.input[1]])
            node.input[1] = graph.initializer[-1].name = f"{node.name}.weight"


def check_outputs(task: Task, graphs: list[PaddedGraph], folder: Path, tolerance: float) -> float:
    """The largest difference between onnxruntime's outputs and ours, in parts of the largest
    output; CheckpointError if it is larger than `tolerance`."""
    config = task.backbone.config
    ids = texts(LENGTHS, config)
    targets = texts(TARGET_LENGTHS, config) if len(graphs) > 1 else None
    (batch,) = task.batches(ids, targets=targets)
    with torch.no_grad():
        ours = named_outputs(task, task(batch))
    theirs, real = run(graphs, folder, ids, targets)
    worst = 0.0
    for name, value in ours.items():
        other = theirs[name][real] if by_token(task, name) else theirs[name]
        scale = max(1.0, value.abs().max().item())
        difference = (value - other).abs().max().item() / scale
        if not difference <= tolerance:  # NaN, too
            raise CheckpointError(
                f"{name} in onnxruntime differs from this model by {difference:.1e} of its "
                f"largest value, more than {tolerance:.0e}: nothing was written"
            )
        worst = max(worst, difference)
    return worst


def run(
    graphs: list[PaddedGraph], folder: Path, ids: Ids, targets: Ids | None
) -> tuple[dict[str, Tensor], Tensor]:
    """The outputs of the last file in onnxruntime, and where its real tokens are, (B, T)."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.log_severity_level = 3  # errors
    inputs = padded(ids, left=True)
    inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    for graph in graphs:
        session = InferenceSession(folder / graph.file, options, ["CPUExecutionProvider"])
        values = session.run(None, {name: inputs[name].numpy() for name in graph.inputs})
        outputs = dict(zip(graph.outputs, map(torch.from_numpy, values), strict=True))
        real = inputs["attention_mask"] > 0
        if targets is not None:  # the decoder is next
            states = {f"encoder_{name}": value for name, value in inputs.items()}
            states["encoder_hidden_states"] = outputs.get("last_hidden_state", real)
            inputs = {**states, **padded(targets)}
    return outputs, real


def padded(texts: Ids, *, left: bool = False) -> dict[str, Tensor]:
    """`input_ids` and `attention_mask`; every second text may be padded on the left."""
    longest = max(map(len, texts))
    ids, mask = (torch.zeros(len(texts), longest, dtype=torch.long) for _ in range(2))
    for i, text in enumerate(texts):
        start = longest - len(text) if left and i % 2 else 0
        ids[i, start : start + len(text)] = torch.tensor(text)
        mask[i, start : start + len(text)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def texts(lengths: tuple[int, ...], config: ModelConfig) -> list[list[int]]:
    """Random token ids."""
    draw = torch.Generator().manual_seed(1)
    sizes = [min(length, config.max_length) for length in lengths]
    return [torch.randint(config.vocab_size, (n,), generator=draw).tolist() for n in sizes]


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of the exporter and of the quantizer about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
