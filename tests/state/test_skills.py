"""Skills as files: lenient reading, strict writing, and shelves that nothing on them slows down."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.knowledge.skill import MOST_CATALOGUE, SkillTrust, catalogue, digest_of, find_skills
from hermes.state.skills.manifest import check_strict, read_manifest, write_manifest
from hermes.state.skills.places import BUNDLED, OPTIONAL
from hermes.state.skills.shelf import MOST_FOLDERS, SkillShelf, list_files, read_text


def put(folder: Path, text: str = "", name: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = text or f"---\nname: {name or folder.name}\ndescription: does {folder.name}\n---\nBody.\n"
    (folder / "SKILL.md").write_text(text)
    return folder


def shelf(folder: Path) -> SkillShelf:
    made = SkillShelf(folder, SkillTrust.LOCAL)
    made.scan()
    return made


def test_the_published_vector_of_the_discovery_standard() -> None:
    """github.com/cloudflare/agent-skills-discovery-rfc, v0.2.0, worked example."""
    files = {"scripts/run.sh": b"#!/bin/sh\n", "SKILL.md": b"# Hello\n"}
    expected = "34f7a8c484e9991f3e71a309f31332d6335efc01f544105c4185a7c4ab12eb1e"
    assert digest_of(files) == f"sha256:{expected}"


@pytest.mark.parametrize(
    ("head", "name", "description"),
    [
        ("name: plan\ndescription: Plans things.", "plan", "Plans things."),
        ("name: plan\ndescription: Use when: it is late", "plan", "Use when: it is late"),
        ("name: plan\ndescription: 'It''s quoted'", "plan", "It's quoted"),
        ("name: my_skill.v2\ndescription: d", "my-skill-v2", "d"),
        ("name: plan\ndescription: >\n  two\n  lines", "plan", "two lines"),
        ("description: no name", "folder", "no name"),
        ("name: plan\ndescription: d\nversion: 1.0.0\nplatforms: [linux]", "plan", "d"),
        ("name: plan\ndescription: d\nmetadata:\n  hermes:\n    tags: [a]\n    category: dev", "plan", "d"),
    ],
)
def test_other_dialects_are_read(head: str, name: str, description: str) -> None:
    manifest = read_manifest(f"---\n{head}\n---\nDo it.\n", "folder")
    assert (manifest.name, manifest.description, manifest.body) == (name, description, "Do it.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no head", "does not begin with a head"),
        ("---\nname: a\n---\n", "no description"),
        ("---\nname: [a\n---\n", "not YAML"),
        ("---\n- a\n---\n", "not a list"),
        ("---\na: &x [1]\ndescription: *x\n---\n", "anchors"),
        ("---\na: " + "[" * 10_000 + "\n---\n", "deeply nested"),
        ("---\na:" + " " * 200_000 + "\n---\n", "does not begin with a head"),
        ("---\na: !!python/object/apply:os.system [id]\ndescription: d\n---\n", "anchors or tags"),
        ("---\nname: a\nx: [1]\ndescription: !!bool maybe\n---\n", "anchors or tags"),
        ("---\nname: a\ndescription: !!timestamp soon\n---\n", "anchors or tags"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        read_manifest(text, "folder")


@pytest.mark.parametrize("value", ["0x" + "f" * 5000, "1" + ":1" * 250 + ".5", "2026-02-30", "12_"])
def test_no_number_and_no_date_breaks_a_shelf(tmp_path: Path, value: str) -> None:
    """YAML makes numbers of them that nothing can print, and one such skill must not cost all others."""
    put(tmp_path / "odd", f"---\nname: odd\nversion: {value}\nx: [1]\ndescription: {value}\n---\nBody.")
    put(tmp_path / "plain")
    assert [(skill.name, skill.description[:9]) for skill in shelf(tmp_path).skills] == [
        ("odd", value[:9]),
        ("plain", "does plai"),
    ]


def test_wrong_names_are_warned_of_and_loaded(tmp_path: Path) -> None:
    put(tmp_path / "dev" / "one", name="other")
    put(tmp_path / "two", "---\nname: two\n---\nno description")
    read = shelf(tmp_path)
    assert [(skill.name, skill.category, bool(skill.warnings)) for skill in read.skills] == [
        ("other", "dev", True)
    ]
    assert [fault.why for fault in read.faults] == ["SKILL.md has no description."]


def test_what_is_written_is_strict() -> None:
    text = write_manifest("my-skill", 'Says "hi": always', "Body")
    assert check_strict(text, "my-skill").description == 'Says "hi": always'
    for wrong, why in (
        (text.replace("name: my-skill", "name: my_skill"), "cannot be called"),
        (text.replace("name: my-skill", "name: another"), "its folder"),
        (text.replace("---\n\n", "version: 1\n---\n\n"), "no standard knows: version"),
    ):
        with pytest.raises(UserError, match=why):
            check_strict(wrong, "my-skill")


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    place = put(tmp_path / "one")
    read = shelf(tmp_path)
    first = read.skills[0]
    read.scan()
    assert read.skills[0] is first
    put(place, "---\nname: one\ndescription: other words\n---\n")
    put(tmp_path / "two")
    read.scan()
    assert [skill.description for skill in read.skills] == ["other words", "does two"]
    place.rename(tmp_path / "renamed")
    read.scan()
    assert {Path(skill.folder).name for skill in read.skills} == {"renamed", "two"}


def test_shelves_are_bounded(tmp_path: Path) -> None:
    put(tmp_path / "a/b/c/d/e/f" / "too-deep")
    put(tmp_path / "a/b/c/d/e" / "deep-enough")
    put(tmp_path / ".hidden" / "x")
    outside = put(tmp_path.parent / "outside" / "linked")
    (tmp_path / "link").symlink_to(outside)
    assert [skill.name for skill in shelf(tmp_path).skills] == ["deep-enough"]


def test_a_shelf_is_left_when_it_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "one")
    monkeypatch.setattr("hermes.state.skills.shelf.SECONDS", -1.0)
    assert "the rest was not looked at" in shelf(tmp_path).faults[0].why


def test_two_thousand_skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.state.skills.shelf.SECONDS", 600.0)
    for number in range(MOST_FOLDERS + 50):
        put(tmp_path / f"skill-{number:04}")
    read = shelf(tmp_path)
    assert len(read.skills) == MOST_FOLDERS - 1, "the shelf itself is a folder too"
    assert "the rest was not looked at" in read.faults[0].why
    told = catalogue(read.skills)
    assert len(told.encode()) <= MOST_CATALOGUE and "skills_list" in told
    assert [skill.name for skill in find_skills("does skill-0042", read.skills, 1)] == ["skill-0042"]


def test_a_catalogue_says_less_before_it_says_nothing(tmp_path: Path) -> None:
    for number in range(60):
        put(tmp_path / f"s{number}", f"---\nname: s{number}\ndescription: {'word ' * 60}\n---\n")
        told = catalogue(shelf(tmp_path).skills)
        assert len(told.encode()) <= MOST_CATALOGUE and f"s{number}" in told
    assert catalogue(()) == ""


def test_files_are_read_at_any_depth_and_through_no_link(tmp_path: Path) -> None:
    place = put(tmp_path / "one")
    (place / "references" / "deeper").mkdir(parents=True)
    (place / "references" / "api.md").write_text("API")
    (place / "references" / "deeper" / "more.md").write_text("more")
    (place / ".git").mkdir()
    (place / ".git" / "config").write_text("no")
    (tmp_path / "secret").write_text("secret")
    (place / "link.md").symlink_to(tmp_path / "secret")
    assert list_files(place) == ["references/api.md", "references/deeper/more.md"]
    assert read_text(place, "references/api.md") == "API"
    for name in ("link.md", "../secret", "references", "missing"):
        with pytest.raises(UserError):
            read_text(place, name)


def test_what_is_shipped_is_strict_and_short() -> None:
    bundled, optional = shelf(BUNDLED), shelf(OPTIONAL)
    assert len(bundled.skills) == 12 and not bundled.faults and not optional.faults
    for skill in (*bundled.skills, *optional.skills):
        text = read_text(Path(skill.folder), "SKILL.md")
        check_strict(text, skill.name)
        assert skill.category and len(text) < 2500 and "Use it" in skill.description
