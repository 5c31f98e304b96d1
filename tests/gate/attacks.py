"""Published attacks on model loaders, made again without harm: a canary shows if one works.

`INERT` ones are no reason to refuse a folder: it loads, and what the attacker wrote stays text.
"""

import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from folders import edit_config, edit_tensors
from gate.damage import header, index, inside, instead, write
from gate.wholes import BERT, GPT2, MARIAN, SPLIT, WEIGHTS, WORDS, added, part

Make = Callable[[Path, Path], object]  # folder, canary
INERT = ("inert",)
TABLE = WORDS[BERT]


@dataclass(frozen=True)
class Attack:
    make: Make
    verdict: tuple[str, ...] = INERT  # or the words of the refusal
    base: str = BERT
    given: str = ""  # below the folder: what is opened


class Evil:
    """Unpickled, it makes the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = str(canary)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.canary,)


def code(canary: Path) -> str:
    return f"import os\nos.mkdir({str(canary)!r})\nclass Evil: pass\n"


def shell(canary: Path) -> str:
    return f"__import__('os').mkdir({str(canary)!r})"


def pickled(*names: str, alone: bool = False) -> Make:
    def make(folder: Path, canary: Path) -> None:
        if alone:
            (folder / WEIGHTS).unlink()
        for name in names:
            (folder / name).write_bytes(pickle.dumps(Evil(canary)))

    return make


def zipped(name: str, *, slip: str = "archive/version", alone: bool = False) -> Make:
    """A torch file is a zip with a pickle in it; another member may lead out of the folder."""

    def make(folder: Path, canary: Path) -> None:
        if alone:
            (folder / WEIGHTS).unlink()
        with zipfile.ZipFile(folder / name, "w") as file:
            file.writestr("archive/data.pkl", pickle.dumps(Evil(canary)))
            file.writestr(slip, "evil")

    return make


def tarred(name: str) -> Make:
    def make(folder: Path, canary: Path) -> None:
        with tarfile.open(folder / name, "w:gz") as file:
            link = tarfile.TarInfo("out")
            link.type, link.linkname = tarfile.SYMTYPE, str(canary.parent)
            file.addfile(link)
            inner = tarfile.TarInfo("out/canary")
            inner.size = 4
            file.addfile(inner, io.BytesIO(b"evil"))

    return make


def config(**changes: Any) -> Make:
    """Texts may say {code}, {shell} or {canary}."""

    def make(folder: Path, canary: Path) -> None:
        edit_config(folder, **filled(changes, canary))
        (folder / "evil.py").write_text(code(canary))

    return make


def file(name: str, data: Any) -> Make:
    return lambda folder, canary: write(folder, name, filled(data, canary))


def filled(data: Any, canary: Path) -> Any:
    if isinstance(data, str):
        data = data.replace("{shell}", shell(canary)).replace("{canary}", str(canary))
        return data.replace("{code}", code(canary))
    if isinstance(data, dict):
        return {key: filled(value, canary) for key, value in data.items()}
    return [filled(each, canary) for each in data] if isinstance(data, list) else data


def both(*makes: Make) -> Make:
    return lambda folder, canary: [make(folder, canary) for make in makes]


def damage(case: Any) -> Make:
    return lambda folder, canary: case.damage(folder)


def snapshot_link(target: str) -> Make:
    """A folder of the hub's cache whose blob leads elsewhere."""

    def make(folder: Path, canary: Path) -> None:
        home = folder / "models--a--b" / "snapshots" / "1"
        home.mkdir(parents=True)
        (folder / "models--a--b" / "blobs").mkdir()
        (home / "config.json").symlink_to(target)

    return make


TRUST = "if you trust it"
JINJA = "{{ cycler.__init__.__globals__.os.mkdir('{canary}') }}"
ENDLESS = "{% for a in range(10**12) %}{% for b in range(10**12) %}x{% endfor %}{% endfor %}"
AUTO = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoModelForMaskedLM": "evil.Evil"}

ATTACKS: dict[str, Attack] = {
    # pickles, in every door
    "CVE-2025-32434 torch.load(weights_only=True)": Attack(
        pickled("pytorch_model.bin", alone=True), ("pytorch_model.bin", TRUST)),
    "CVE-2026-24747 a pickle beside the weights": Attack(pickled("pytorch_model.bin")),
    "stanza: the safe way fails, the unsafe is taken": Attack(
        both(pickled("pytorch_model.bin"), file(WEIGHTS, "broken")), (WEIGHTS, "complete")),
    "CVE-2026-1839 rng_state.pth": Attack(pickled("rng_state.pth", "rng_state_0.pth")),
    "the trainer's own files": Attack(
        pickled("optimizer.pt", "scheduler.pt", "training_args.bin", "scaler.pt")),
    "CVE-2024-3568 a checkpoint of TensorFlow": Attack(
        pickled("extra_data.pickle", "tf_model.h5", alone=True), ("tf_model.h5", TRUST)),
    "CVE-2024-11392 a pickle called safetensors": Attack(pickled(WEIGHTS), (WEIGHTS, "complete")),
    "CVE-2024-11393 a pickle called config.json": Attack(
        pickled("config.json"), ("config.json", "UTF-8")),
    "CVE-2024-11394 a pickle called tokenizer.json": Attack(
        pickled("tokenizer.json"), ("tokenizer.json", "UTF-8")),
    "CVE-2025-14920 a converter's input": Attack(
        pickled("model.ckpt", alone=True), ("model.ckpt", TRUST)),
    "CVE-2024-8019 a checkpoint of Lightning": Attack(
        zipped("last.ckpt", alone=True), ("last.ckpt", TRUST)),
    "litgpt: lit_model.pth": Attack(pickled("lit_model.pth"), (TRUST,), given="lit_model.pth"),
    "nullifAI: a pickle in an archive": Attack(
        zipped("pytorch_model.bin", alone=True), ("pytorch_model.bin", TRUST)),
    "CVE-2025-1889 a pickle under another name": Attack(
        damage(index({TABLE: "weights.pkl"})), ("weight_map", "'weights.pkl'")),
    "CVE-2025-1944 a zip that scanners cannot read": Attack(
        zipped(WEIGHTS, slip="archive/../data.pkl"), (WEIGHTS, "complete")),
    "CVE-2025-10155 a pickle with a harmless name": Attack(pickled("vocab.npy", "model.joblib")),
    # code from the folder
    "CVE-2026-22807 auto_map": Attack(config(auto_map=AUTO, trust_remote_code=True)),
    "CVE-2025-66448 auto_map of another repository": Attack(
        config(auto_map={name: "evil/evil--" + value for name, value in AUTO.items()})),
    "CVE-2026-4372 _attn_implementation_internal": Attack(
        config(_attn_implementation_internal="evil/kernels:evil", attn_implementation="evil/k")),
    "keys that are attributes": Attack(
        config(__class__="evil.Evil", __init__="{shell}", to_dict="{shell}", __dict__={"a": 1})),
    "custom pipelines and generation": Attack(both(
        config(custom_pipelines={"evil": {"impl": "evil.Evil", "pt": ["AutoModel"]}}),
        file("generation_config.json", {"custom_generate": "evil/evil"}),
        file("custom_generate/generate.py", "{code}"))),
    "a tokenizer's auto_map": Attack(both(
        file("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", None]},
                                       "tokenizer_class": "evil.Evil"}),
        file("evil.py", "{code}"))),
    "a quantizer by its name": Attack(config(
        quantization_config={"quant_method": "evil", "modules": "evil.Evil"}, _foo="{shell}")),
    "modules beside the model": Attack(both(*(
        file(name, "{code}") for name in ("torch.py", "json.py", "glassformer.py", "__init__.py",
                                          "sitecustomize.py", "conftest.py", "setup.py")))),
    "CVE-2025-1550 a class from the config": Attack(
        config(model_type="os", architectures=["system"]), ("model_type", "'os'")),
    "CVE-2025-8747 a class with a module": Attack(
        config(architectures=[{"module": "os", "class_name": "mkdir"}]), ("architectures",)),
    "CVE-2026-1462 a Lambda layer": Attack(
        file("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "keras.layers.Lambda"}]),
        ("modules.json", "'keras.layers.Lambda'")),
    "CVE-2025-9905 a module of the folder": Attack(
        both(file("modules.json", [{"type": "evil.Evil", "path": "."}]), file("evil.py", "{code}")),
        ("modules.json", "'evil.Evil'")),
    "CVE-2024-34359 a chat template is code": Attack(
        file("tokenizer_config.json", {"chat_template": JINJA})),
    "CVE-2026-5760 a chat template in a file": Attack(file("chat_template.jinja", JINJA)),
    "CVE-2025-61620 a chat template that never ends": Attack(file("tokenizer_config.json", {
        "chat_template": ENDLESS})),
    # names of files
    "transformers 46890 transformers_weights": Attack(
        config(transformers_weights="../secret.safetensors")),
    "transformers 46279 vocab_file": Attack(
        file("tokenizer_config.json", {"vocab_file": "/etc/passwd", "merges_file": "../secret"})),
    "transformers 46191 a template's name, on saving": Attack(file("tokenizer_config.json", {
        "chat_template": [{"name": "../../canary", "template": "evil"}]})),
    "transformers 47498 a file's name as a pattern": Attack(both(
        file("tokenizer.(a+)+$.json", "{}"), file("(x+x+)+y.safetensors", ""))),
    "CVE-2024-5187 a shard above": Attack(
        damage(index({TABLE: "../secret.safetensors"})), ("weight_map", "../secret")),
    "CVE-2024-27318 a shard of the system": Attack(
        damage(index({TABLE: "/etc/passwd"})), ("weight_map", "'/etc/passwd'")),
    "onnx: external data": Attack(file("model.onnx", "location\0../../secret")),
    "CVE-2024-37032 a blob's name": Attack(
        snapshot_link("../../blobs/../../../secret"), ("config.json", "a link"),
        given="models--a--b/snapshots/1"),
    "CVE-2025-12058 a vocabulary by its path": Attack(
        damage(inside(model__vocab="/etc/passwd")), ("vocab", "'/etc/passwd'")),
    "CVE-2025-3777 an address in the config": Attack(
        config(_name_or_path="http://127.0.0.1:9/evil", base_model="https://youtube.com.evil")),
    "a link to the passwords": Attack(
        lambda folder, canary: instead("/etc/passwd", "config.json")(folder),
        ("config.json", "a link to '/etc/passwd'")),
    "a link to a device": Attack(
        lambda folder, canary: instead("/dev/zero", "vocab.txt")(folder), ("vocab.txt", "a link")),
    "a FIFO that nobody fills": Attack(
        lambda folder, canary: instead("a FIFO", "tokenizer.json")(folder),
        ("tokenizer.json", "a FIFO")),
    # archives
    "CVE-2024-45436 zip slip": Attack(
        zipped("model.zip", slip="../../canary"), ("unpack it",), given="model.zip"),
    "CVE-2024-7773 zip slip beside the model": Attack(zipped("model.zip", slip="/tmp/canary")),
    "CVE-2025-12060 a link in a tar": Attack(
        tarred("model.tar.gz"), ("unpack it",), given="model.tar.gz"),
    "CVE-2024-12886 a gzip bomb": Attack(both(
        file("config.json.gz", b"\x1f\x8b\x08\0" + bytes(1 << 20)), tarred("weights.tgz"))),
    # sizes
    "CVE-2026-53923 sizes cut to 32 bits": Attack(
        damage(header(lambda h: h[TABLE].update(shape=[(1 << 32) + 53, 12]))), ("shape", TABLE)),
    "CVE-2026-7482 Bleeding Llama: past the end": Attack(
        damage(header(lambda h: h[TABLE].update(data_offsets=[1 << 20, (1 << 20) + 2544]))),
        ("data_offsets", TABLE)),
    "safetensors audit: tensors on one another": Attack(
        damage(header(lambda h: h[TABLE].update(data_offsets=[0, 2544]))), ("data_offsets",)),
    "safetensors audit: bytes of nobody": Attack(
        lambda folder, canary: (folder / WEIGHTS).write_bytes(
            (folder / WEIGHTS).read_bytes() + b"PK\x03\x04"), (WEIGHTS, "complete")),
    "huntr: empty tensors at one place": Attack(
        lambda folder, canary: edit_tensors(
            folder, lambda t: t.update({f"e{i}": torch.zeros(0) for i in range(9)})), ("'e0'",)),
    "300,000 tensors": Attack(damage(header(lambda h: {
        f"t{i}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(300_000)})),
        (WEIGHTS, "header")),
    "memory by a number in the config": Attack(config(vocab_size=10**9), ("vocab_size",)),
    "a loop by a number in the config": Attack(
        config(num_hidden_layers=10**9, layer_types=[]), ("num_hidden_layers",),
        "ModernBertForMaskedLM"),
    "weights that poison": Attack(
        lambda folder, canary: edit_tensors(folder, lambda t: t[TABLE].fill_(float("nan"))),
        (TABLE, "NaN")),
    # parsers that disagree
    "a key twice": Attack(
        file("config.json", '{"model_type": "evil", "model_type": "bert"}'), ("'model_type'",)),
    "a byte order mark": Attack(file("config.json", "\ufeff{}"), ("byte order mark",)),
    "an abyss": Attack(file("config.json", '{"a":' * 20_000), ("64 levels",)),
    "a message that rewrites the screen": Attack(
        lambda folder, canary: edit_tensors(
            folder, lambda t: t.update({"\x1b[2J\x1b[Hloaded safely": torch.ones(1)})),
        ("\\x1b[2J",)),
    # tokenizers
    "CVE-2025-6638 a pattern that never ends": Attack(
        damage(inside(pre_tokenizer=SPLIT | {"pattern": {"Regex": r"(\w+\s?)*$"}})),
        ("pre_tokenizer", "pattern")),
    "CVE-2025-6051 the same in a normalizer": Attack(
        damage(inside(normalizer=part("Replace", pattern={"Regex": r"(\d+)+x"}, content=""))),
        ("normalizer", "pattern")),
    "CVE-2024-12720 the same in a decoder": Attack(
        damage(inside(decoder=part("Replace", pattern={"Regex": r"(.*)*\n"}, content=""))),
        ("decoder", "pattern")),
    "a panic of the library": Attack(
        damage(inside(base=GPT2, model__continuing_subword_prefix="####")), ("merges",), GPT2),
    "padding that ends the process": Attack(damage(inside(padding={
        "strategy": {"Fixed": 1 << 31}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": ""}))),
    "four gigabytes for a map of characters": Attack(
        damage(inside(base=MARIAN, normalizer=part(
            "Precompiled", precompiled_charsmap="/////wAAAAA="))),
        ("precompiled_charsmap",), MARIAN),
    "thirty replacements, each twice as long": Attack(
        damage(inside(normalizer=part("Sequence", normalizers=[
            part("Replace", pattern={"String": " "}, content="  ")] * 15))), ("Replace",)),
    "a token that is all of the text": Attack(
        damage(inside(added_tokens=[added(46, "x" * 10**6)])), ("added_tokens", "content")),
}  # fmt: skip


def onto(name: str, kind: str) -> Callable[[Path, Path], None]:
    """A folder to save into where a name leads to somebody's file."""

    def make(target: Path, victim: Path) -> None:
        target.mkdir()
        victim.mkdir()
        (victim / "config.json").write_text('{"mine": true}')
        is_main = victim if "." not in Path(name).name else victim / "config.json"
        if kind == "a link":
            (target / name).symlink_to(is_main)
        else:
            instead(kind, name)(target)

    return make


SAVES: dict[str, tuple[Callable[[Path, Path], None], tuple[str, ...]]] = {
    "config.json is a link": (onto("config.json", "a link"), INERT),
    "model.safetensors is a link": (onto(WEIGHTS, "a link"), INERT),
    "config.json is a FIFO": (onto("config.json", "a FIFO"), INERT),
    "an old shard is a link": (onto("model-00001-of-00002.safetensors", "a link"), INERT),
    "1_Pooling is a link": (onto("1_Pooling", "a link"), ("1_Pooling", "a link")),
    "1_Pooling is a FIFO": (onto("1_Pooling", "a FIFO"), ("1_Pooling", "a FIFO")),
    "config.json is a folder": (onto("config.json", "a folder"), ("config.json", "a folder")),
    "vocab.txt is a folder": (onto("vocab.txt", "a folder"), ("vocab.txt", "a folder")),
}
