"""Peers of `forward.py` on a CPU: each embeds texts with the same weights, as well as it can.

Every peer reads batches of texts that are sorted by length and returns the mean of each text's last
vectors. Those of onnxruntime are exported by torch and fused by onnxruntime's own optimizer for
transformers; its int8 weights and those of CTranslate2 are rounded by their own converters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import tokenizers
import torch
import transformers
from torch import Tensor, nn

Texts = list[list[int]]
Peer = Callable[[Texts], Tensor]  # the vectors of one batch
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def padded_ids(texts: Texts) -> tuple[Tensor, Tensor]:  # (B, T), (B, T)
    ids = nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    lengths = torch.tensor([len(text) for text in texts])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def with_transformers(reference: nn.Module) -> Peer:
    def embed(texts: Texts) -> Tensor:
        ids, mask = padded_ids(texts)
        return pooled(reference(input_ids=ids, attention_mask=mask).last_hidden_state, mask)

    return embed


def with_onnxruntime(path: Path, threads: int) -> Peer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(texts: Texts) -> Tensor:
        ids, mask = padded_ids(texts)
        arrays = (each.numpy() for each in (ids, mask, torch.zeros_like(ids)))
        (hidden,) = session.run(None, dict(zip(INPUTS, arrays, strict=True)))
        return pooled(torch.from_numpy(hidden), mask)

    return embed


def with_ctranslate2(folder: Path, threads: int) -> Peer:
    import ctranslate2

    encoder = ctranslate2.Encoder(str(folder), device="cpu", intra_threads=threads)

    def embed(texts: Texts) -> Tensor:
        hidden = torch.from_numpy(numpy.array(encoder.forward_batch(texts).last_hidden_state))
        return pooled(hidden, padded_ids(texts)[1])

    return embed


def peers(folder: Path, home: Path, threads: int) -> dict[str, dict[str, Peer]]:
    """By dtype and name, for the BERT model in `folder`; their files are written below `home`."""
    reference = transformers.BertModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    found: dict[str, dict[str, Peer]] = {
        "float32": {"transformers": with_transformers(reference)}, "int8": {}
    }  # fmt: skip
    with warnings.catch_warnings():  # the exporter's own
        warnings.simplefilter("ignore")
        for dtype, path in onnx_files(folder, home).items():
            found[dtype]["onnxruntime"] = with_onnxruntime(path, threads)
    for dtype, converted in ctranslate2_folders(folder, home).items():
        found[dtype]["CTranslate2"] = with_ctranslate2(converted, threads)
    return found


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


def ctranslate2_folders(folder: Path, home: Path) -> dict[str, Path]:
    import ctranslate2

    if not (folder / "tokenizer.json").is_file():  # random weights: token i is t<i>
        vocab = {
            f"t{i}": i for i in range(transformers.AutoConfig.from_pretrained(folder).vocab_size)
        }
        backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="t1"))
        made = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="t1")
        made.save_pretrained(folder)
    folders = {dtype: home / f"ctranslate2-{dtype}" for dtype in ("float32", "int8")}
    for dtype, out in folders.items():
        converter = ctranslate2.converters.TransformersConverter(str(folder))
        converter.convert(str(out), quantization=dtype, force=True)
    return folders
