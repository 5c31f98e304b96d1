"""One call for each task, for texts from anywhere: a string, a list, a Series, a generator."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer import inference
from glassformer.generate.settings import GenerationOptions
from glassformer.generate.translate import Translation, notes, translate
from glassformer.loaded.adapting import AdapterChoice
from glassformer.loaded.generating import GeneratingModel
from glassformer.tasks import Ids
from glassformer.text import Text, is_one, items_of, pairs_of, plain, texts_of, texts_or_pairs_of

Vectors = Tensor | NDArray[Any]


class Model(GeneratingModel):
    """A model with its tokenizer. It is a plain module: `parameters`, `state_dict` and `to` work.

    Where a call takes texts, give a string, or many in a list, an array, a Series or a generator.

    Args:
        task: the backbone and its head
        tokenizer: None if the folder has none: then calls take token ids
        origin: the folder it came from, to be saved as it was
        recipe: pooling and prompts of `embed`
        layers: of `embed`, after the pooling

    Examples:
        >>> gf.load("gf-encoder")
        Model(encoder, masked_lm_nsp, ...)
    """

    def hidden(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """The last layer's vectors, one tensor (T, C) per text.

        Args:
            ids: of each text
            segments: of each text, for models with two segments
            targets: the target ids of each text, for translation models

        Examples:
            >>> [vectors.shape for vectors in encoder.hidden([[2, 17, 3], [2, 3]])]
            [torch.Size([3, 256]), torch.Size([2, 256])]
        """
        return self.task.hidden(
            _numbers(ids), segments=_numbers(segments), targets=_numbers(targets)
        )

    def logits(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None,
        adapter: AdapterChoice = None,
    ) -> list[Tensor]:  # fmt: skip
        """The logits of the head, one tensor per text; the parameters are those of `hidden`, and
        `adapter`, the name of an adapter, or one for each text.

        Examples:
            >>> len(decoder.logits([decoder.tokenizer("The cat").ids])[0])  # a row for each token
            2
        """
        return self.chosen(adapter).logits(
            _numbers(ids), segments=_numbers(segments), targets=_numbers(targets)
        )

    @overload
    def embed(
        self, texts: Text | Iterable[Text], *, prompt_name: str | None = None,
        prompt: str | None = None, pool_by: str | Sequence[str] | None = None,
        adapter: AdapterChoice = None, batch_size: int | None = None,
        normalize: bool | None = None, progress: bool = False,
        to_numpy: Literal[False] = False,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def embed(
        self, texts: Text | Iterable[Text], *, prompt_name: str | None = None,
        prompt: str | None = None, pool_by: str | Sequence[str] | None = None,
        adapter: AdapterChoice = None, batch_size: int | None = None,
        normalize: bool | None = None, progress: bool = False,
        to_numpy: Literal[True],
    ) -> NDArray[Any]: ...  # fmt: skip
    def embed(
        self, texts: Text | Iterable[Text], *, prompt_name: str | None = None,
        prompt: str | None = None, pool_by: str | Sequence[str] | None = None,
        adapter: AdapterChoice = None, batch_size: int | None = None,
        normalize: bool | None = None, progress: bool = False,
        to_numpy: bool = False,
    ) -> Vectors:  # fmt: skip
        """One vector per text, (B, C).

        Args:
            texts: one or many; also pairs, as tuples; too long ones are truncated, with a warning
            prompt_name: which of the prompts in the model's folder to put before each text, such as
                "query"; the folder's default, if not given
            prompt: a text to put before each text instead
            pool_by: one or more of first, last, mean, max, mean_sqrt_len and weightedmean; the
                pooling of the model's folder (else mean), if not given
            adapter: the name of an adapter, or one for each text
            batch_size: texts of a forward pass; as many as suit the device, if not given
            normalize: divide each vector by its length; as the model's folder says, if not given
            progress: show a progress bar
            to_numpy: return an array instead of a tensor

        Examples:
            >>> encoder.embed(["A cat sat on the mat.", "A dog ran."]).shape
            torch.Size([2, 256])
        """
        vectors = inference.embed(
            *self.able("embed", adapter), texts_or_pairs_of(texts, "embed"), recipe=self.recipe,
            layers=self.sentence_layers, prompt_name=prompt_name, prompt=prompt, pool_by=pool_by,
            batch_size=batch_size, normalize=normalize, progress=progress,
        )  # fmt: skip
        return vectors.cpu().numpy() if to_numpy else vectors

    def similarity(
        self, a: Text | Iterable[Text] | Vectors, b: Text | Iterable[Text] | Vectors
    ) -> Tensor:
        """The cosine of each of a with each of b, (A, B); both are texts, or vectors of `embed`.

        Examples:
            >>> encoder.similarity("a cat", ["a kitten", "the stock market"]).shape
            torch.Size([1, 2])
        """
        return inference.cosines(self._vectors(a), self._vectors(b))

    def _vectors(self, value: Any) -> Tensor:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value = torch.from_numpy(value).to(self.device)
        return value if isinstance(value, Tensor) else self.embed(value)

    def word(
        self, sentence: str, word: str, *, occurrence: int = 0, layer: int | None = None
    ) -> Tensor:
        """The vector of one word in its sentence, (C,): the mean of its tokens' vectors.

        Args:
            occurrence: which one, if the word is in the sentence several times, from 0
            layer: the block whose output is taken, from 0; the model's output, if not given

        Examples:
            >>> encoder.word("I sat by the river bank.", "bank").shape
            torch.Size([256])
        """
        task, tokenizer = self.able("word")
        sentence, word = plain(sentence), plain(word)
        return inference.word(task, tokenizer, sentence, word, occurrence=occurrence, layer=layer)

    @overload
    def fill(self, texts: str, *, top_k: int = 5) -> list[inference.Blank]: ...  # type: ignore[overload-overlap]
    @overload
    def fill(self, texts: Iterable[str], *, top_k: int = 5) -> list[list[inference.Blank]]: ...
    def fill(
        self, texts: str | Iterable[str], *, top_k: int = 5
    ) -> list[inference.Blank] | list[list[inference.Blank]]:
        """The likeliest words for each [MASK] of a text, best first, with probabilities.

        Args:
            texts: one, or many: then there is a list of blanks for each
            top_k: how many words for each

        Examples:
            >>> (blank,) = encoder.fill("The cat sat on the [MASK].")
            >>> print(blank.candidates[0])
            table
        """
        blanks = inference.fill(*self.able("fill"), texts_of(texts, "fill"), top_k=top_k)
        return blanks[0] if is_one(texts) else blanks

    def classify(
        self, texts: Text | Iterable[Text], *, top_k: int | None = None,
        problem: str | None = None, explain: int = 0, adapter: AdapterChoice = None,
    ) -> list[inference.Classified]:  # fmt: skip
        """The labels of each text or pair of texts, best first, with probabilities.

        Args:
            texts: one or many; also pairs, as tuples; texts longer than the model are read in
                windows
            top_k: how many labels; all, if not given
            problem: the problem_type, instead of that of config.json: see `inference.classify`
            explain: also this many words and sentences with the largest attention weights, for a
                model with attention over words
            adapter: the name of an adapter, or one for each text

        Examples:
            >>> (result,) = classifier.classify("A warm and clever film.")
            >>> sorted(result.scores)
            ['bad', 'good']
        """
        stated = None if self.origin is None else self.origin.config.get("problem_type")
        problem = problem or stated
        rows = texts_or_pairs_of(texts, "classify")
        return inference.classify(
            *self.able("classify", adapter), rows, top_k=top_k, problem=problem, explain=explain
        )  # fmt: skip

    def rank(
        self, query: str, texts: str | Iterable[str], *, top_k: int | None = None
    ) -> list[inference.RankedText]:
        """The texts by their relevance to the query, best first, each with its index and score.

        It needs a cross-encoder: a classification model with one label. The score is a sigmoid of
        the logit, or what the model's folder says.

        Args:
            texts: one or many; too long ones are truncated, with a warning
            top_k: how many texts; all, if not given

        Examples:
            >>> best, other = reranker.rank("Who sat?", ["A cat sat.", "It rained."])
            >>> best.score >= other.score
            True
        """
        files, config = ({}, {}) if self.origin is None else (self.origin.files, self.origin.config)
        task, tokenizer = self.able("rank")
        return inference.rank(
            task, tokenizer, plain(query), texts_of(texts, "rank"), recipe=self.recipe, top_k=top_k,
            activation=inference.rank_activation(files, config),
        )  # fmt: skip

    @overload
    def follows(self, a: str, b: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def follows(self, a: Iterable[str], b: Iterable[str]) -> list[float]: ...
    def follows(self, a: str | Iterable[str], b: str | Iterable[str]) -> float | list[float]:
        """The probability that the text b directly follows the text a; of two lists, one for each
        pair.

        Examples:
            >>> encoder.follows("Paul went shopping.", "He bought a new shirt.") > 0.5
            True
        """
        chances = inference.follows(*self.able("follows"), pairs_of(a, b, "follows"))
        return chances[0] if is_one(a) else chances

    @overload
    def tag(self, texts: str) -> inference.Tagged: ...  # type: ignore[overload-overlap]
    @overload
    def tag(self, texts: Iterable[str | Sequence[str]]) -> list[inference.Tagged]: ...
    def tag(
        self, texts: str | Iterable[str | Sequence[str]]
    ) -> inference.Tagged | list[inference.Tagged]:
        """A label for each word; names are `spans`.

        Args:
            texts: one, or many; in a list of many, a text may also be a list of words

        Examples:
            >>> [word.text for word in tagger.tag("Ramona lives in Paris.").words]
            ['Ramona', 'lives', 'in', 'Paris', '.']
            >>> len(tagger.tag([["Ramona", "lives", "in", "Paris"]])[0].labels)
            4
        """
        one = is_one(texts)
        tagged = inference.tag(*self.able("tag"), [plain(texts)] if one else items_of(texts, "tag"))
        return tagged[0] if one else tagged

    @overload
    def answer(  # type: ignore[overload-overlap]
        self, question: str, context: str, *, top_k: int = 1, no_answer: bool = False,
        threshold: float = 0.0, max_tokens: int = 30, overlap: int | None = None,
    ) -> list[inference.Answer]: ...  # fmt: skip
    @overload
    def answer(
        self, question: Iterable[str], context: Iterable[str], *, top_k: int = 1,
        no_answer: bool = False, threshold: float = 0.0, max_tokens: int = 30,
        overlap: int | None = None,
    ) -> list[list[inference.Answer]]: ...  # fmt: skip
    def answer(
        self, question: str | Iterable[str], context: str | Iterable[str], *, top_k: int = 1,
        no_answer: bool = False, threshold: float = 0.0, max_tokens: int = 30,
        overlap: int | None = None,
    ) -> list[inference.Answer] | list[list[inference.Answer]]:  # fmt: skip
        """Where the context answers the question, best first; of two lists, for each pair.

        Args:
            top_k: the most answers
            no_answer: allow that there is none, as in SQuAD 2
            threshold: by how much its logits must exceed those of the best answer
            max_tokens: the longest answer
            overlap: tokens that neighbouring windows of a long context share

        Examples:
            >>> context = "The museum opens at nine."
            >>> (best,) = reader.answer("When does it open?", context)
            >>> context[best.start : best.end] == best.text
            True
        """
        answers = inference.answer(
            *self.able("answer"), pairs_of(question, context, "answer"), top_k=top_k,
            no_answer=no_answer, threshold=threshold, max_tokens=max_tokens, overlap=overlap,
        )  # fmt: skip
        return answers[0] if is_one(question) else answers

    def translate(
        self, texts: str | Iterable[str], *, source: str | None = None, target: str | None = None,
        n_best: int = 1, align: bool = False, **settings: Unpack[GenerationOptions],
    ) -> list[Translation]:  # fmt: skip
        """One translation per text, in their order.

        Args:
            texts: one or many; one that is too long is translated sentence by sentence
            source: the language of the texts, for a model that translates from several
            target: the language to translate into, for a model that translates into several
            n_best: how many translations of each: the next best ones are its `others`
            align: also align the words: `Translation.alignment`
            settings: those of `generate`; num_beams is 4, if not given

        Examples:
            >>> (translation,) = translator.translate("A cat sat on the mat.")
            >>> print(translation)
            К...
        """
        translations = translate(
            self.task, self._tokenizer(), texts, origin=self.origin, source=source, target=target,
            n_best=n_best, align=align, **settings,
        )  # fmt: skip
        for line in notes(translations):
            warnings.warn(line, stacklevel=2)
        return translations


def _numbers(ids: Any) -> Any:
    """Tensors, arrays and generators of token ids as lists; anything else is reported later."""
    ids = plain(ids)
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        return ids
    return [plain(row) for row in ids]
