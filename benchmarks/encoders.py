"""Embeddings on a CPU: seconds and accuracy in float32 and int8, beside four other libraries.

    python benchmarks/encoders.py                   BERT-base with random weights, 64 ragged texts
    python benchmarks/encoders.py --model FOLDER    another BERT model, such as all-MiniLM-L6-v2
    python benchmarks/encoders.py --file F.txt      the first lines of a file, with the model's
                                                    tokenizer, instead of random tokens
    python benchmarks/encoders.py --tiny            a tiny model, to see that it runs
    python benchmarks/encoders.py --shared          one thread, by processor time: on a machine that
                                                    other programs use, too

Every peer reads batches of texts that are sorted by length, of the size that suits it best, and
pools the mean of each text's last vectors; glassformer reads the texts in their order. Each library
has a process of its own, and they take turns. The graph of
onnxruntime is exported by torch and fused by its own optimizer for transformers; its int8 weights
and those of CTranslate2 are rounded by their own converters. The error is the largest
1 − cosine to our vectors in float32.
"""

from __future__ import annotations

import argparse
import lzma
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import tokenizers
import torch
import transformers
from torch import Tensor, nn

import glassformer as gf
from forward import lognormal
from turns import Library, be_quiet

Texts = list[list[int]]
Peer = Callable[[Texts], Tensor]  # the vectors of one batch
Ways = dict[str, Callable[[], Tensor]]
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def padded_ids(texts: Texts) -> tuple[Tensor, Tensor]:  # (B, T), (B, T)
    ids = nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    lengths = torch.tensor([len(text) for text in texts])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def with_glassformer(folder: Path, dtype: str, texts: Texts) -> Ways:
    model = gf.load(folder)
    model = model if dtype == "float32" else model.quantize("int8")
    return {"glassformer": lambda: model.task.vectors(texts)}


def with_transformers(folder: Path) -> Peer:
    reference = transformers.BertModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def embed(texts: Texts) -> Tensor:
        ids, mask = padded_ids(texts)
        return pooled(reference(input_ids=ids, attention_mask=mask).last_hidden_state, mask)

    return embed


def with_sentence_transformers(folder: Path) -> Peer:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")

    def embed(texts: Texts) -> Tensor:
        ids, mask = padded_ids(texts)
        features = {"input_ids": ids, "attention_mask": mask}
        vectors: Tensor = model.forward(features)["sentence_embedding"]
        return vectors

    return embed


def with_onnxruntime(path: Path) -> Peer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(texts: Texts) -> Tensor:
        ids, mask = padded_ids(texts)
        arrays = (each.numpy() for each in (ids, mask, torch.zeros_like(ids)))
        (hidden,) = session.run(None, dict(zip(INPUTS, arrays, strict=True)))
        return pooled(torch.from_numpy(hidden), mask)

    return embed


def with_ctranslate2(folder: Path) -> Peer:
    import ctranslate2

    threads = torch.get_num_threads()
    encoder = ctranslate2.Encoder(str(folder), device="cpu", intra_threads=threads)

    def embed(texts: Texts) -> Tensor:
        hidden = torch.from_numpy(numpy.array(encoder.forward_batch(texts).last_hidden_state))
        return pooled(hidden, padded_ids(texts)[1])

    return embed


def peers(folder: Path, home: Path) -> dict[str, dict[str, Callable[[], Peer]]]:
    """By dtype and name, for the BERT model in `folder`; their files are written below `home`."""
    if not (folder / "tokenizer.json").is_file():
        write_tokenizer(folder)
    by_dtype: dict[str, dict[str, Callable[[], Peer]]] = {"float32": {}, "int8": {}}
    by_dtype["float32"]["transformers"] = partial(with_transformers, folder)
    by_dtype["float32"]["sentence-transformers"] = partial(with_sentence_transformers, folder)
    for dtype, path in onnx_files(folder, home).items():
        by_dtype[dtype]["onnxruntime"] = partial(with_onnxruntime, path)
    for dtype, converted in ctranslate2_folders(folder, home).items():
        by_dtype[dtype]["CTranslate2"] = partial(with_ctranslate2, converted)
    return by_dtype


def batched(name: str, load: Callable[[], Peer], texts: Texts, sizes: Sequence[int]) -> Ways:
    """A peer that reads the texts by their lengths, in batches of several sizes."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    ordered, peer = [texts[i] for i in order], load()

    def by(size: int) -> Tensor:
        parts = [ordered[i : i + size] for i in range(0, len(ordered), size)]
        return torch.cat([peer(part) for part in parts])[torch.tensor(order).argsort()]

    return {f"{name}, {size} a batch": partial(by, size) for size in sizes}


class LastHidden(nn.Module):
    """The only output that is needed, by the names of the inputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> Tensor:
        inputs = dict(zip(INPUTS, (ids, mask, kinds), strict=True))
        hidden: Tensor = self.model(**inputs).last_hidden_state
        return hidden


def onnx_files(folder: Path, home: Path) -> dict[str, Path]:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model

    # Its optimizer recognizes attention that is written out, and not torch's kernel.
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    exported, fused, int8 = (home / f"{name}.onnx" for name in ("exported", "float32", "int8"))
    ids = torch.full((2, 16), 1000)
    torch.onnx.export(
        LastHidden(model), (ids, torch.ones_like(ids), torch.zeros_like(ids)), exported,
        input_names=list(INPUTS), output_names=["hidden"], dynamo=False, opset_version=17,
        dynamic_axes={name: {0: "B", 1: "T"} for name in (*INPUTS, "hidden")},
    )  # fmt: skip
    sizes: dict[str, Any] = {
        "num_heads": model.config.num_attention_heads, "hidden_size": model.config.hidden_size
    }  # fmt: skip
    optimize_model(str(exported), "bert", opt_level=0, **sizes).save_model_to_file(str(fused))
    quantize_dynamic(
        fused, int8, per_channel=True, weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Attention"],
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )  # fmt: skip
    return {"float32": fused, "int8": int8}


def write_tokenizer(folder: Path) -> None:
    """The converters expect one: token i is t<i>."""
    size = transformers.AutoConfig.from_pretrained(folder).vocab_size
    words = tokenizers.models.WordLevel({f"t{i}": i for i in range(size)}, unk_token="t1")
    special = dict.fromkeys(("pad_token", "cls_token", "sep_token"), "t0")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(words), unk_token="t1", **special
    ).save_pretrained(folder)


def ctranslate2_folders(folder: Path, home: Path) -> dict[str, Path]:
    import ctranslate2

    folders = {dtype: home / f"ctranslate2-{dtype}" for dtype in ("float32", "int8")}
    for dtype, out in folders.items():
        converter = ctranslate2.converters.TransformersConverter(str(folder))
        converter.convert(str(out), quantization=dtype, force=True)
    return folders


def random_bert(folder: Path, tiny: bool) -> Path:
    torch.manual_seed(0)
    sizes = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2} if tiny else {}
    config = transformers.BertConfig(position_embedding_type="absolute", **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def read_texts(path: Path | None, folder: Path, count: int) -> Texts:
    if path is None:
        return lognormal(64)[:count]
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
        lines = [*islice((line.strip() for line in file if line.strip()), count)]
    tokenizer = gf.load(folder).tokenizer
    assert tokenizer is not None
    return [encoding.ids[:512] for encoding in tokenizer.encode_all(lines)]


def race(dtype: str, builds: list[Callable[[], Ways]], rounds: int, shared: bool) -> None:
    """Print the best of several rounds, in turns, for each peer with its best batch size."""
    best: dict[str, dict[str, float]] = {}
    errors: dict[str, float] = {}
    with ExitStack() as stack:
        libraries = [stack.enter_context(Library(build, shared=shared)) for build in builds]
        exact, *libraries = libraries
        reference = exact.run("glassformer")[0].double()
        for turn in range(rounds + 1):
            for library in libraries:
                for name in library.names:
                    vectors, seconds = library.run(name)
                    times = best.setdefault(name.split(",")[0], {})
                    if turn > 0:  # the first round warms up
                        times[name] = min(times.get(name, math.inf), seconds)
                    cosine = torch.cosine_similarity(vectors.double(), reference)
                    errors[name] = float(1 - cosine.min())
    mine = best["glassformer"]["glassformer"]
    for library_name, times in best.items():
        name = min(times, key=times.__getitem__)
        how = name.removeprefix(library_name)
        ratio = "" if not how else f"{times[name] / mine:6.2f} ×{how}"
        print(
            f"{dtype:9s}{library_name:24s}{times[name]:8.3f} s  error {errors[name]:.1e}{ratio}",
            flush=True,
        )


@torch.no_grad()
def main() -> None:
    about = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--shared", action="store_true")
    asked = parser.parse_args()
    be_quiet()
    with tempfile.TemporaryDirectory() as home:
        folder = asked.model or random_bert(Path(home) / "bert", asked.tiny)
        texts = read_texts(asked.file, folder, 4 if asked.tiny else asked.texts)
        count, threads = sum(map(len, texts)), 1 if asked.shared else torch.get_num_threads()
        print(f"{folder.name}, {len(texts)} texts, {count} tokens, {threads} thread(s)", flush=True)
        sizes, rounds = ((2,), 1) if asked.tiny else ((1, 2, 4), asked.rounds)
        exact = partial(with_glassformer, folder, "float32", texts)
        for dtype, others in peers(folder, Path(home)).items():
            builds = [exact, partial(with_glassformer, folder, dtype, texts)]
            builds += [partial(batched, name, peer, texts, sizes) for name, peer in others.items()]
            race(dtype, builds, rounds, asked.shared)


if __name__ == "__main__":
    main()
