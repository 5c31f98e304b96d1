"""The page Pooling: which words, and which sentences, a document's vector is made of."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.glass import Edit, Recorder
from glassformer.inference.documents import (
    SENTENCES,
    WORDS,
    WindowedDocument,
    batch_ids,
    read_documents,
)
from glassformer.loaded import Model
from glassformer.model import Batch
from glassformer.studio.page_schemas import (
    PooledDocument,
    PooledSentence,
    PooledWord,
    Sheet,
)
from glassformer.studio.pooling_toys import reviews_tokenizer
from glassformer.studio.views.predictions import label_guesses
from glassformer.tasks import Important
from glassformer.tasks.label import Classification
from glassformer.text import Tokenizer

MAX_WORDS = 4_096  # of a document
ENTRIES = 8  # of a vector, in the walk
SCORES = {
    WORDS: WORDS.replace("weights", "scores"),
    SENTENCES: SENTENCES.replace("weights", "scores"),
}
ROW = "r = v · x"


def pools(model: Model) -> bool:
    """Whether this model has attention over words."""
    task = model.task
    pooled = isinstance(task, Classification) and task.important is not None
    return pooled and model.tokenizer is not None


def is_table(model: Model) -> bool:
    """Whether this model is a table of word vectors alone, such as a GloVe file."""
    return model.config.depth == 0 and not pools(model) and model.tokenizer is not None


def table_rows(tokenizer: Tokenizer, words: list[str], table: Tensor) -> Tensor:  # (words, C)
    """The vectors of these words; zeros where the table has none."""
    ids = [tokenizer.id(word) for word in words]
    ids = [
        tokenizer.id(word.lower()) if i is None else i for word, i in zip(words, ids, strict=True)
    ]
    rows = [torch.zeros_like(table[0]) if i is None else table[i] for i in ids]
    return torch.stack(rows).detach().float().cpu()


def toy_vectors(other: Model) -> Tensor:  # (V, C)
    """The vectors of another model's table for the words of the toy reviews."""
    words = reviews_tokenizer()
    assert other.tokenizer is not None  # noqa: S101 - `is_table` says so
    names = [words.token(i) for i in range(len(words))]
    return table_rows(other.tokenizer, names, other.task.backbone.token_embedding)


def swapped_vectors(model: Model, other: Model, batch: Batch) -> Edit:
    """An edit that puts another table's vectors in place of the model's own."""
    mine, tokenizer, table = (
        model.config.width,
        other.tokenizer,
        other.task.backbone.token_embedding,
    )
    assert model.tokenizer is not None and tokenizer is not None  # noqa: S101 - `is_table` says so
    if table.shape[1] != mine:
        raise InputError(
            f"vectors: they have {table.shape[1]} numbers a word, and this model's have {mine}: "
            "choose vectors of the same width"
        )
    names = [model.tokenizer.token(int(i)) for i in batch.tokens]
    rows = table_rows(tokenizer, names, table)
    return {"encoder.embedding.tokens": lambda own: rows.to(own)}


@torch.no_grad()
def pooled(
    model: Model, name: str, formula: str, text: str, word: int, vectors: Model | None = None
) -> PooledDocument:
    """The weights of a document's words and sentences, and the walk of one word."""
    task, tokenizer = model.task, model.tokenizer
    assert tokenizer is not None and isinstance(task, Classification)  # noqa: S101 - see `pools`
    (document,) = read_documents(task, tokenizer, [text])
    ids, segments, counts = batch_ids(task, [document])
    if sum(map(len, ids)) > MAX_WORDS:
        raise InputError(
            f"the document has {sum(map(len, ids)):,} tokens and at most {MAX_WORDS:,} fit here: "
            "shorten it"
        )
    (batch,) = task.batches(ids, segments=segments, documents=counts)
    edit = {} if vectors is None else swapped_vectors(model, vectors, batch)
    recorder = Recorder(task, ("important.*", "logits"), edit, several=True)
    task(batch, visitor=recorder)
    x = task.backbone(batch, visitor=Recorder(task, (), edit, several=True))
    important = task.important
    assert important is not None  # noqa: S101 - see `pools`
    texts = _surface(document, tokenizer)
    lengths = [len(each) for each in ids] if SENTENCES in recorder.tensors else [len(x)]
    chosen = min(word, len(x) - 1)
    labels = label_guesses(model, recorder.tensors["logits"])
    sentences = _sentences(recorder.tensors, texts, lengths)
    return PooledDocument(
        name=name,
        formula=formula,
        labels=labels,
        summary=f"{name}: {labels[0].text} {labels[0].p:.2f}; {_share(sentences, chosen)}",
        sentences=sentences,
        walk=[
            *_walk(important, recorder.tensors, x, texts, lengths, chosen),
            *_sentence_sheets(recorder.tensors, document),
        ],
    )


def _surface(document: WindowedDocument, tokenizer: Tokenizer) -> list[str]:
    """The document's tokens as they are written in it."""
    texts = []
    for text, part in zip(document.texts, document.parts, strict=True):
        for window in part.windows:
            for place in window.places:
                start, end = part.encoding.spans[place]
                texts.append(text[start:end].strip() or part.encoding.tokens[place])
    return texts


def _sentences(
    tensors: dict[str, Tensor], texts: list[str], lengths: list[int]
) -> list[PooledSentence]:
    words = [
        PooledWord(text=text, scores=scores, weights=weights)
        for text, scores, weights in zip(
            texts, tensors[SCORES[WORDS]].tolist(), tensors[WORDS].tolist(), strict=True
        )
    ]
    whole: list[tuple[float | None, float]] = [(None, 1.0)]
    if SENTENCES in tensors:
        scores, weights = (tensors[each][:, 0].tolist() for each in (SCORES[SENTENCES], SENTENCES))
        whole = list(zip(scores, weights, strict=True))
    sentences, start = [], 0
    for (score, weight), length in zip(whole, lengths, strict=True):
        own = words[start : start + length]
        sentences.append(PooledSentence(score=score, weight=weight, words=own))
        start += length
    return sentences


def _share(sentences: list[PooledSentence], chosen: int) -> str:
    """What share of its sentence and of the document the chosen word has."""
    for sentence in sentences:
        if chosen < len(sentence.words):
            break
        chosen -= len(sentence.words)
    word = sentence.words[chosen]
    own = f"“{word.text}” has {word.weights[0]:.2f} of "
    if sentence.score is None:
        return f"{own}the document"
    return f"{own}its sentence, which has {sentence.weight:.2f} of the document"


def _walk(
    important: Important,
    tensors: dict[str, Tensor],
    x: Tensor,
    texts: list[str],
    lengths: list[int],
    chosen: int,
) -> list[Sheet]:
    """From one word's vector to its score, its weight and its share of the mixture: first head."""
    first = 0
    while chosen >= first + lengths[0]:
        first, lengths = first + lengths[0], lengths[1:]
    own = slice(first, first + lengths[0])
    scores, weights = (tensors[each][own].double() for each in (SCORES[WORDS], WORDS))
    head = " (first head)" if scores.shape[1] > 1 else ""
    whole = "sentence" if SENTENCES in tensors else "document"
    return [
        _score_sheet(important, x[chosen], f"“{texts[chosen]}”: v · x → r{head}"),
        _weights_sheet(f"r → a, over its {whole}", texts[own], scores, weights),
        _mixture_sheet(x[own].double(), weights[:, 0], texts[own], chosen - first, head, whole),
    ]


def _sentence_sheets(tensors: dict[str, Tensor], document: WindowedDocument) -> list[Sheet]:
    """The scores and weights of the sentences; none if the model reads words alone."""
    if SENTENCES not in tensors:
        return []
    scores, weights = (tensors[each].double() for each in (SCORES[SENTENCES], SENTENCES))
    texts = [
        text
        for text, part in zip(document.texts, document.parts, strict=True)
        for _ in part.windows
    ]
    sheet = _weights_sheet("sentences: r → a, over the document", texts, scores, weights)
    how = "A sentence's vector Σ a x first goes through tanh(W x + b); a second vector u scores it."
    return [sheet.model_copy(update={"text": f"{how} {sheet.text}"})]


def _score_sheet(important: Important, x: Tensor, title: str) -> Sheet:
    inner = important.words.inner(x[None])[0].double()
    v = important.words.vectors[0].double()
    products = v * inner
    largest = products.abs().argsort(descending=True).tolist()[:ENTRIES]
    mapped = "x" if inner.shape == x.shape and torch.equal(inner, x.double()) else "mapped x"
    rows: list[list[str | float | None]] = [
        [f"entry {i}", float(v[i]), float(inner[i]), float(products[i])] for i in largest
    ]
    if len(products) > ENTRIES:
        rest = float(products.sum() - products[largest].sum())
        rows.append([f"{len(products) - ENTRIES} more", None, None, rest])
    rows.append(["r, their sum", None, None, float(products.sum())])
    return Sheet(title=title, columns=["", "v", mapped, "product"], rows=rows)


def _weights_sheet(title: str, texts: list[str], scores: Tensor, weights: Tensor) -> Sheet:
    """r, e^r and a of words or sentences, for each head."""
    count = scores.shape[1]
    marks = [""] if count == 1 else [str(head + 1) for head in range(count)]
    parts = torch.stack([scores, scores.exp(), weights], -1).flatten(1)  # (T, 3 · heads)
    sums = parts.sum(0).tolist()
    return Sheet(
        title=title,
        text="a is e^r over the sum of e^r.",
        columns=["", *(f"{name}{mark}" for mark in marks for name in ("r", "e^r", "a"))],
        rows=[
            *([text, *row] for text, row in zip(texts, parts.tolist(), strict=True)),
            ["sum", *(None if i % 3 == 0 else value for i, value in enumerate(sums))],
        ],
    )


def _mixture_sheet(
    x: Tensor, weights: Tensor, texts: list[str], at: int, head: str, whole: str
) -> Sheet:
    """The vector of the sentence or document, and what the chosen word adds to it."""
    mixture = weights @ x
    entries = sorted(mixture.abs().argsort(descending=True).tolist()[:ENTRIES])
    word = texts[at]
    return Sheet(
        title=f"a → mixture{head}",
        text=f"Σ a x is the vector of the {whole}; these are its largest entries.",
        columns=["entry", f"x of “{word}”", f"a x of “{word}”", "Σ a x"],
        rows=[
            [str(i), float(x[at, i]), float(weights[at] * x[at, i]), float(mixture[i])]
            for i in entries
        ],
    )
