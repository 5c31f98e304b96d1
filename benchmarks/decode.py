"""Tokens per second in generation, beside transformers and CTranslate2 on the same weights.

    python benchmarks/decode.py                 GPT-2 with one text, 16 translations at once
    python benchmarks/decode.py --only gpt      one of gpt, pairs, growth
    python benchmarks/decode.py --compiled      with compiled steps, too (not with beams)
    python benchmarks/decode.py --draft MODEL   with and without guesses by prompt lookup
    python benchmarks/decode.py --tiny          small sizes, to check that it runs
    python benchmarks/decode.py --shared        one thread, by processor time: on a machine that
                                                other programs use, too
    python benchmarks/decode.py --cuda          GPT-2 in bf16 on a GPU, one text and 64 at once

Peers are transformers and (pip install ctranslate2) CTranslate2, each in its best configuration;
every number is the best of several rounds, in turns. `growth` shows what a step costs as the cache
grows, and that the order of the texts in a batch does not matter.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

import glassformer as gf
from glassformer.generate.engine import Engine

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


def gpt_ways(folder: Path, new: int, compiled: bool) -> dict[str, Way]:
    prompt = [(i * 37) % 50_000 for i in range(64)]
    search = {"max_new_tokens": new, "min_new_tokens": new}
    ways: dict[str, Way] = {}
    for name, model in our_models(folder).items():
        engines = {"glassformer": None}
        if compiled:
            engines["compiled"] = model.engine(1, len(prompt) + new, compiled=True)
        for title, engine in engines.items():
            ways[f"{title} {name}"] = lambda model=model, engine=engine: len(
                model.generate([prompt], engine=engine, **search)[0].ids
            )
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.tensor([prompt])

    def theirs() -> int:
        out = peer.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new,
            do_sample=False, pad_token_id=50_256,
        )  # fmt: skip
        return int(out.shape[1]) - len(prompt)

    ways["transformers float32"] = theirs
    words = [f"t{i}" for i in prompt]
    for name, model_ct2 in ct2_models(folder, "Generator").items():
        ways[f"ctranslate2 {name}"] = lambda model_ct2=model_ct2: len(
            model_ct2.generate_batch(
                [words], max_length=new, min_length=new, beam_size=1, sampling_topk=1,
                include_prompt_in_result=False,
            )[0].sequences_ids[0]
        )  # fmt: skip
    return ways


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


def pair_ways(
    folder: Path, beams: int, compiled: bool = False, new: int = 24, length: int = 20
) -> dict[str, Way]:
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    sources = [[2 + (7 * i + 31 * j) % (vocab - 4) for j in range(length)] for i in range(16)]
    sources = [[*each[:-1], 0] for each in sources]
    search = {"num_beams": beams, "max_new_tokens": new, "min_new_tokens": new}
    ways: dict[str, Way] = {}
    for name, model in our_models(folder).items():
        ways[f"glassformer {name}"] = lambda model=model: len(
            model.generate(sources, batch_size=16 * beams, **search)
        )
        if compiled and beams == 1:
            engine = model.engine(16, new + 1, source_tokens=length, compiled=True)
            ways[f"compiled {name}"] = lambda model=model, engine=engine: len(
                model.generate(sources, engine=engine, **search)
            )
    peer = transformers.MarianMTModel.from_pretrained(folder).eval()
    ids = torch.tensor(sources)

    def theirs() -> int:
        out = peer.generate(
            ids, attention_mask=torch.ones_like(ids), early_stopping=False, bad_words_ids=None,
            **search,
        )  # fmt: skip
        return len(out)

    ways["transformers float32"] = theirs
    words = [[f"t{i}" for i in each] for each in sources]
    for name, model_ct2 in ct2_models(folder, "Translator").items():
        ways[f"ctranslate2 {name}"] = lambda model_ct2=model_ct2: len(
            model_ct2.translate_batch(
                words, beam_size=beams, max_decoding_length=new, min_decoding_length=new,
                max_batch_size=16,
            )
        )  # fmt: skip
    return ways


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


def draft_ways(model: gf.Model, prompt: str, new: int) -> dict[str, Way]:
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
    title: str, ways: dict[str, Way], unit: str, rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> None:  # fmt: skip
    best = dict.fromkeys(ways, 0.0)
    for number in range(rounds + 1):
        for name, way in ways.items():
            begin = clock()
            count = way()
            if number:  # the first round warms up
                best[name] = max(best[name], count / (clock() - begin))
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
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    clock = time.process_time if asked.shared else time.perf_counter
    if asked.shared:
        torch.set_num_threads(1)
    new = 16 if asked.tiny else 64
    if asked.draft is not None:
        model = gf.load(asked.draft)
        for name, prompt in {"that repeats itself": REPEATING, **PLAIN}.items():
            ways = draft_ways(model, prompt, new)
            race(f"{asked.draft}: a text {name}", ways, "tokens", asked.rounds, clock)
        return
    with tempfile.TemporaryDirectory() as home:
        if asked.cuda:
            gpt = gpt_model(Path(home) / "gpt", asked.tiny)
            for texts in (1, 64):
                race(f"GPT-2 in bf16, {texts} at once", gpu_ways(gpt, texts), "tokens", 3)
            return
        if asked.only in (None, "gpt", "growth"):
            gpt = gpt_model(Path(home) / "gpt", asked.tiny)
            if asked.only != "growth":
                ways = gpt_ways(gpt, new, asked.compiled)
                race(f"GPT-2, one text, {new} new tokens", ways, "tokens", asked.rounds, clock)
                del ways
            if asked.only != "gpt":
                growth(gpt, asked.rounds)
        if asked.only in (None, "pairs"):
            pair = pair_model(Path(home) / "pair", asked.tiny)
            for beams in (1, 4):
                gc.collect()
                title = f"encoder-decoder, 16 sentences of 20 tokens, 24 new, {beams} beam(s)"
                ways = pair_ways(pair, beams, asked.compiled)
                race(title, ways, "sentences", asked.rounds, clock)


if __name__ == "__main__":
    main()
