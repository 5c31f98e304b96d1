"""A folder for each label, a file for each text; packed or not."""

import zipfile
from pathlib import Path

import pytest

from glassformer.data.readers.examples import FOLDERS, Example, TableColumns, examples, guessed
from glassformer.data.readers.files import stop
from glassformer.data.readers.folders import has_label_folders
from glassformer.errors import InputError


def write(folder: Path) -> Path:
    for label, count in (("neg", 4), ("pos", 2)):
        (folder / label).mkdir(parents=True)
        for i in range(count):
            (folder / label / f"cv{i}.txt").write_text(f"{label} {i} .\nthe end\n")
    (folder / "README").write_text("not a text\n")
    return folder


def packed(folder: Path, top: str) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*"), reverse=True):
            if file.is_file():
                archive.write(file, f"{top}{file.relative_to(folder)}")
    return path


@pytest.mark.parametrize("how", ["folder", "zip", "zip of a folder"])
def test_the_folder_is_the_label_and_the_name_the_place(how: str, tmp_path: Path) -> None:
    path = write(tmp_path / "reviews")
    if how != "folder":
        path = packed(path, "top/reviews/" if how == "zip of a folder" else "")
    assert guessed(path, TableColumns("")) == FOLDERS
    found = list(examples(path, FOLDERS))
    assert [each.label for each in found] == ["neg"] * 4 + ["pos"] * 2
    assert found[1] == Example(("neg 1 .\nthe end",), "neg", f"{path}/neg/cv1.txt", place=0.375)
    assert [each.place for each in found[4:]] == [0.25, 0.75]


def test_tables_and_plain_folders_are_none(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    assert has_label_folders(folder)
    (folder / "pos/more.tsv").write_text("text\tlabel\n")
    assert not has_label_folders(folder)
    assert not has_label_folders(folder / "neg")
    assert not has_label_folders(folder / "neg/cv0.txt")


def test_a_bad_file_is_named_or_skipped(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    (folder / "neg/cv1.txt").write_bytes(b"caf\xe9\n")
    (folder / "neg/cv2.txt").write_text(" \n")
    with pytest.raises(InputError, match=r"neg/cv1.txt: line 1, byte 4 of the file is not UTF-8"):
        list(examples(folder, FOLDERS, stop))
    wrong: list[InputError] = []
    assert len(list(examples(folder, FOLDERS, wrong.append))) == 4
    assert str(wrong[1]) == f"{folder}/neg/cv2.txt: there is no text in it"
    (tmp_path / "b.zip").write_bytes(b"PK\3\4 no archive")
    with pytest.raises(InputError, match=r"b.zip: cannot be read"):
        has_label_folders(tmp_path / "b.zip")
