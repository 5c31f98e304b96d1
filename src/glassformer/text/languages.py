"""The languages of a translation model: the tokens that name them, and where these go.

NLLB, M2M100, mBART-50    eng_Latn The cat sat . </s>      →   </s> rus_Cyrl Кот …
mBART                     The cat sat . </s> en_XX         →   ru_RU Кот …
Marian                    >>rus<< The cat sat . </s>       →   Кот …
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from glassformer.errors import ConfigError, shown
from glassformer.strictjson import parse
from glassformer.text.tokenizer import Tokenizer

# What a language token looks like; its group is the code that callers write.
TOKENS = (
    re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"), re.compile(r"([a-z]{2}_[A-Z]{2})"),
    re.compile(r"__([a-z]{2,3})__"),
)  # fmt: skip
OF_TARGET = re.compile(r">>(\w{2,20})<<")  # Marian's, which the source begins with
SETTINGS = "tokenizer_config.json"
# Fields of `Languages`, by tokenizer_class in tokenizer_config.json.
PLACES = {"MBartTokenizer": {"last": True, "starts": True}}


@dataclass(frozen=True)
class Languages:
    tokens: Mapping[str, str]  # by code
    in_source: bool = False  # only the target has a token, and it stands in the source
    last: bool = False  # the source's token comes after the end token
    starts: bool = False  # the target's token takes the place of the start token

    @classmethod
    def of(cls, tokenizer: Tokenizer, files: Mapping[str, bytes]) -> Languages:
        """The language tokens of a tokenizer; `files` are those of its folder."""
        added = tokenizer.backend.get_added_tokens_decoder().values()
        special = [token.content for token in added if token.special]
        for pattern in (*TOKENS, OF_TARGET):
            matches = [match for match in map(pattern.fullmatch, special) if match]
            if matches:
                tokens = {match[1]: match[0] for match in sorted(matches, key=lambda m: m[1])}
                break
        else:
            return cls({})
        settings = parse(files.get(SETTINGS, b"{}"), SETTINGS)
        kind = str(settings.get("tokenizer_class")).removesuffix("Fast")
        places = PLACES.get(kind, {"last": settings.get("legacy_behaviour") is True})
        return cls(tokens, in_source=pattern is OF_TARGET, **places)

    def check(self, source: str | None, target: str | None, *, has_target: bool) -> None:
        """ConfigError if a language is missing, unknown, or given to a model that has none;
        `has_target` if the folder says what the target is."""
        needed = {"source": not self.in_source, "target": not (self.in_source or has_target)}
        for name, code in (("source", source), ("target", target)):
            if not self.tokens:
                if code is not None:
                    raise ConfigError(
                        f"{name} = {shown(code)}: this model has no language tokens: leave it out"
                    )
            elif name == "source" and self.in_source and code is not None:
                raise ConfigError(
                    f"source = {shown(code)}: this model has tokens of target languages only: "
                    "leave it out"
                )
            elif code is None and needed[name]:
                raise ConfigError(
                    f"{name}: this model knows {len(self.tokens)} languages: write one of them, "
                    f"such as {name} = {next(iter(self.tokens))!r}"
                )
            elif code is not None and code not in self.tokens:
                raise ConfigError(f"{name} = {shown(code)}: the model has no such language: "
                                  f"{self._nearest(code)}")  # fmt: skip

    def _nearest(self, code: Any) -> str:
        codes = list(self.tokens)
        longer = [each for each in codes if isinstance(code, str) and each.startswith(code[:3])]
        near = [*get_close_matches(str(code), longer or codes, n=1, cutoff=0.0)]
        return f"the nearest is {near[0]!r}"

    def tokenizer(
        self, tokenizer: Tokenizer, source: str | None, target: str | None, end: str
    ) -> Tokenizer:
        """The tokenizer with the language tokens around the source."""
        code = target if self.in_source else source
        if code is None:
            return tokenizer
        token = self.tokens[code]
        return (
            tokenizer.framed((), (end, token)) if self.last else tokenizer.framed((token,), (end,))
        )

    def options(self, tokenizer: Tokenizer, target: str | None) -> dict[str, int | None]:
        """The settings of generation that make it write in this language."""
        if target is None or self.in_source:
            return {}
        name = "decoder_start_token_id" if self.starts else "forced_bos_token_id"
        return {name: tokenizer.id(self.tokens[target])}
