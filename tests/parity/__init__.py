# Of a small decoder whose query heads share key heads, in the words of its config.
GROUPED_SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "pad_token_id": 0,
}
