"""Parity at the real sizes: slow, so only in make test-all."""

import pytest
from transformers import BertConfig, GPT2Config, MarianConfig

from kit import Case, difference, inputs, our_answers, reference_answers, saved, tolerance

MARIAN = {
    "vocab_size": 1009, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6,
    "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048, "max_position_embeddings": 512, "pad_token_id": 0, "eos_token_id": 1,
    "forced_eos_token_id": 1, "decoder_start_token_id": 0, "scale_embedding": True,
}  # fmt: skip
CASES = (
    Case("BertForMaskedLM", BertConfig, {"vocab_size": 30522, "type_vocab_size": 2}, width=768),
    Case("GPT2LMHeadModel", GPT2Config, {"vocab_size": 50257}, width=768),
    Case("MarianMTModel", MarianConfig, MARIAN, width=512),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_parity_at_the_size_of_the_papers(case: Case, tmp_path) -> None:
    reference, model = saved(case, tmp_path)
    given = inputs(case)
    theirs = reference_answers(reference, given)
    assert difference(our_answers(model, given), theirs) <= tolerance(case, given, theirs)
