"""The requests of OpenAI's clients. What would change the answer and is not here is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from glassformer.serve.dialects.schemas import Body, ModelName, Text, Texts

TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
TokenIds = Annotated[list[TokenId], Field(min_length=1, max_length=1 << 17)]
Stop = Annotated[str, Field(min_length=1, max_length=1_000)]


class StreamOptions(Body):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # ignored


class GenerationBody(Body):
    """What completions and chats share."""

    model: ModelName
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int | None = Field(None, ge=1, le=128)
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63)
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    explain: bool = Field(False, description="Also the tokens, heads and logit lens of the answer.")
    user: str | None = None  # ignored
    # Accepted if they ask for nothing:
    frequency_penalty: float | None = Field(None, ge=0, le=0)
    presence_penalty: float | None = Field(None, ge=0, le=0)
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.stream and self.explain:
            raise ValueError("explain is for whole answers: leave stream out")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is for streams: write stream, too")
        return self

    def options(self, limit: int | None, logprobs: int | None) -> dict[str, Any]:
        """The settings of `model.generate`. Without a temperature OpenAI samples at 1."""
        temperature = 1.0 if self.temperature is None else self.temperature
        options: dict[str, Any] = {}
        if temperature > 0:
            seed = None if self.seed is None else self.seed % (1 << 63)
            options |= {"do_sample": True, "temperature": temperature, "seed": seed}
            options |= {"top_p": self.top_p, "num_return_sequences": self.n or 1}
        if limit is not None:
            options["max_new_tokens"] = limit
        if self.stop:
            options["stop"] = [self.stop] if isinstance(self.stop, str) else self.stop
        if logprobs is not None:
            options |= {"logprobs": True, "top_logprobs": logprobs}
        return options

    @property
    def copies(self) -> int:
        """How often each text is returned: greedy decoding gives the same one n times."""
        return self.n or 1 if self.temperature == 0 else 1


class CompletionBody(GenerationBody):
    prompt: Text | Texts | TokenIds | Annotated[list[TokenIds], Field(min_length=1, max_length=256)]
    max_tokens: int | None = Field(None, ge=1, le=1 << 17)
    logprobs: int | None = Field(None, ge=0, le=5)
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None
    suffix: None = None


class TextPart(Body):
    """A part of a message. Other kinds, such as images, are refused."""

    type: Literal["text"]
    text: Annotated[str, Field(max_length=1 << 20)]


class ChatMessage(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: (
        Annotated[str, Field(max_length=1 << 20)]
        | Annotated[list[TextPart], Field(min_length=1, max_length=1_024)]
    )
    name: None = None

    @property
    def text(self) -> str:
        parts = self.content
        return parts if isinstance(parts, str) else "".join(part.text for part in parts)


class ResponseFormat(Body):
    type: Literal["text"]


class ChatBody(GenerationBody):
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1_024)]
    max_tokens: int | None = Field(None, ge=1, le=1 << 17)
    max_completion_tokens: int | None = Field(None, ge=1, le=1 << 17)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    # Accepted if they ask for nothing:
    response_format: ResponseFormat | None = None
    tool_choice: Literal["none"] | None = None
    metadata: dict[str, str] | None = None  # ignored
    store: bool | None = None  # ignored


class EmbeddingBody(Body):
    model: ModelName
    input: Text | Texts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, ge=1, le=1 << 20)
    user: str | None = None  # ignored


class Usage(BaseModel):
    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = 0


class EmbeddingRow(BaseModel):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingAnswer(BaseModel):
    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingRow]
    usage: Usage


class OpenAIModel(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "glassformer"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[OpenAIModel]


class GenerationAnswer(BaseModel):
    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: Usage | None = None
    explain: dict[str, Any] | None = None
