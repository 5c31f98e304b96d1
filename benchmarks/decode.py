"""Tokens per second in generation, beside transformers and CTranslate2 on the same weights.

    python benchmarks/decode.py                 GPT-2 with one text, 16 translations at once
    python benchmarks/decode.py --only gpt      one of gpt, pairs, growth
    python benchmarks/decode.py --compiled      with compiled steps, too
    python benchmarks/decode.py --draft MODEL   with and without guesses by prompt lookup
    python benchmarks/decode.py --tiny          small sizes, to check that it runs
    python benchmarks/decode.py --shared        one thread, by processor time: on a machine that
                                                other programs use, too
    python benchmarks/decode.py --cuda          GPT-2 in bf16 on a GPU, one text and 64 at once

Peers are transformers and (pip install ctranslate2) CTranslate2, each in its best configuration
and in a process of its own; every number is the best of several rounds, in turns. `growth` shows
what a step costs as the cache grows, and that the order of the texts in a batch does not matter.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

import glassformer as gf
from glassformer.generate.engine import Engine
from turns import Library, be_quiet

STEPS = 6  # in a round
Way = Callable[[], int]  # does the work once; returns the number of tokens or sentences


def word_tokenizer(folder: Path, size: int, end: int, pad: int | None = None) -> None:
    """CTranslate2 expects strings: token i is t<i>."""
    words = {f"t{i}" if i != pad else "<pad>": i for i in range(size)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="t1"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    special = {"eos_token": f"t{end}", "unk_token": "t1"}
    special |= {"bos_token": f"t{end}"} if pad is None else {"pad_token": "<pad>"}
    fast_tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    fast_tokenizer.save_pretrained(folder)


def gpt_model(folder: Path, tiny: bool) -> Path:
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 2} if tiny else {}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(folder)
    word_tokenizer(folder, 50_257, 50_256)
    return folder


def pair_model(folder: Path, tiny: bool) -> Path:
    width, depth, vocab = (64, 2, 1_000) if tiny else (512, 6, 32_000)
    config = transformers.MarianConfig(
        vocab_size=vocab, d_model=width, encoder_layers=depth, decoder_layers=depth,
        encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, pad_token_id=vocab - 1,
        encoder_attention_heads=width // 32, decoder_attention_heads=width // 32,
        eos_token_id=0, decoder_start_token_id=vocab - 1, forced_eos_token_id=None,
        activation_function="relu", max_position_embeddings=512,
    )  # fmt: skip
    if not tiny:
        config.encoder_attention_heads = config.decoder_attention_heads = 8
    transformers.MarianMTModel(config).save_pretrained(folder)
    word_tokenizer(folder, vocab, 0, pad=vocab - 1)
    return folder


def prompt_of(tokens: int = 64) -> list[int]:
    return [(i * 37) % 50_000 for i in range(tokens)]


def our_gpt(folder: Path, new: int, compiled: bool) -> dict[str, Way]:
    prompt, search = prompt_of(), {"max_new_tokens": new, "min_new_tokens": new}
    ways: dict[str, Way] = {}
    for name, model in our_models(folder).items():
        engines = {"glassformer": None}
        if compiled:
            engines["compiled"] = model.engine(1, len(prompt) + new, compiled=True)
        for title, engine in engines.items():
            ways[f"{title} {name}"] = lambda model=model, engine=engine: len(
                model.generate([prompt], engine=engine, **search)[0].ids
            )
    return ways


def transformers_gpt(folder: Path, new: int) -> dict[str, Way]:
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.tensor([prompt_of()])

    def theirs() -> int:
        out = peer.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new,
            do_sample=False, pad_token_id=50_256,
        )  # fmt: skip
        return int(out.shape[1] - ids.shape[1])

    return {"transformers float32": theirs}


def ctranslate2_gpt(folder: Path, new: int) -> dict[str, Way]:
    words = [f"t{i}" for i in prompt_of()]
    return {
        f"ctranslate2 {name}": lambda model=model: len(
            model.generate_batch(
                [words], max_length=new, min_length=new, beam_size=1, sampling_topk=1,
                include_prompt_in_result=False,
            )[0].sequences_ids[0]
        )
        for name, model in ct2_models(folder, "Generator").items()
    }  # fmt: skip


def our_models(folder: Path) -> dict[str, gf.Model]:
    models = {"float32": gf.load(folder)}
    return models | {method: gf.load(folder).quantize(method) for method in ("int8", "int4")}


def gpu_ways(folder: Path, texts: int, new: int = 256) -> dict[str, Way]:
    """Each with fixed shapes and warm kernels: ours with and without compilation, and transformers
    with a static cache, which compiles itself."""
    prompts = [[(37 * i + j) % 50_000 for i in range(64)] for j in range(texts)]
    search = {"max_new_tokens": new, "min_new_tokens": new}
    model = gf.load(folder, device="cuda", dtype=torch.bfloat16)
    ways: dict[str, Way] = {}
    for name, compiled in (("CUDA graphs", False), ("compiled", True)):
        engine = model.engine(texts, 64 + new, compiled=compiled)
        ways[f"glassformer {name}"] = lambda engine=engine: sum(
            len(each.ids) for each in model.generate(prompts, engine=engine, **search)
        )
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.bfloat16)
    peer = peer.eval().to("cuda")
    ids = torch.tensor(prompts, device="cuda")

    def theirs() -> int:
        out = peer.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=50_256,
            cache_implementation="static", **search,
        )  # fmt: skip
        return int(out.shape[0] * (out.shape[1] - 64))

    ways["transformers static"] = theirs
    return ways


NEW, LENGTH = 24, 20  # tokens of a translation and of its source


def sources_of(folder: Path) -> list[list[int]]:
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    rows = [[2 + (7 * i + 31 * j) % (vocab - 4) for j in range(LENGTH)] for i in range(16)]
    return [[*row[:-1], 0] for row in rows]


def our_pairs(folder: Path, beams: int, compiled: bool) -> dict[str, Way]:
    sources = sources_of(folder)
    search = {"num_beams": beams, "max_new_tokens": NEW, "min_new_tokens": NEW}
    ways: dict[str, Way] = {}
    for name, model in our_models(folder).items():
        ways[f"glassformer {name}"] = lambda model=model: len(
            model.generate(sources, batch_size=16 * beams, **search)
        )
        if compiled:
            room = {"source_tokens": LENGTH, "num_beams": beams}
            engine = model.engine(16, NEW + 1, **room, compiled=True)
            ways[f"compiled {name}"] = lambda model=model, engine=engine: len(
                model.generate(sources, engine=engine, **search)
            )
    return ways


def transformers_pairs(folder: Path, beams: int) -> dict[str, Way]:
    peer = transformers.MarianMTModel.from_pretrained(folder).eval()
    ids = torch.tensor(sources_of(folder))

    def theirs() -> int:
        out = peer.generate(
            ids, attention_mask=torch.ones_like(ids), early_stopping=False, bad_words_ids=None,
            num_beams=beams, max_new_tokens=NEW, min_new_tokens=NEW,
        )  # fmt: skip
        return len(out)

    return {"transformers float32": theirs}


def ctranslate2_pairs(folder: Path, beams: int) -> dict[str, Way]:
    words = [[f"t{i}" for i in row] for row in sources_of(folder)]
    return {
        f"ctranslate2 {name}": lambda model=model: len(
            model.translate_batch(
                words, beam_size=beams, max_decoding_length=NEW, min_decoding_length=NEW,
                max_batch_size=16,
            )
        )
        for name, model in ct2_models(folder, "Translator").items()
    }  # fmt: skip


REPEATING = (
    "Write the list once more, with the same words.\n"
    "- Monday: two loaves of bread, a bag of apples and a bottle of milk from the market.\n"
    "- Tuesday: a new lamp for the kitchen, and the letter to the bank.\n"
    "- Wednesday: the dentist at nine, then lunch with Anna and her brother.\n"
    "The same list, once more:\n- Monday:"
)
PLAIN = {
    "that does not": "The history of the town begins in the twelfth century, when",
    "that seems to": "A list of numbers in no order: 12, 7, 31, 12, 8, 31, 12, 9, 7, 31, 12,",
}


def draft_ways(name: str, prompt: str, new: int) -> dict[str, Way]:
    model = gf.load(name)
    search = {"max_new_tokens": new, "min_new_tokens": new}
    return {
        name: lambda draft=draft: len(model.generate(prompt, draft=draft, **search)[0].ids)
        for name, draft in (("without a draft", None), ("prompt lookup", "prompt"))
    }


def ct2_models(folder: Path, kind: str) -> dict[str, Any]:
    try:
        import ctranslate2
    except ImportError:
        print("ctranslate2 is not installed: pip install ctranslate2 to compare with it")
        return {}
    models = {}
    for name in ("float32", "int8"):
        out = folder.with_name(f"{folder.name}-{name}")
        ctranslate2.converters.TransformersConverter(str(folder)).convert(
            str(out), quantization=name, force=True
        )
        models[name] = getattr(ctranslate2, kind)(
            str(out), device="cpu", inter_threads=1, intra_threads=torch.get_num_threads()
        )
    return models


def race(
    title: str, builds: Sequence[Callable[[], dict[str, Way]]], unit: str, rounds: int,
    shared: bool = False,
) -> None:  # fmt: skip
    with ExitStack() as stack:
        libraries = [stack.enter_context(Library(build, shared=shared)) for build in builds]
        ways = [(library, name) for library in libraries for name in library.names]
        best = {name: 0.0 for _, name in ways}
        for number in range(rounds + 1):
            for library, name in ways:
                count, seconds = library.run(name)
                if number:  # the first round warms up
                    best[name] = max(best[name], count / seconds)
    print(f"\n{title}, {unit} per second (best of {rounds})")
    for name, speed in best.items():
        kind = name.split()[-1]
        peer = best.get(f"ctranslate2 {'int8' if kind == 'int4' else kind}")
        than = "ctranslate2 int8" if kind == "int4" else "ctranslate2"
        ratio = f"{speed / peer:8.2f} × {than}" if peer and "ctrans" not in name else ""
        print(f"  {name:24s}{speed:9.1f}{ratio}", flush=True)


def growth(folder: Path, rounds: int) -> None:
    """The cost of a step at each length of the cache, and with the texts in another order."""
    model, lengths = gf.load(folder), (64, 128, 256, 512, 960)
    took = times(model, [[length] * 8 for length in lengths], rounds)
    print(f"\nOne step of 8 texts, processor time (best of {STEPS * rounds})")
    print("  tokens in the cache  ms per step   µs per token beyond the first 64")
    for length, seconds in zip(lengths, took, strict=True):
        more = 1e6 * (seconds - took[0]) / (length - 64) if length > 64 else None
        cost = "" if more is None else f"{more:12.1f}"
        print(f"  {length:19,d}{1e3 * seconds:12.2f}{cost}")
    mixed = [30, 250, 60, 200, 100, 150, 80, 120]
    orders = {"as they come": mixed, "sorted": sorted(mixed), "longest first": sorted(mixed)[::-1]}
    print("  30 to 250 tokens, by the order in the batch")
    for name, seconds in zip(orders, times(model, list(orders.values()), rounds), strict=True):
        print(f"  {name:>19s}{1e3 * seconds:12.2f}", flush=True)


def times(model: Any, batches: list[list[int]], rounds: int) -> list[float]:
    """Seconds of a step with each of these caches: the best of many, in turns. It is processor
    time, so that other programs on the machine do not count."""
    engines = []
    for lengths in batches:
        engine = Engine(model.task, slots=len(lengths), capacity=max(lengths) + STEPS * rounds)
        known = sorted(set(lengths))  # each is read once, and then copied
        engine.read([[(7 * i) % 500 for i in range(n)] for n in known], range(len(known)))
        engine.select(torch.tensor([known.index(n) for n in lengths]))
        engines.append(engine)
    best = [float("inf")] * len(batches)
    for step in range(STEPS * rounds):
        for i, engine in enumerate(engines):
            begin = time.process_time()
            engine.step(torch.full((len(batches[i]),), step))
            best[i] = min(best[i], time.process_time() - begin)
    return best


def main() -> None:
    about = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("--only", choices=("gpt", "pairs", "growth"))
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--draft", metavar="MODEL")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    be_quiet()
    torch.manual_seed(0)
    rounds, shared, compiled = asked.rounds, asked.shared, asked.compiled
    new = 16 if asked.tiny else 64
    if asked.draft is not None:
        for name, prompt in {"that repeats itself": REPEATING, **PLAIN}.items():
            ways = partial(draft_ways, asked.draft, prompt, new)
            race(f"{asked.draft}: a text {name}", [ways], "tokens", rounds, shared)
        return
    with tempfile.TemporaryDirectory() as home:
        if asked.cuda:
            gpt = gpt_model(Path(home) / "gpt", asked.tiny)
            for texts in (1, 64):
                ways = partial(gpu_ways, gpt, texts)
                race(f"GPT-2 in bf16, {texts} at once", [ways], "tokens", 3)
            return
        if asked.only in (None, "gpt", "growth"):
            gpt = gpt_model(Path(home) / "gpt", asked.tiny)
            if asked.only != "growth":
                libraries = [
                    partial(our_gpt, gpt, new, compiled), partial(transformers_gpt, gpt, new),
                    partial(ctranslate2_gpt, gpt, new),
                ]  # fmt: skip
                race(f"GPT-2, one text, {new} new tokens", libraries, "tokens", rounds, shared)
            if asked.only != "gpt":
                growth(gpt, rounds)
        if asked.only in (None, "pairs"):
            pair = pair_model(Path(home) / "pair", asked.tiny)
            for beams in (1, 4):
                libraries = [
                    partial(our_pairs, pair, beams, compiled),
                    partial(transformers_pairs, pair, beams),
                    partial(ctranslate2_pairs, pair, beams),
                ]
                size = f"16 sentences of {LENGTH} tokens, {NEW} new, {beams} beam(s)"
                race(f"encoder-decoder, {size}", libraries, "sentences", rounds, shared)


if __name__ == "__main__":
    main()
