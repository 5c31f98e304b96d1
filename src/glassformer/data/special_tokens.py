"""What a tokenizer puts around texts: [CLS] … [SEP] … [SEP], or … </s>, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import InputError
from glassformer.text import Tokenizer

END = ("<|endoftext|>", "</s>", "<|im_end|>", "<eos>")
PAD = ("[PAD]", "<pad>")
MASK = ("[MASK]", "<mask>")


@dataclass(frozen=True)
class SpecialTokenTemplate:
    before: tuple[int, ...]
    after: tuple[int, ...]
    between: tuple[int, ...]  # of a pair: after the first text
    closing: tuple[int, ...]  # of a pair: after the second
    segments: bool  # the second text of a pair has segment id 1

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> SpecialTokenTemplate:
        """Read the template off the encoding of a word and of a pair of words."""
        word = next(filter(str.isalnum, map(tokenizer.token, range(len(tokenizer)))), "a")
        one, two = tokenizer.encode(word), tokenizer.encode((word, word))
        inside = [i for i, special in enumerate(one.special) if not special]
        parts = {
            n: [i for i, text in enumerate(two.texts) if text == n and not two.special[i]]
            for n in (0, 1)
        }
        if not inside or not parts[0] or not parts[1]:
            raise InputError(f"the tokenizer gives no token for {word!r}: it cannot be used")
        return cls(
            before=tuple(one.ids[: inside[0]]),
            after=tuple(one.ids[inside[-1] + 1 :]),
            between=tuple(two.ids[parts[0][-1] + 1 : parts[1][0]]),
            closing=tuple(two.ids[parts[1][-1] + 1 :]),
            segments=two.segments[parts[1][0]] == 1,
        )

    @property
    def width(self) -> int:
        return len(self.before) + len(self.after)

    @property
    def pair_width(self) -> int:
        return len(self.before) + len(self.between) + len(self.closing)


def find_id(tokenizer: Tokenizer, names: tuple[str, ...]) -> int | None:
    """The id of the first of these special tokens that the tokenizer knows."""
    return next((i for i in map(tokenizer.id, names) if i is not None), None)


def end_of_text(tokenizer: Tokenizer, template: SpecialTokenTemplate) -> tuple[int, ...]:
    """What ends a document: the last token that the tokenizer appends, or its end token, if any."""
    end = find_id(tokenizer, END)
    return template.after[-1:] or (() if end is None else (end,))
