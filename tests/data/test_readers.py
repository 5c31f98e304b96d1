"""Readers of files: what they give, and the one line they say of a broken file."""

import gzip
import json
import lzma
import os
import re
import subprocess
import sys
import tracemalloc
from functools import partial

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from glassformer.data.readers import files
from glassformer.data.readers import text as readers
from glassformer.data.readers.conll import TaggedSentence, tagged
from glassformer.data.readers.files import BadRows, find_files, read_lines
from glassformer.data.readers.parallel import pairs
from glassformer.data.readers.squad import SHAPE, Question, questions
from glassformer.data.readers.tables import located, rows
from glassformer.data.readers.text import documents
from glassformer.errors import ConfigError, InputError

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".GZ": gzip.compress}


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else text.encode("utf-8")
        path.write_bytes(PACK.get(path.suffix, bytes)(data))
        return path

    return write


def says(reader):
    """The one line of the error."""
    with pytest.raises(InputError) as caught:
        list(reader)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# files and lines


def test_find_files_is_sorted_and_skips_hidden_ones(file, tmp_path):
    names = ["b.txt", "a/2.txt", "a/10.txt", ".git/config", "a/.hidden", "c/.d/x.txt"]
    for name in names:
        file(name, "text")
    found = [str(path.relative_to(tmp_path)) for path in find_files(tmp_path)]
    assert found == ["a/10.txt", "a/2.txt", "b.txt"]
    assert find_files(str(tmp_path / "a" / ".hidden")) == [tmp_path / "a" / ".hidden"]


def test_find_files_wants_files(tmp_path):
    with pytest.raises(InputError, match=r"File not found: .*nowhere"):
        find_files(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no files in this folder"):
        find_files(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: this is neither a file nor a folder"):
        find_files(tmp_path / "pipe")


@pytest.mark.parametrize("packed", PACK)
def test_lines_have_numbers_and_no_ends(file, packed):
    path = file(f"a.txt{packed}", "\ufeffone\r\ntwo\n\n чет\u2028ыре\x0b\r\rlast")
    assert list(read_lines(path)) == [
        (1, "one"),
        (2, "two"),
        (3, ""),
        (4, " чет\u2028ыре\x0b\r\rlast"),
    ]
    assert list(read_lines(str(path))) == list(read_lines(path))


BROKEN = {
    "Latin-1": (
        b"a\tO\ncaf\xe9\n",
        "line 2, byte 8 of the file is not UTF-8: save it as UTF-8, or name",
    ),
    "UTF-16": ("one".encode("utf-16"), "this is UTF-16 text: use --encoding utf-16"),
    "a PNG": (b"\x89PNG\r\n\x1a\n\0\0\0", "this is a PNG image, not text"),
    "a PDF": (b"%PDF-1.4\n\xe2\xe3", "this is a PDF document"),
    "a workbook": (b"PK\3\4\x14\0", "as .xlsx and .docx files are: save it as text or .csv"),
    "NUL": (b"a\tO\ntwo\x00\n", "line 2 holds a NUL byte: this is not a text file"),
    "half a character": ("é".encode()[:1], "line 1, byte 1"),
    "a packed file under another name": (gzip.compress(b"x"), "a name that ends in .gz"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_text_is_refused(file, case):
    data, line = BROKEN[case]
    path = file("a.txt", data)
    for reader in (read_lines, documents, tagged, pairs):
        assert says(reader(path)).startswith(f"{path}: ")
        assert line in says(reader(path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_encodings(file, encoding):
    path = file("a.txt", "café\r\n\ntwo \u00a0!".encode(encoding))
    assert list(read_lines(path, encoding=encoding)) == [(1, "café"), (2, ""), (3, "two \xa0!")]
    table = file("a.csv", 'text;label\r\n"é;\nb";1\r\n'.encode(encoding))
    assert [row for _, row in located(table, encoding=encoding)] == [
        {"text": "é;\nb", "label": "1"}
    ]


def test_an_encoding_that_is_none(file):
    path = file("a.txt", "one")
    for name in ("utf9", "base64"):
        with pytest.raises(ConfigError, match=f"encoding = '{name}': write one such as utf-8"):
            list(read_lines(path, encoding=name))
    assert "not UTF-16 text" in says(read_lines(file("b.txt", b"\xff\xfea"), encoding="utf-16"))


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_broken_packed_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    whole = PACK[suffix](b"some text " * 500)
    for data in (whole[:-9], b"no such thing", whole[:30] + b"\xff" * 40 + whole[70:]):
        path.write_bytes(data)
        assert says(read_lines(path)).startswith(f"{path}: cannot be read: ")


def test_a_line_without_end_is_refused_before_memory_is_full(file, monkeypatch):
    monkeypatch.setattr(files, "MOST_LINE", 1000)
    path = file("a.txt.gz", b"x\n" + b"a" * 1001)
    assert "line 2 is longer than 1,000 bytes" in says(read_lines(path))
    assert len(list(read_lines(file("b.txt", "a" * 999 + "\nb")))) == 2


def test_reading_streams(file):
    """Ten megabytes of text, unpacked a little at a time."""
    text = (f"line {i} of {i * 2_654_435_761 % 2**32}\n\n" for i in range(400_000))
    path = file("a.txt.gz", "".join(text))
    tracemalloc.start()
    reader = documents(path)
    for i in range(2_000):
        assert next(reader).startswith(f"line {i} of")
    reader.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000


# documents


@pytest.mark.parametrize("packed", PACK)
def test_an_empty_line_stands_between_documents(file, packed):
    path = file(f"a.txt{packed}", "\n\none\n two \n\n \t\nthree\r\n\r\nfour")
    assert list(documents(path)) == ["one\n two ", "three", "four"]


def test_a_folder_is_its_files_one_after_the_other(file, tmp_path):
    file("b.txt", "plain\n\ntext")
    file("a.jsonl.xz", '{"text": "json"}\n')
    file("c/d.csv", 'text\n"with ""quotes"",\nand lines"\n')
    file("c/e.tsv", 'text\tlabel\na "literal\t1\n')
    found = ["json", "plain", "text", 'with "quotes",\nand lines', 'a "literal']
    assert list(documents(tmp_path)) == found


def test_a_field_may_have_another_name_and_empty_texts_are_none(file):
    path = file("a.jsonl", '{"body": "one"}\n\n{"body": " "}\n{"body": "two"}\n')
    assert list(documents(path, "body")) == ["one", "two"]


def test_documents_that_are_none(file):
    path = file("a.txt", " \n\n")
    assert says(documents(path)) == f"{path}: there is no text in it"
    assert "there is no text" in says(documents(file("b.txt.gz", "")))
    assert "there is no row" in says(documents(file("a.csv", "text\n")))
    assert "there is no row" in says(documents(file("b.csv", "")))
    assert "name it .jsonl" in says(documents(file("a.json", "{}")))
    path = file("a.jsonl", '{"text": "one"}\n{"text": null}')
    assert says(documents(path)) == f"{path}: line 2: field 'text' is None: write a string"
    path = file("b.jsonl", '{"txt": "one"}')
    assert says(documents(path)) == f"{path}: line 1: there is no field 'text': it has 'txt'"
    path = file("a.tsv", "sentence\tlabel\nx\t1\n")
    line = f"{path}: line 1: there is no column 'text': it has 'sentence', 'label'"
    assert says(documents(path)) == line


# rows


def test_rows_of_json_lines_keep_their_types(file):
    path = file("a.jsonl.gz", '{"text": "é", "label": 1}\r\n\n{"text": "", "label": [2.5, null]}')
    assert list(rows(path, ("text",))) == [
        {"text": "é", "label": 1},
        {"text": "", "label": [2.5, None]},
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"text": "one"', "line 2: not valid JSON"),
        ("['text']", "line 2: not valid JSON"),
        ("[1]", "line 2: write an object"),
        ('{"a": 1, "a": 2}', "line 2: field 'a' is there twice"),
        ('{"a": NaN}', "line 2: field 'a' is NaN"),
        ("[" * 100_000, "line 2: "),
        ('{"label": 1}', "line 2: there is no field 'text': it has 'label'"),
    ],
    ids=lambda value: value[:20],
)
def test_a_broken_json_line_is_named(file, line, why):
    path = file("a.jsonl", '{"text": "one"}\n' + line)
    assert says(rows(path, ("text",))).startswith(f"{path}: {why}")


@pytest.mark.parametrize("packed", PACK)
def test_csv_is_quoted_as_in_the_rfc(file, packed):
    text = '\ufefftext,label\r\n"a, ""b""\r\n\r\nc",0\r\n\r\n d ,"1"\r\n"",x"y\r\n'
    assert list(rows(file(f"a.csv{packed}", text), ("label",))) == [
        {"text": 'a, "b"\n\nc', "label": "0"},
        {"text": " d ", "label": "1"},
        {"text": "", "label": 'x"y'},
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3 columns: write 2, one for each of 'a', 'b'"),
        ("a,b\n1,2\n\n1\n", "line 4 has 1 column: write 2"),
        ('a,b\n1,"2\n', "line 2: unexpected end of data: close each quotation mark"),
        ('a,b\n"x\ny",2\n"1"2,3\n', "line 4: ',' expected after '\"': close each"),
        ("a,a\n1,2\n", "line 1: column 'a' is there twice"),
        ("a\n1\n", "line 1: there is no column 'b': it has 'a'"),
    ],
)
def test_broken_csv_is_named(file, text, why):
    path = file("a.csv", text)
    assert says(rows(path, ("b",) if "a\n1" in text else ())).startswith(f"{path}: {why}")


def test_an_open_quotation_mark_does_not_swallow_the_file(file):
    path = file("a.csv", 'text\none\n"two\n' + "x" * 80 + "\n" + ("y" * 99 + "\n") * 50_000)
    tracemalloc.start()
    line = says(rows(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert line.startswith(f"{path}: line 3: field larger than field limit (131072): close each")
    assert peak < 3_000_000


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_the_header_of_a_csv_file_shows_its_separator(file, separator):
    """Excel writes semicolons in Europe; quotation marks mean the same."""
    text = 'text;label\n"a; ""b""\nc";0\nd;"1"\n'.replace(";", separator)
    expected = [{"text": f'a{separator} "b"\nc', "label": "0"}, {"text": "d", "label": "1"}]
    assert list(rows(file("a.csv", text))) == expected
    assert [row for _, row in located(file("a.csv", text), separator=separator)] == expected


def test_after_a_bad_record_the_next_line_is_read(file):
    """An open quotation mark does not take the rest of the file with it."""
    path = file("a.csv", b'text,label\na,1\n"b,2\nc,3\n"d"x,4\n\xff,5\ne,6\n')
    bad = []
    found = [row["text"] for _, row in located(path, bad=bad.append)]
    assert found == ["a", "c", "e"]
    where = [re.search(r"line \d", str(each))[0] for each in bad]
    assert where == ["line 3", "line 5", "line 6"]


def test_one_bad_file_of_many(file, tmp_path):
    file("a.txt", b"\x89PNG\r\n")
    file("b.txt", "one\n\ntwo")
    assert "a.txt: this is a PNG" in says(documents(tmp_path))
    bad = []
    assert list(documents(tmp_path, bad=bad.append)) == ["one", "two"] and len(bad) == 1


def test_bad_rows_are_counted(tmp_path):
    logged = []
    errors = [InputError("a: line 3: empty"), InputError("a: line 5: empty")]
    with BadRows(tmp_path, True, logged.append) as bad:
        list(map(bad, errors))
    assert logged == [f"{tmp_path}: 2 bad rows skipped, the first: a: line 3: empty"]
    raises = partial(pytest.raises, InputError)
    with (
        raises(match=r"^a: line 3: empty \(2 bad rows: --skip-bad leaves"),
        BadRows(tmp_path, False, logged.append) as bad,
    ):
        list(map(bad, errors))
    with (
        raises(match=r"^a: line 3: empty \(1 bad row, and no good one\)"),
        BadRows(tmp_path, True, logged.append) as bad,
    ):
        bad(errors[0])
        raise InputError("there is no row")


def test_tsv_is_as_in_glue(file):
    """SST-2: a header, tabs, and quotation marks that are never closed."""
    text = 'sentence\tlabel\nit \'s a "charming \t1\n"so` \t0\n\n'
    assert list(rows(file("a.tsv", text), ("sentence", "label"))) == [
        {"sentence": "it 's a \"charming ", "label": "1"},
        {"sentence": '"so` ', "label": "0"},
    ]
    path = file("b.tsv", "sentence\tlabel\none\t1\ntwo 0\n")
    assert says(rows(path)).startswith(f"{path}: line 3 has 1 column: write 2")


def test_a_file_without_a_header_is_given_one(file):
    """CoLA."""
    path = file("a.tsv", "gj04\t1\t\tFred watered the plants.\ngj04\t0\t*\tFred plants.\n")
    found = list(rows(path, ("label",), header=("source", "label", "mark", "text")))
    assert [row["text"] for row in found] == ["Fred watered the plants.", "Fred plants."]
    assert "has 4 columns: write 2" in says(rows(path, header=("label", "text")))
    assert "no column 'text'" in says(rows(path, ("text",)))


def test_rows_need_a_file_whose_name_says_what_is_in_it(file):
    path = file("a.txt", "a\tb\n1\t2")
    line = f"{path}: name it after what is in it: .jsonl, .csv, .tsv, .parquet"
    assert says(rows(path)) == line


# Parquet, and folders of HF datasets


def test_parquet_gives_rows_and_documents(tmp_path):
    table = pyarrow.table({"text": [f"text {i}" for i in range(2500)], "label": [1] * 2500})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    found = list(rows(tmp_path / "a.parquet", ("text",)))
    assert found[2499] == {"text": "text 2499", "label": 1} and len(found) == 2500
    assert list(documents(tmp_path)) == [row["text"] for row in found]
    where = f"{tmp_path / 'a.parquet'}: row 1: "
    assert says(documents(tmp_path, "body")).startswith(where)
    assert says(documents(tmp_path, "label")).startswith(where)


def test_broken_parquet_is_named(file):
    path = file("a.parquet", "PAR1 or not")
    assert says(rows(path)).startswith(f"{path}: cannot be read: ")
    assert "unpack it first" in says(rows(file("b.parquet.gz", "x")))


def saved(folder, *parts):
    """As datasets.Dataset.save_to_disk writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for i, texts in enumerate(parts):
        names.append(f"data-{i:05}-of-{len(parts):05}.arrow")
        table = pyarrow.table({"text": texts})
        with pyarrow.ipc.new_stream(folder / names[-1], table.schema) as stream:
            stream.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "x"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")


def test_a_saved_dataset_is_read_in_its_order(tmp_path):
    saved(tmp_path / "train", ["b", "a"], [f"{i}" for i in range(1500)])
    found = [row["text"] for row in rows(tmp_path / "train")]
    assert found == ["b", "a", *(f"{i}" for i in range(1500))]
    assert list(documents(tmp_path / "train")) == found
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    line = f"{tmp_path}: it has parts: write one of {tmp_path / 'train'}"
    assert says(rows(tmp_path)) == line


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("{", "this is not a saved Hugging Face dataset"),
        ("{}", "this is not a saved Hugging Face dataset"),
        ('{"_data_files": [{"filename": "../a.arrow"}]}', "is not a file of this folder"),
        ('{"_data_files": [], "_indices_data_files": [1]}', "flatten_indices"),
        ('{"_data_files": [{"filename": "gone.arrow"}]}', "cannot be read"),
        ('{"_data_files": [{"filename": "state.json"}]}', "cannot be read"),
    ],
)
def test_a_broken_saved_dataset_is_named(tmp_path, state, why):
    (tmp_path / "state.json").write_text(state)
    line = says(rows(tmp_path))
    assert line.startswith(f"{tmp_path}") and why in line


def test_without_pyarrow_the_line_says_what_to_install(file):
    code = f"""
import sys
sys.modules["pyarrow"] = None
from glassformer.data.readers.tables import rows
from glassformer.errors import InputError
try:
    list(rows({str(file("a.parquet", "x"))!r}))
except InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("this format needs pyarrow: pip install 'glassformer[data]'\n")


# tagged words

CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ  B-VP O

# SYM B-NP O
-DOCSTART- -X- -X- O
Peter NNP B-NP B-PER
"""


def test_conll_2003(file):
    path = file("a.conll", CONLL)
    assert list(tagged(path)) == [
        TaggedSentence(["EU", "rejects"], ["B-ORG", "O"]),
        TaggedSentence(["#"], ["O"]),
        TaggedSentence(["Peter"], ["B-PER"]),
    ]
    tags = {column: next(tagged(path, column)).tags for column in ("pos", "ner", 2, -3, 3)}
    assert tags["pos"] == tags[-3] == ["NNP", "VBZ"]
    assert tags["ner"] == tags[3] == ["B-ORG", "O"]
    assert tags[2] == ["B-NP", "B-VP"]


def test_conll_with_tabs_as_in_wnut(file):
    """A line with only a tab ends a sentence; a word may hold spaces and begin with #."""
    path = file("a.txt.gz", "New York\tB-loc\n#fun\tO\n\t\nyes\tO\n\xa0x\tO\n")
    assert list(tagged(path)) == [
        TaggedSentence(["New York", "#fun"], ["B-loc", "O"]),
        TaggedSentence(["yes", "\xa0x"], ["O", "O"]),
    ]


CONLLU = """# sent_id = 1
# text = don't go
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tplease\t_\tINTJ\tUH\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def test_conllu(file):
    path = file("a.conllu.xz", CONLLU)
    assert list(tagged(path)) == [
        TaggedSentence(["do", "n't", "go"], ["AUX", "PART", "VERB"]),
        TaggedSentence(["Yes"], ["INTJ"]),
    ]
    assert next(tagged(path, "XPOS")).tags == next(tagged(path, 4)).tags == ["VB", "RB", "VB"]
    with pytest.raises(ConfigError, match="column = 'ner': write a number, or one of id, form"):
        list(tagged(path, "ner"))


@pytest.mark.parametrize(
    ("name", "text", "column", "why"),
    [
        ("a.conll", "EU B-ORG\nrejects\n", None, "line 2 has 1 column: write 2"),
        ("a.conll", "EU\n", None, "line 1 has 1 column: write 2"),
        ("a.conll", "EU B-ORG\n", "ner", "line 1 has 2 columns: write 4"),
        ("a.conll", "EU B-ORG\n", -3, "line 1 has 2 columns: write 3"),
        ("a.conll", "EU NNP O\na b c d\n", None, "line 2 has 4 columns: write 3"),
        ("a.conll", "\tO\n", None, "line 1: the word is empty"),
        ("a.conllu", "1\tYes\tyes\n", None, "line 1 has 3 columns: write 10"),
        ("a.conllu", CONLLU, 11, "line 4 has 10 columns: write 12"),
        ("a.conll", "-DOCSTART- O\n\n", None, "there is no sentence in it"),
    ],
)
def test_broken_conll_is_named(file, name, text, column, why):
    path = file(name, text)
    assert says(tagged(path, column)).startswith(f"{path}: {why}")


# questions


def squad(*asked, context="Ёж lives in Tula, in Tula."):
    return {"version": "2.0", "data": [{"paragraphs": [{"context": context, "qas": [*asked]}]}]}


def ask(*answers, **more):
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "Where?", "answers": found, **more}


@pytest.mark.parametrize("packed", PACK)
def test_squad(file, packed):
    first = ask(("Tula", 12), ("in Tula", 18), is_impossible=False)
    second = ask(id=7, is_impossible=True, plausible_answers=[{"text": "x", "answer_start": 0}])
    path = file(f"dev.json{packed}", "\ufeff" + json.dumps(squad(first, second)))
    context = "Ёж lives in Tula, in Tula."
    assert list(questions(path)) == [
        Question("q1", "Where?", context, [("Tula", 12), ("in Tula", 18)], False),
        Question("7", "Where?", context, [], True),
    ]


AT = "data[0].paragraphs[0].qas[0]"
WRONG = [
    (squad(ask(("Tula", 13))), f"{AT}: the answer 'Tula' is not at answer_start = 13: write 12"),
    (squad(ask(("Omsk", 3))), f"{AT}: the answer 'Omsk' is not at answer_start = 3: the context"),
    (squad(ask(("Tula", -1))), f"{AT}.answers[0].answer_start: "),
    (squad(ask(("Tula", "12"))), f"{AT}.answers[0].answer_start: "),
    (squad(ask(("", 1))), f"{AT}.answers[0].text: "),
    (squad(ask()), f"{AT}: write at least one answer, or none and is_impossible = true"),
    (squad(ask(("Tula", 12), is_impossible=True)), f"{AT}: write at least one answer, or none"),
    (squad(ask(("Tula", 12), question=None)), f"{AT}.question: "),
    (squad(context=None), "data[0].paragraphs[0].context: "),
    ({"rows": []}, f"not a SQuAD file, {SHAPE}: data: it is missing"),
    ({"data": []}, "there is no question in it"),
    ([], f"not a SQuAD file, {SHAPE}: write an object"),
]


@pytest.mark.parametrize(("content", "why"), WRONG, ids=[why for _, why in WRONG])
def test_broken_squad_is_named(file, content, why):
    path = file("dev.json", json.dumps(content))
    assert says(questions(path)).startswith(f"{path}: {why}")


def test_squad_that_is_no_json(file):
    path = file("dev.json", '{"data": [\n}')
    assert says(questions(path)).startswith(f"{path}: not a SQuAD file, {SHAPE}: Invalid JSON: ")
    assert "line 2" in says(questions(path))


# pairs


@pytest.mark.parametrize("packed", PACK)
def test_two_files_are_parallel(file, packed):
    one, two = file("train.en", "Hi.\n\nRun!\n"), file(f"train.ru{packed}", "Привет.\r\nда\nБеги!")
    wanted = [("Hi.", "Привет."), ("", "да"), ("Run!", "Беги!")]
    assert list(pairs(one, two)) == wanted
    assert list(pairs(one.with_suffix(""), languages=("en", "ru"))) == wanted
    assert list(pairs(one.parent, languages=("ru", "en"))) == [(b, a) for a, b in wanted]


def test_a_tab_stands_between_the_two(file):
    path = file("a.tsv.xz", 'Hi.\tПривет.\nRun!\t"Беги\tCC-BY\n\n')
    assert list(pairs(path)) == [("Hi.", "Привет."), ("Run!", '"Беги')]
    path = file("b.tsv", "Hi.\tПривет.\nRun!\n")
    line = f"{path}: line 2: write a text, a tab and its translation"
    assert says(pairs(path)) == line
    path = file("c.tsv", "")
    assert says(pairs(path)) == f"{path}: there is no pair in it"


def test_unequal_files_are_refused_with_both_counts(file):
    one, two = file("a.en", "1\n2\n3\n"), file("a.ru", "1\n" * 1200)
    for line in (says(pairs(one, two)), says(pairs(one.with_suffix(""), languages=("en", "ru")))):
        assert line.startswith(f"{one} has 3 lines and {two} has 1,200: line n of one")
    assert says(pairs(two, one)).startswith(f"{two} has 1,200 lines and {one} has 3: ")
    empty = file("b.en", "")
    assert says(pairs(empty, empty)) == f"{empty}: there is no pair in it"


def test_the_two_files_must_be_clear(file, tmp_path):
    for name in ("train.en", "train.ru", "dev.en.gz", "dev.ru", "test.en"):
        file(name, "x\n")
    both = f"{tmp_path / 'dev'}, {tmp_path / 'train'}"
    for path in (tmp_path, tmp_path / "test", tmp_path / "train.en"):
        with pytest.raises(InputError) as caught:
            pairs(path, languages=("en", "ru"))
        line = f"{path}: write the one NAME whose NAME.en and NAME.ru you mean: {both}"
        assert str(caught.value) == line
    with pytest.raises(InputError, match="none is there"):
        pairs(tmp_path, languages=("en", "fr"))
    with pytest.raises(InputError, match="name the languages of its files"):
        pairs(tmp_path)


def test_reading_imports_no_torch():
    code = "import sys, glassformer.data.readers.text; print({'torch', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_a_document_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MOST_DOCUMENT", 12)
    file = tmp_path / "text.txt"
    file.write_text("short one\n\nline 3\nline 4\nline 5\n")
    with pytest.raises(InputError, match=r"text.txt: the document that line 4 is in has more than"):
        list(documents(file))
    file.write_text("short one\n\n" * 9)
    assert len(list(documents(file))) == 9


def test_a_bad_pair_is_left_out_and_the_others_stay_together(file):
    one = file("train.en", "Hi.\nRun\xff!\nStop!\nGo!\n".encode("latin-1"))
    two = file("train.ru", "Привет.\nБеги!\nСтой!\n".encode() + b"\xff\n")
    bad = []
    assert list(pairs(one, two, bad=bad.append)) == [("Hi.", "Привет."), ("Stop!", "Стой!")]
    assert [str(each).partition(", byte")[0] for each in bad] == [
        f"{one}: line 2", f"{two}: line 4",
    ]  # fmt: skip
    tabbed, bad = file("b.tsv", "Hi.\tПривет.\nRun!\nStop!\tСтой!\n"), []
    assert list(pairs(tabbed, bad=bad.append)) == [("Hi.", "Привет."), ("Stop!", "Стой!")]
    assert [str(each) for each in bad] == [
        f"{tabbed}: line 2: write a text, a tab and its translation"
    ]


def test_squad_in_another_encoding(file):
    content = squad(ask(("Tula", 12)))
    path = file("dev.json", json.dumps(content, ensure_ascii=False).encode("utf-16"))
    assert says(questions(path)).endswith("use --encoding utf-16, or save it as UTF-8")
    assert [each.question for each in questions(path, encoding="utf-16")]
    path = file("dev.json", b'{"data": "\xff"}')
    assert "byte 11 of the file is not UTF-8: save it as UTF-8, or name" in says(questions(path))
