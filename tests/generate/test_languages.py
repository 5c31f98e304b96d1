"""Source and target language of a translation: as transformers does it, for each kind of folder."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from transformers import M2M100Config, MBartConfig

import folders
import glassformer as gf
from commands import glassformer, refused
from glassformer.cli.common import prose
from glassformer.errors import CheckpointError, ConfigError
from kit import hot
from sampling import mostly_slow

pytestmark = pytest.mark.filterwarnings("ignore:.*reached max_new_tokens")
TEXTS = [
    "The cat sat on the mat and looked at the rain.",
    "Where is the station? I would like two tickets to the sea, please!",
    "Кот сидел на коврике.",
    "a",
]
KINDS = ("m2m100", "nllb", "mbart", "nllb legacy", "mbart50")
CODES = {"m2m100": ("en", "ru"), "nllb": ("eng_Latn", "rus_Cyrl"), "mbart": ("en_XX", "ru_RU")}
SIZES: dict[str, Any] = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37,
    "max_position_embeddings": 64, "scale_embedding": True, "decoder_start_token_id": 2,
}  # fmt: skip


def pieces(kind: str) -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 3), model_writer=out, minloglevel=2, vocab_size=90,
        hard_vocab_limit=False, model_type="bpe" if "nllb" in kind else "unigram",
    )  # fmt: skip
    return out.getvalue()


def tokenizer(kind: str, folder: Path) -> Any:
    """Theirs, from a SentencePiece model as the published folders have it."""
    folder.mkdir()
    data = pieces(kind)
    (folder / "sentencepiece.bpe.model").write_bytes(data)
    if kind == "m2m100":
        model = sentencepiece.SentencePieceProcessor(model_proto=data)
        names = [model.id_to_piece(i) for i in range(3, len(model))]
        vocab = {name: i for i, name in enumerate(["<s>", "<pad>", "</s>", "<unk>", *names])}
        (folder / "vocab.json").write_text(json.dumps(vocab))
    classes = {"m2m100": "M2M100", "nllb": "Nllb", "mbart50": "MBart50", "mbart": "MBart"}
    kind, _, legacy = kind.partition(" ")
    theirs = getattr(transformers, f"{classes[kind]}Tokenizer")
    codes = [code for name, each in CODES.items() for code in each if name == kind]
    more = {"extra_special_tokens": codes, "legacy_behaviour": bool(legacy)}
    return theirs.from_pretrained(folder, **more if kind == "nllb" else {})


@pytest.fixture(scope="module", params=mostly_slow(KINDS, keep=3))
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder as transformers saves it, its tokenizer and model, and two of its languages."""
    kind, home = request.param, tmp_path_factory.mktemp("languages")
    theirs = tokenizer(kind, home / "pieces")
    codes = next(codes for name, codes in CODES.items() if kind.startswith(name))
    size = theirs.encoder_size + 100 if kind == "m2m100" else len(theirs)
    config = (MBartConfig if "mbart" in kind else M2M100Config)(vocab_size=size, **SIZES)
    name = "MBartForConditionalGeneration" if "mbart" in kind else "M2M100ForConditionalGeneration"
    torch.manual_seed(1)
    model = hot(getattr(transformers, name)(config), 24).eval()
    model.generation_config.bad_words_ids = [[1]]  # M2M100 would not count padding in a text
    model.generation_config.forced_eos_token_id = None
    model.save_pretrained(home / "model")
    theirs.save_pretrained(home / "model")
    return kind, home / "model", theirs, model, codes


def inputs(kind: str, theirs: Any, source: str) -> Any:
    theirs.src_lang = source
    return theirs(TEXTS, return_tensors="pt", padding=True)


@pytest.mark.parametrize("beams", [1, 4])
def test_the_same_translations_as_transformers(translator: Any, beams: int) -> None:
    kind, folder, theirs, model, (source, target) = translator
    given = inputs(kind, theirs, source)
    token = theirs.convert_tokens_to_ids(f"__{target}__" if kind == "m2m100" else target)
    start = {"decoder_start_token_id" if kind == "mbart" else "forced_bos_token_id": token}
    expected = model.generate(
        **given, **start, num_beams=beams, max_new_tokens=9, max_length=None, do_sample=False
    )
    ours = gf.load(folder)
    found = ours.translate(
        TEXTS, source=source, target=target, num_beams=beams, max_new_tokens=9, align=True
    )
    for text, ids, mask, wanted in zip(
        found, given.input_ids, given.attention_mask, expected, strict=True
    ):
        assert text.source_tokens == theirs.convert_ids_to_tokens(ids[mask.bool()])
        tokens = [each for each in theirs.convert_ids_to_tokens(wanted[1:]) if each != "<pad>"]
        assert text.tokens == tokens
        assert text.alignment.weights.shape == (len(text.text.split()), len(text.alignment.source))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["source: this model knows", "write one of them, such as source = '"]),
        ({"source": 0}, ["target: this model knows", "such as target = '"]),
        ({"source": "Englisch", "target": 1}, ["source = 'Englisch'", "the nearest is '"]),
        ({"source": 0, "target": "klingon"}, ["target = 'klingon'", "the nearest is '"]),
    ],
    ids=str,
)
def test_a_missing_or_unknown_language_is_one_line(
    given: dict[str, Any], words: list[str], translator: Any
) -> None:
    _, folder, _, _, codes = translator
    named = {name: codes[code] if isinstance(code, int) else code for name, code in given.items()}
    with pytest.raises(ConfigError) as caught:
        gf.load(folder).translate(TEXTS, **named)
    folders.one_line(caught.value, *words)


def test_the_nearest_code_is_named_by_its_beginning(translator: Any) -> None:
    kind, folder, _, _, (source, _) = translator
    if kind == "m2m100":
        return
    with pytest.raises(ConfigError, match=f"the nearest is '{source}'"):
        gf.load(folder).translate("a", source=source[:-3] if "nllb" in kind else source[:2])


def test_a_folder_that_names_its_target_needs_none(translator: Any, tmp_path: Path) -> None:
    """A model that was trained for one target has it in its generation_config.json."""
    kind, folder, theirs, _, (source, target) = translator
    copy = folders.copy(folder, tmp_path / "copy")
    token = theirs.convert_tokens_to_ids(f"__{target}__" if kind == "m2m100" else target)
    name = "decoder_start_token_id" if kind == "mbart" else "forced_bos_token_id"
    path = copy / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: token}))
    usual = gf.load(folder).translate(TEXTS, source=source, target=target, max_new_tokens=5)
    found = gf.load(copy).translate(TEXTS, source=source, max_new_tokens=5)
    assert [each.tokens for each in found] == [each.tokens for each in usual]


def test_pieces_without_a_tokenizer_json(translator: Any, tmp_path: Path) -> None:
    """As the first folders were published: a SentencePiece model and a list of languages."""
    kind, folder, theirs, _, (source, target) = translator
    codes = (
        [] if kind == "m2m100" else [each for each in theirs.extra_special_tokens if "_" in each]
    )
    copy = folders.copy(folder, tmp_path / "copy")
    (copy / "tokenizer.json").unlink(missing_ok=True)
    (copy / "sentencepiece.bpe.model").write_bytes(pieces(kind))
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    settings = {name: value for name, value in settings.items() if "special" not in name}
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    (copy / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": codes, "mask_token": "<mask>"})
    )
    if kind.startswith("nllb"):  # here transformers 5 counts in another order than the published
        tokenizer = gf.load(copy).tokenizer
        first = len(sentencepiece.SentencePieceProcessor(model_proto=pieces(kind))) + 1
        assert [tokenizer.id(each) for each in (*codes, "<mask>")] == [first, first + 1, first + 2]
        return
    given = {"source": source, "target": target, "max_new_tokens": 5}
    usual, found = (gf.load(each).translate(TEXTS, **given) for each in (folder, copy))
    assert [each.source_tokens for each in found] == [each.source_tokens for each in usual]
    assert [each.text for each in found] == [each.text for each in usual]
    (copy / "special_tokens_map.json").unlink()
    if kind != "m2m100":
        with pytest.raises(CheckpointError, match="needs the list of its language tokens"):
            gf.load(copy)


def test_the_command_takes_languages(translator: Any) -> None:
    _, folder, _, _, (source, target) = translator
    languages = ("--source", source, "--target", target)
    lines = glassformer("translate", folder, TEXTS[0], *languages, "--num-beams", "1")
    ours = gf.load(folder).translate(TEXTS[0], source=source, target=target, num_beams=1)
    assert lines.splitlines()[0] == prose(ours[0].text)
    line = refused("translate", folder, TEXTS[0], *languages[2:], code=2)
    assert "source: this model knows" in line


def test_a_model_without_languages_refuses_them() -> None:
    model = gf.load("gf-en-ru")
    for name in ("source", "target"):
        with pytest.raises(ConfigError) as caught:
            model.translate("A cat.", **{name: "ru"})
        folders.one_line(caught.value, f"{name} = 'ru'", "no language tokens", "leave it out")
