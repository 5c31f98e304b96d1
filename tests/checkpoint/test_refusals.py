"""Folders that are not whole, not known or not safe: each gets one line that says why."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import folders
import glassformer as gf
from folders import GONE, INDEX, WEIGHTS, edit_config, edit_tensors, read_tensors, write_tensors
from glassformer.errors import GlassformerError

Damage = Callable[[Path], object]
BERT, CLASSIFY, GPT2, MARIAN = (
    "BertForMaskedLM", "BertForSequenceClassification", "GPT2LMHeadModel", "MarianMTModel",
)  # fmt: skip
BESIDE = ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One good folder of each kind, to be copied and then damaged."""
    home = tmp_path_factory.mktemp("whole")
    return {name: folders.write(name, home / name) for name in (BERT, CLASSIFY, GPT2, MARIAN)}


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    """A folder that hangs the reader must fail here, not stop the run."""

    def late(*_: object) -> None:
        raise TimeoutError("still reading after 30 seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refusal(folder: Path, *words: str) -> str:
    with pytest.raises(GlassformerError) as caught:
        gf.load(folder)
    line = folders.one_line(caught.value, *words)
    assert str(folder) in line or any(each in line for each in BESIDE), line
    return line


def config(**changes: Any) -> Damage:
    return lambda folder: edit_config(folder, **changes)


def text(content: str, name: str = "config.json") -> Damage:
    return lambda folder: (folder / name).write_text(content)


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    return lambda folder: edit_tensors(folder, change)


def one_number(number: float, name: str = WORDS) -> Damage:
    return tensors(lambda found: found[name].view(-1)[3].fill_(number))


def cut(keep: float) -> Damage:
    def change(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(data[: int(len(data) * keep)])

    return change


def too_big(name: str) -> Damage:
    """A file with a hole: large to read, small on the disk."""
    return lambda folder: os.truncate(folder / name, (16 << 20) + 1)


def index(*names: str) -> Damage:
    """The file's tensors dealt out over these files, none of which need be there."""

    def change(folder: Path) -> None:
        found = list(read_tensors(folder))
        (folder / WEIGHTS).rename(folder / "model-1.safetensors")
        pairs = ((name, names[i % len(names)]) for i, name in enumerate(found))
        (folder / INDEX).write_text(folders.json.dumps({"weight_map": dict(pairs)}))

    return change


def in_two_shards(folder: Path) -> None:
    index("model-1.safetensors", "model-2.safetensors")(folder)
    write_tensors(folder, {WORDS: torch.zeros(53, 12)}, "model-2.safetensors")


def only_pickle(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04N.")


def fifo(name: str) -> Damage:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


REFUSED: dict[str, tuple[str, Damage, tuple[str, ...]]] = {
    # the files
    "no config": (BERT, lambda f: (f / "config.json").unlink(), ("config.json",)),
    "no weights": (BERT, lambda f: (f / WEIGHTS).unlink(), (WEIGHTS,)),
    "config is a FIFO": (BERT, fifo("config.json"), ("config.json",)),
    "weights are a FIFO": (BERT, fifo(WEIGHTS), (WEIGHTS,)),
    "only a pickle": (BERT, only_pickle, ("pytorch_model.bin", "safetensors")),
    # config.json as text
    "empty config": (BERT, text(""), ("config.json",)),
    "broken JSON": (BERT, text('{"model_type": "bert",'), ("config.json", "JSON")),
    "NaN": (BERT, text('{"layer_norm_eps": NaN}'), ("config.json", "NaN")),
    "minus infinity": (BERT, text('{"x": -Infinity}'), ("config.json", "-Infinity")),
    "a key twice": (BERT, text('{"vocab_size": 1, "vocab_size": 2}'), ("'vocab_size'", "twice")),
    "a list": (BERT, text("[]"), ("config.json", "list")),
    "a number": (BERT, text("7"), ("config.json", "int")),
    "too deep": (BERT, text('{"a":' + "[" * 100_000), ("config.json",)),
    "too many digits": (BERT, text('{"a": ' + "9" * 5000 + "}"), ("config.json",)),
    "too big": (BERT, too_big("config.json"), ("config.json", "16,777,217")),
    "no text": (BERT, lambda f: (f / "config.json").write_bytes(b"{\xff}"), ("config.json",)),
    # values of config.json
    "unknown model": (BERT, config(model_type="mamba"), ("model_type", "'mamba'")),
    "no model type": (BERT, config(model_type=GONE), ("model_type", "None")),
    "model type is a list": (BERT, config(model_type=["bert"]), ("model_type", "['bert']")),
    "unknown class": (BERT, config(architectures=["BertLMHeadModel"]), ("BertLMHeadModel",)),
    "class of another": (BERT, config(architectures=["GPT2Model"]), ("'GPT2Model'",)),
    "class is a list": (BERT, config(architectures=[["a"]]), ("architectures", "[['a']]")),
    "relative positions": (
        BERT, config(position_embedding_type="relative_key"),
        ("position_embedding_type", "'relative_key'"),
    ),
    "is a decoder": (BERT, config(is_decoder=True), ("is_decoder", "True")),
    "unknown activation": (BERT, config(hidden_act="tanh"), ("hidden_act", "'tanh'")),
    "activation is a list": (BERT, config(hidden_act=["gelu"]), ("hidden_act", "['gelu']")),
    "null width": (GPT2, config(n_embd=None, n_inner=None), ("[53, 12]", "768")),
    "width is an object": (GPT2, config(n_embd={}, n_inner=None), ("{}",)),
    "width missing": (BERT, config(hidden_size=GONE), (WORDS, "[53, 12]", "768")),
    "heads that do not divide": (BERT, config(num_attention_heads=5), ("5", "12")),
    "too many layers": (BERT, config(num_hidden_layers=10**9), ("1000000000",)),
    "too many layers to write": (MARIAN, config(decoder_layers=10**9), ("1000000002",)),
    "one layer too many": (BERT, config(num_hidden_layers=3), ("encoder.layer.2.",)),
    "a table too long": (MARIAN, config(max_position_embeddings=10**12), ("1000000000000",)),
    "too many labels": (CLASSIFY, config(num_labels=10**12), ("num_labels", "1000000000000")),
    "labels as a string": (CLASSIFY, config(id2label="yes"), ("id2label", "'yes'")),
    "labels as words": (CLASSIFY, config(id2label={"a": "b"}), ("id2label", "{'a': 'b'}")),
    "no labels": (CLASSIFY, config(id2label={}), ("{}",)),
    "labels from one": (CLASSIFY, config(id2label={"1": "a", "2": "b"}), ("id2label",)),
    "another number of labels": (CLASSIFY, config(id2label={"0": "a"}), ("classifier", "[1, 12]")),
    # tensors
    "a tensor missing": (BERT, tensors(lambda t: t.pop(WORDS)), ("word_embeddings",)),
    "a tensor unknown": (
        BERT, tensors(lambda t: t.update({"evil.weight": torch.zeros(3)})), ("'evil.weight'",),
    ),
    "another shape": (
        BERT, tensors(lambda t: t.update({WORDS: torch.zeros(54, 12)})),
        (WORDS, "[54, 12]", "[53, 12]"),
    ),
    "a matrix the other way": (
        BERT, tensors(lambda t: t.update({WORDS: t[WORDS].T.contiguous()})), (WORDS, "[12, 53]"),
    ),
    "NaN weight": (BERT, one_number(float("nan")), (WORDS, "NaN")),
    "infinite weight": (BERT, one_number(float("inf")), (WORDS, "infinity")),
    "whole numbers as weights": (
        BERT, tensors(lambda t: t.update({WORDS: torch.ones(53, 12, dtype=torch.long)})), (WORDS,),
    ),
    "complex weights": (
        BERT, tensors(lambda t: t.update({WORDS: torch.ones(53, 12, dtype=torch.cfloat)})),
        (WORDS,),
    ),
    # model.safetensors
    "empty weights": (BERT, cut(0), (WEIGHTS,)),
    "half a header": (BERT, cut(0.01), (WEIGHTS,)),
    "weights cut off": (BERT, cut(0.9), (WEIGHTS,)),
    "weights are text": (BERT, text("hello", WEIGHTS), (WEIGHTS,)),
    # the index
    "a file above": (BERT, index("../evil.safetensors"), (INDEX, "'../evil.safetensors'")),
    "a file of the system": (BERT, index("/etc/passwd"), (INDEX, "'/etc/passwd'")),
    "a file that is none": (BERT, index("a\0.safetensors"), ("\\x00",)),
    "a name over two lines": (BERT, index("a\nb.safetensors"), ("a\\nb.safetensors",)),
    "half a letter": (BERT, index("\ud800.safetensors"), ("\\ud800",)),
    "a shard missing": (BERT, index("model-2.safetensors"), ("model-2.safetensors", "missing")),
    "a tensor in two shards": (BERT, in_two_shards, (WORDS, "model-2.safetensors")),
    "an empty index": (BERT, lambda f: (index("a")(f), text("{}", INDEX)(f)), ("weight_map",)),
    # the tokenizer and the files beside it
    "a broken tokenizer": (BERT, text("{", "tokenizer.json"), ("tokenizer.json",)),
    "an unknown tokenizer": (
        BERT, text('{"model": {"type": "Evil"}}', "tokenizer.json"), ("tokenizer.json",),
    ),
    "a broken vocabulary": (
        GPT2, lambda f: (text("[", "vocab.json")(f), text("", "merges.txt")(f)), ("vocab.json",),
    ),
    "too many words": (
        BERT, text("\n".join(["[UNK]", "[CLS]", "[SEP]", *map(str, range(51))]), "vocab.txt"),
        ("53", "vocab_size"),
    ),
    "modules are no list": (BERT, text('{"a": 1}', "modules.json"), ("modules.json",)),
    "modules are numbers": (BERT, text("[1]", "modules.json"), ("modules.json",)),
    "modules too deep": (BERT, text("[" * 100_000, "modules.json"), ("modules.json",)),
    "a length in words": (
        BERT, text('{"max_seq_length": "256"}', "sentence_bert_config.json"),
        ("sentence_bert_config.json", "'256'"),
    ),
    "settings are a list": (
        BERT, text("[]", "sentence_bert_config.json"), ("sentence_bert_config.json",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_folder_gets_one_line(name: str, whole: dict[str, Path], tmp_path: Path) -> None:
    kind, damage, words = REFUSED[name]
    folder = folders.copy(whole[kind], tmp_path / "damaged")
    damage(folder)
    refusal(folder, *words)


POOLING = {
    "pooling is a list": ("[]", "config.json"),
    "unknown pooling": ('{"pooling_mode_max_tokens": true}', "max_tokens"),
    "two poolings": (
        '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', "cls_token",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLING)
def test_a_damaged_pooling_gets_one_line(name: str, whole: dict[str, Path], tmp_path: Path) -> None:
    content, word = POOLING[name]
    folder = folders.copy(whole[BERT], tmp_path / "damaged")
    (folder / "1_Pooling").mkdir()
    text(content, "1_Pooling/config.json")(folder)
    refusal(folder, "1_Pooling", word)


SIZES = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
         "num_attention_heads", "type_vocab_size", "max_position_embeddings"]  # fmt: skip
WRONG = {
    "a string": str, "true": lambda _: True, "negative": lambda right: -right,
    "a fraction": lambda right: right + 0.5, "a float too large": lambda _: 1e99,
    "a list": lambda right: [right], "an object": lambda _: {"a": 1},
    "too large": lambda right: right * 10**17, "much too large": lambda right: right * 10**30,
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("key", SIZES)
def test_a_size_is_a_whole_number_that_fits(
    key: str, wrong: str, whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders.copy(whole[BERT], tmp_path / "damaged")
    edit_config(folder, **{key: WRONG[wrong](folders.read_config(folder)[key])})
    refusal(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("hidden_size", -12), ("num_hidden_layers", -1), ("layer_norm_eps", -1.0),
     ("hidden_dropout_prob", 2), ("pad_token_id", "x"), ("num_attention_heads", 5)],
)  # fmt: skip
def test_a_field_is_named_as_its_file_names_it(
    key: str, value: Any, whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders.copy(whole[BERT], tmp_path / "damaged")
    edit_config(folder, **{key: value})
    refusal(folder, key, repr(value))


@pytest.mark.parametrize(
    ("name", "change"),
    [(BERT, {"num_hidden_layers": 1}), (BERT, {"type_vocab_size": 0}), (GPT2, {"n_layer": 1}),
     (MARIAN, {"encoder_layers": 1}), (MARIAN, {"decoder_layers": 2})], ids=str,
)  # fmt: skip
def test_a_config_that_leaves_weights_of_the_body_over_is_refused(
    name: str, change: dict[str, int], whole: dict[str, Path], tmp_path: Path
) -> None:
    """A layer that is in the file and not in the model would be dropped without a word."""
    folder = folders.copy(whole[name], tmp_path / "damaged")
    edit_config(folder, **change)
    refusal(folder)


def test_no_folder(tmp_path: Path) -> None:
    refusal(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    refusal(tmp_path / "file")


@pytest.mark.parametrize("name", [INDEX, "tokenizer.json", "modules.json", "vocab.txt"])
def test_a_fifo_beside_the_model_hangs_nobody(
    name: str, whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders.copy(whole[BERT], tmp_path / "damaged")
    fifo(name)(folder)
    assert gf.load(folder).tokenizer is None


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ.get("EVIL", "evil was here"),)


WATCHED = """
    import os
    import sys

    import glassformer as gf

    clean, evil = sys.argv[1:]
    model = gf.load(clean)  # everything that is imported late is imported now
    model.hidden([[1, 2, 3]])
    seen = []
    sys.addaudithook(lambda event, args: seen.append((event, args)))
    gf.load(evil).hidden([[1, 2, 3]])
    events = list(seen)
    for event, args in events:
        opened = str(args[0]) if event == "open" else ""
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        bad = event.split(".")[0] in ("pickle", "exec", "compile", "import", "subprocess", "socket")
        if bad or writes or event in ("os.system", "os.exec", "os.mkdir", "os.rename", "os.remove"):
            print(event, args)
        if opened.endswith((".bin", ".py", ".pkl")) or opened.startswith("/etc"):
            print(event, args)
    print(any(event == "open" and "config.json" in str(args[0]) for event, args in events))
"""


def test_nothing_in_a_folder_is_executed(whole: dict[str, Path], tmp_path: Path) -> None:
    folder = folders.copy(whole[BERT], tmp_path / "evil")
    edit_config(
        folder,
        auto_map={"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"},
        custom_pipelines={"evil": {"impl": "evil.Pipeline"}},
        trust_remote_code=True,
    )
    marker = tmp_path / "evil was here"
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(marker)!r})\n")
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pkl"):
        (folder / name).write_bytes(pickle.dumps(Evil()))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WATCHED), str(whole[BERT]), str(folder)],
        capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, "EVIL": str(marker), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.stdout == "True\n"
    assert not marker.exists()
