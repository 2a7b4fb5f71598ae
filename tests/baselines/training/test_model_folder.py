"""What is deleted and replaced when a model is written: only what a training wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from baselines.training.model_folder import check_folders, remove_work, replace_folder
from harness.core.errors import InputError


def folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text(f"{path.name}/{name}")
    return path


def contents(path: Path) -> dict[str, str]:
    return {one.relative_to(path).as_posix(): one.read_text() for one in path.rglob("*") if one.is_file()}


def test_a_trained_model_is_replaced(tmp_path: Path) -> None:
    new, out = folder(tmp_path / "work/model", "training.json", "new"), folder(tmp_path / "out", "training.json", "old")
    expected = contents(new)
    check_folders(out, tmp_path / "other", [])
    replace_folder(new, out)
    assert contents(out) == expected
    assert contents(tmp_path / "work") == {"replaced/training.json": "out/training.json", "replaced/old": "out/old"}
    replace_folder(folder(tmp_path / "work/model", "x"), tmp_path / "absent")
    assert contents(tmp_path / "absent") == {"x": "model/x"}


def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path: Path) -> None:
    new, real = folder(tmp_path / "work/model", "training.json"), folder(tmp_path / "real", "training.json", "thesis")
    out = tmp_path / "out"
    out.symlink_to(real)
    replace_folder(new, out)
    remove_work(tmp_path / "work")
    assert sorted(contents(real)) == ["thesis", "training.json"] and contents(out) == {
        "training.json": "model/training.json"
    }


def test_the_old_one_is_put_back_if_the_new_one_cannot_be_moved(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "training.json", "old")
    before = contents(tmp_path)
    (tmp_path / "work").mkdir()
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "work/model", out)
    assert contents(tmp_path) == before


def test_what_no_training_wrote_stays(tmp_path: Path) -> None:
    out, work = folder(tmp_path / "out", "thesis.txt"), folder(tmp_path / "out.training", "notes.txt")
    new = folder(tmp_path / "new", "training.json")
    before = contents(tmp_path)
    for refused in (
        lambda: check_folders(out, tmp_path / "free", []),
        lambda: check_folders(out / "thesis.txt", tmp_path / "free", []),
        lambda: replace_folder(new, out),
    ):
        with pytest.raises(InputError, match=r"is there already; give another --name or --out \(it is no model"):
            refused()
    with pytest.raises(InputError, match=r"out\.training, the place of the checkpoints, is there already"):
        check_folders(tmp_path / "free", work, [])
    assert contents(tmp_path) == before


def test_what_a_training_begins_with_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, work = folder(tmp_path / "out", "training.json"), folder(tmp_path / "out.training", "settings.json")
    inside, checkpoint = folder(out / "1_Pooling"), folder(work / "sts/checkpoint-7")
    (tmp_path / "link").symlink_to(out)
    monkeypatch.chdir(tmp_path)
    for start in (out, inside, checkpoint, tmp_path / "link", "./out", "out"):
        with pytest.raises(InputError, match="is what the training begins with, and would be replaced"):
            check_folders(out, work, ["FacebookAI/xlm-roberta-base", start])
    with pytest.raises(InputError, match="is what the training begins with"):
        check_folders(tmp_path / "link", work, [out])
    check_folders(out, work, ["FacebookAI/xlm-roberta-base", tmp_path, folder(tmp_path / "out-2")])


def test_checkpoints_are_known_until_the_last_of_them_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    work = folder(tmp_path / "work", "settings.json", "before.json")
    folder(work / "sts/checkpoint-7", "model.safetensors")
    delete, seen = shutil.rmtree, []

    def rmtree(path: Path, **options: bool) -> None:
        check_folders(tmp_path / "out", work, [])
        seen.append(path)
        delete(path, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    remove_work(work)
    assert seen == [work / "sts", work] and not work.exists()
    remove_work(work)  # there is none
