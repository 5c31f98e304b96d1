"""The programs of twelve_tasks.py: ours, theirs, and the command that does the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """Two programs for one thing, and the command that does the same, if there is one."""

    name: str
    ours: str
    theirs: str
    command: str = ""
    same: bool = True  # must both print the same?


TASKS = (
    Task(
        "Fill in a masked word",
        """
import glassformer as gf

print(gf.load("encoder").fill("The cat sat on the [MASK].")[0].candidates[0].text)
""",
        """
from transformers import pipeline

fill = pipeline("fill-mask", "encoder")
print(fill("The cat sat on the [MASK].")[0]["token_str"])
""",
        'glassformer fill encoder "The cat sat on the [MASK]."',
    ),
    Task(
        "Does one text follow another?",
        """
import glassformer as gf

print(f"{gf.load('encoder').follows('Paul went shopping.', 'He bought a shirt.'):.4f}")
""",
        """
import torch
from transformers import AutoTokenizer, BertForPreTraining

tokenizer = AutoTokenizer.from_pretrained("encoder")
model = BertForPreTraining.from_pretrained("encoder", dtype=torch.float32)
inputs = tokenizer("Paul went shopping.", "He bought a shirt.", return_tensors="pt")
with torch.no_grad():
    logits = model(**inputs).seq_relationship_logits
print(f"{logits.softmax(-1)[0, 0]:.4f}")
""",
        'glassformer follows encoder "Paul went shopping." "He bought a shirt."',
    ),
    Task(
        "Continue a text",
        """
import glassformer as gf

print(gf.load("decoder").generate("The old house stood", max_new_tokens=30)[0].text)
""",
        """
import torch
from transformers import pipeline

write = pipeline("text-generation", "decoder", dtype=torch.float32)
options = {"max_new_tokens": 30, "do_sample": False, "return_full_text": False}
print(write("The old house stood", **options)[0]["generated_text"])
""",
        'glassformer generate decoder "The old house stood" --max-new-tokens 30',
    ),
    Task(
        "Perplexity of a text",
        """
import glassformer as gf

model = gf.load("decoder")
ids = model.tokenizer("The old house stood on a hill above the sea.").ids
logprobs = model.logits([ids])[0][:-1].log_softmax(-1)
print(f"{(-logprobs[range(len(ids) - 1), ids[1:]].mean()).exp():.2f}")
""",
        """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("decoder")
model = AutoModelForCausalLM.from_pretrained("decoder", dtype=torch.float32)
inputs = tokenizer("The old house stood on a hill above the sea.", return_tensors="pt")
with torch.no_grad():
    loss = model(**inputs, labels=inputs["input_ids"]).loss
print(f"{loss.exp():.2f}")
""",
    ),
    Task(
        "Translate, with beam search",
        """
import glassformer as gf

print(gf.load("translator").translate("The cat sat on the mat.")[0].text)
""",
        """
import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

tokenizer = PreTrainedTokenizerFast.from_pretrained("translator")
model = AutoModelForSeq2SeqLM.from_pretrained("translator", dtype=torch.float32)
inputs = tokenizer("The cat sat on the mat.", return_tensors="pt", return_token_type_ids=False)
ids = model.generate(**inputs, num_beams=4, max_new_tokens=100)
print(tokenizer.decode(ids[0], skip_special_tokens=True).strip())
""",
        'glassformer translate translator "The cat sat on the mat."',
    ),
    Task(
        "Embed 200 texts",
        """
import glassformer as gf

texts = open("texts.txt").read().splitlines()
print(f"{gf.load('encoder').embed(texts).norm(dim=-1).mean():.3f}")
""",
        """
from sentence_transformers import SentenceTransformer, models

encoder = models.Transformer("encoder", model_kwargs={"dtype": "float32"})
model = SentenceTransformer(modules=[encoder, models.Pooling(256, "mean")])
texts = open("texts.txt").read().splitlines()
print(f"{model.encode(texts, convert_to_tensor=True).norm(dim=-1).mean():.3f}")
""",
        "glassformer embed encoder --file texts.txt --out vectors.npy",
    ),
    Task(
        "The nearest of 200 texts",
        """
import glassformer as gf

model = gf.load("encoder")
texts = open("texts.txt").read().splitlines()
print(texts[model.similarity("a boat on the sea", texts).argmax()])
""",
        """
from sentence_transformers import SentenceTransformer, models

encoder = models.Transformer("encoder", model_kwargs={"dtype": "float32"})
model = SentenceTransformer(modules=[encoder, models.Pooling(256, "mean")])
texts = open("texts.txt").read().splitlines()
print(texts[model.similarity(model.encode("a boat on the sea"), model.encode(texts)).argmax()])
""",
        'glassformer embed encoder --file texts.txt --nearest "a boat on the sea" --top-k 1',
    ),
    Task(
        "A word's vector in two sentences",
        """
import glassformer as gf

model = gf.load("encoder")
river, money = (model.word(s, "bank") for s in ("I sat on the bank.", "The bank lent money."))
print(f"{model.similarity(river[None], money[None]).item():.3f}")
""",
        """
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("encoder")
model = AutoModel.from_pretrained("encoder", dtype=torch.float32)


def word(sentence, target):
    inputs = tokenizer(sentence, return_tensors="pt")
    start = sentence.index(target)
    places = [
        i
        for i in range(inputs["input_ids"].shape[1])
        if (span := inputs.token_to_chars(i)) and start <= span.start < start + len(target)
    ]
    with torch.no_grad():
        return model(**inputs).last_hidden_state[0, places].mean(0)


river, money = (word(s, "bank") for s in ("I sat on the bank.", "The bank lent money."))
print(f"{torch.cosine_similarity(river, money, dim=0).item():.3f}")
""",
        'glassformer word encoder "I sat on the bank." bank "The bank lent money."',
    ),
    Task(
        "Attention weights of one head",
        """
import glassformer as gf

trace = gf.record(gf.load("encoder"), "The cat sat on the mat.")
print(f"{trace['encoder.blocks.3.attention.weights'][0, 2, 0]:.4f}")
""",
        """
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("encoder")
model = AutoModel.from_pretrained("encoder", dtype=torch.float32, attn_implementation="eager")
with torch.no_grad():
    outputs = model(
        **tokenizer("The cat sat on the mat.", return_tensors="pt"), output_attentions=True
    )
print(f"{outputs.attentions[3][0, 0, 2, 0]:.4f}")
""",
        'glassformer inspect encoder "The cat sat on the mat." --layer 3 --head 0',
    ),
    Task(
        "Switch a head off",
        """
import glassformer as gf

off = {"encoder.blocks.3.attention.mixed": gf.ablate(0)}
trace = gf.record(gf.load("encoder"), "The cat sat on the mat.", edit=off)
print(f"{trace['encoder.blocks.5.out'].norm():.3f}")
""",
        """
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("encoder")
model = AutoModel.from_pretrained("encoder", dtype=torch.float32)


def without_head(module, inputs):
    mixed = inputs[0].clone()
    mixed[..., :64] = 0  # head 0: the first 64 of 4 times 64 numbers
    return (mixed, *inputs[1:])


model.encoder.layer[3].attention.output.dense.register_forward_pre_hook(without_head)
with torch.no_grad():
    vectors = model(**tokenizer("The cat sat on the mat.", return_tensors="pt")).last_hidden_state
print(f"{vectors.norm():.3f}")
""",
    ),
    Task(
        "Fine-tune a classifier on 400 labelled texts, one epoch",
        """
import glassformer as gf

changes = {"train.epochs": 1, "train.micro_batch_tokens": 512}
run = gf.finetune(
    "encoder", "classification", train="train.csv", valid="valid.csv", out="run", changes=changes
)
print(run.run(progress=False).classify("a warm and clever film")[0].label)
""",
        """
import csv, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def read(path):
    rows = list(csv.DictReader(open(path)))
    return [row["text"] for row in rows], [names.index(row["label"]) for row in rows]


names = ["bad", "good"]
tokenizer = AutoTokenizer.from_pretrained("encoder")
model = AutoModelForSequenceClassification.from_pretrained("encoder", dtype=torch.float32)


def batch(texts):
    return tokenizer(texts, padding=True, truncation=True, return_tensors="pt")


texts, labels = read("train.csv")
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
parts = torch.randperm(len(texts)).split(32)
warmup = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda s: min((s + 1) / 2, 1) * (1 - s / len(parts))
)
model.train()
for part in parts:
    target = torch.tensor([labels[i] for i in part])
    model(**batch([texts[i] for i in part]), labels=target).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    warmup.step()
    optimizer.zero_grad()
model.eval()
texts, labels = read("valid.csv")
with torch.no_grad():
    right = (model(**batch(texts)).logits.argmax(-1) == torch.tensor(labels)).float().mean()
    model.save_pretrained("theirs")
    tokenizer.save_pretrained("theirs")
    print(names[model(**batch(["a warm and clever film"])).logits.argmax()])
""",
        "glassformer finetune encoder --objective classification --data train.csv "
        "--data.valid valid.csv --train.epochs 1 --train.micro_batch_tokens 512",
        same=False,
    ),
    Task(
        "Classify the rows of a CSV file",
        """
import csv
import glassformer as gf

rows = list(csv.DictReader(open("valid.csv")))
predictions = gf.load("classifier").classify([row["text"] for row in rows])
with open("ours.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow([*rows[0], "predicted", "probability"])
    for row, each in zip(rows, predictions):
        writer.writerow([*row.values(), each.label, each.score])
print(sum(each.label == "good" for each in predictions))
""",
        """
import csv, torch
from transformers import pipeline

rows = list(csv.DictReader(open("valid.csv")))
classify = pipeline("text-classification", "classifier", dtype=torch.float32)
predictions = classify([row["text"] for row in rows], batch_size=32)
with open("theirs.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow([*rows[0], "predicted", "probability"])
    for row, each in zip(rows, predictions):
        writer.writerow([*row.values(), each["label"], each["score"]])
print(sum(each["label"] == "good" for each in predictions))
""",
        "glassformer classify classifier --file valid.csv --column text --out ours.csv",
    ),
)  # fmt: skip
