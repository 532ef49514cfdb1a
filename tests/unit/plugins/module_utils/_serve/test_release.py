# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases on disk: staged once, never changed, found by content, linked atomically, pruned with care."""

from __future__ import annotations

import json
import os
import stat
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import render
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release, Store

SECRET = 'hf_"x" 100% $HOME \\t `y`'


def contents(**changed: str) -> dict[str, str]:
    files = {"unit.service": "[Unit]\n", "args.yaml": "model: /m\n", "secrets.env": render.env_file({"A_KEY": SECRET})}
    return {**files, **{name.replace("_", ".", 1): text for name, text in changed.items()}}


def facts(root: Path, instance: str = "main", **changed: t.Any) -> dict[str, t.Any]:
    files = [
        {"name": "unit.service", "dest": str(root / "systemd" / f"vllm-{instance}.service"), "mode": "0644"},
        {"name": "args.yaml", "dest": str(root / "etc" / f"{instance}.yaml"), "mode": "0644"},
        {"name": "secrets.env", "dest": str(root / "etc" / f"{instance}.env"), "mode": "0600"},
    ]
    base = {"instance": instance, "unit": f"vllm-{instance}.service", "files": files, "question": {"url": "u"}}
    return {**base, "commit": "c1", "devices": [], **changed}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


def stage(store: Store, root: Path, second: int = 0, **changed: t.Any) -> Release:
    text = changed.pop("args", "model: /m\n")
    release, _new = store.stage(contents(args_yaml=text), facts(root, **changed), f"2026-11-30T10:00:{second:02d}Z")
    return release


def test_the_same_content_is_the_same_release(store: Store, tmp_path: Path) -> None:
    first, new = store.stage(contents(), facts(tmp_path), "2026-11-30T10:00:00Z")
    again, again_new = store.stage(contents(), facts(tmp_path), "2026-11-30T11:00:00Z")
    assert (new, again_new) == (True, False)
    assert again == first
    assert first.id.startswith("20261130T100000Z-")
    assert [r.id for r in store.releases("main")] == [first.id]


@pytest.mark.parametrize(
    "changed", [{"commit": "c2"}, {"vllm_version": "0.33.0"}, {"devices": ["1"]}, {"args": "b: 1\n"}]
)
def test_what_is_served_makes_another_release(store: Store, tmp_path: Path, changed: dict[str, t.Any]) -> None:
    assert stage(store, tmp_path).id != stage(store, tmp_path, **changed).id


def test_the_plan_is_no_part_of_what_is_served(store: Store, tmp_path: Path) -> None:
    assert stage(store, tmp_path).id == stage(store, tmp_path, plan={"kv_tokens": 5}).id


def test_secrets_of_a_release_can_be_read_by_root_only(store: Store, tmp_path: Path) -> None:
    release = stage(store, tmp_path)
    assert stat.S_IMODE(os.stat(release.path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{release.path}/secrets.env").st_mode) == 0o600
    assert SECRET not in json.dumps(release.summary()) + json.dumps(dict(release.record))


def test_the_api_key_is_read_from_the_secrets(store: Store, tmp_path: Path) -> None:
    text = render.env_file({"VLLM_API_KEY": SECRET, "B": "b"})
    release, _new = store.stage(contents(secrets_env=text), facts(tmp_path), "2026-11-30T10:00:00Z")
    assert release.api_key() == SECRET
    assert stage(store, tmp_path).api_key() is None


def test_a_release_that_was_changed_by_hand_is_not_intact(store: Store, tmp_path: Path) -> None:
    release = stage(store, tmp_path)
    assert release.intact()
    Path(release.path, "args.yaml").write_text("model: /other\n", encoding="utf-8")
    assert not release.intact()
    # It is not what is found for this content either: a new one is staged.
    assert stage(store, tmp_path, 1).id != release.id


def test_what_is_refused_is_not_staged(store: Store, tmp_path: Path) -> None:
    def refuse(path: str) -> None:
        assert sorted(os.listdir(path)) == ["args.yaml", "release.json", "secrets.env", "unit.service"]
        raise ModelopsError("no")

    with pytest.raises(ModelopsError, match="no"):
        store.stage(contents(), facts(tmp_path), "2026-11-30T10:00:00Z", refuse)
    assert store.releases("main") == []
    assert os.listdir(tmp_path / "state/instances/main/releases") == []


def test_previous_is_the_last_good_one_while_another_is_current(store: Store, tmp_path: Path) -> None:
    good, new = stage(store, tmp_path), stage(store, tmp_path, 1, args="b: 1\n")
    store.mark_proven(good, "2026-11-30T10:00:30Z")
    store.point(new, "current")
    assert store.previous("main") == good


def test_previous_is_the_one_proven_before(store: Store, tmp_path: Path) -> None:
    one, two, three = (stage(store, tmp_path, n, args=f"n: {n}\n") for n in range(3))
    for release, when in ((two, "11"), (one, "12"), (three, "13")):
        store.mark_proven(release, when)
        store.point(release, "current")
    assert store.previous("main") == one


def test_a_release_that_never_answered_is_not_gone_back_to(store: Store, tmp_path: Path) -> None:
    stage(store, tmp_path)
    good = stage(store, tmp_path, 1, args="b: 1\n")
    store.mark_proven(good, "11")
    store.point(good, "current")
    assert store.previous("main") is None


def test_prune_keeps_the_newest_and_what_is_needed(store: Store, tmp_path: Path) -> None:
    releases = [stage(store, tmp_path, n, args=f"n: {n}\n") for n in range(6)]
    store.mark_proven(releases[0], "10")
    store.mark_proven(releases[1], "11")
    store.point(releases[1], "current")
    assert store.prune("main", 2) == [releases[2].id, releases[3].id]
    assert [r.id for r in store.releases("main")] == [releases[n].id for n in (0, 1, 4, 5)]


def test_an_unknown_release_is_an_error_that_names_those_there_are(store: Store, tmp_path: Path) -> None:
    known = stage(store, tmp_path)
    with pytest.raises(ModelopsError, match=rf"no release '\.\./x'.*{known.id}"):
        store.get("main", "../x")


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "x" * 61])
def test_a_name_that_is_no_instance_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ModelopsError, match="not the name of an instance"):
        store.linked(name, "current")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99, "instance": "main"}'])
def test_a_record_that_cannot_be_read_is_no_release(store: Store, tmp_path: Path, text: str) -> None:
    release = stage(store, tmp_path)
    Path(release.path, "release.json").write_text(text, encoding="utf-8")
    assert store.releases("main") == []
    assert store.linked("main", "current") is None


def left_by_1_0_0(tmp_path: Path) -> Path:
    old = tmp_path / "state/instances/main/last_good"
    old.mkdir(parents=True)
    unit = (
        "[Service]\nEnvironmentFile=/etc/vllm/main.env\n"
        "ExecStart=/opt/vllm/bin/vllm serve --config /etc/vllm/main.yaml\n"
    )
    (old / "unit.service").write_text(unit, encoding="utf-8")
    (old / "args.yaml").write_text("model: /m\n", encoding="utf-8")
    (old / "secrets.env").write_text(render.env_file({"VLLM_API_KEY": "key-of-old"}), encoding="utf-8")
    question = {"url": "http://127.0.0.1:8000", "model": "m", "api_key": "key-of-old", "smoke": True}
    (old / "question.json").write_text(json.dumps(question), encoding="utf-8")
    return old


def test_what_version_1_0_0_left_becomes_the_last_good_release(store: Store, tmp_path: Path) -> None:
    old = left_by_1_0_0(tmp_path)
    assert store.units() == {"vllm-main.service"}
    store.adopt_old("2026-11-30T10:00:00Z")
    assert store.units() == {"vllm-main.service"}
    good = store.linked("main", "last_good")
    assert good is not None
    assert good == store.linked("main", "current")
    assert good.api_key() == "key-of-old"
    assert good.question == {"url": "http://127.0.0.1:8000", "model": "m", "smoke": True}
    assert {f["dest"] for f in good.files} == {
        "/etc/vllm/main.yaml",
        "/etc/vllm/main.env",
        "/etc/systemd/system/vllm-main.service",
    }
    assert "key-of-old" not in Path(good.path, "release.json").read_text(encoding="utf-8")
    assert sorted(os.listdir(old.parent)) == ["current", "last_good", "releases"]


@pytest.mark.parametrize("step", ["_stage", "mark_proven", "point"])
@pytest.mark.parametrize("late", [False, True])
def test_an_adoption_that_is_cut_off_is_done_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, late: bool
) -> None:
    old = left_by_1_0_0(tmp_path)
    done = getattr(Store, step)

    def cut_off(*args: t.Any) -> t.NoReturn:
        if late:
            done(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, step, cut_off)
        with pytest.raises(KeyboardInterrupt):
            store.adopt_old("2026-11-30T10:00:00Z")
    assert store.units() == {"vllm-main.service"}
    store.adopt_old("2026-11-30T10:00:01Z")
    (adopted,) = store.releases("main")
    assert store.linked("main", "current") == store.linked("main", "last_good") == adopted
    assert adopted.intact()
    assert sorted(os.listdir(old.parent)) == ["current", "last_good", "releases"]


def test_what_was_adopted_and_could_not_be_removed_does_not_come_back(store: Store, tmp_path: Path) -> None:
    old = left_by_1_0_0(tmp_path)
    store.adopt_old("2026-11-30T10:00:00Z")
    later = stage(store, tmp_path, 1)
    store.point(later, "current")
    left_over = old.with_name("last_good.1.0.0")
    left_over.mkdir()
    store.adopt_old("2026-11-30T10:00:02Z")
    assert store.linked("main", "current") == later
    assert not left_over.exists()
