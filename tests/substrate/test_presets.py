"""Every preset from the network into an empty cache, and offline from then on.

Only where ``LARC_NETWORK=1`` says so, as every night: hundreds of megabytes come each time. The
largest is left out unless ``LARC_NETWORK=all``: it takes 1.1 GB and 9 GB of memory.
"""

import os
import subprocess
import sys

import pytest

import larc
from larc.substrate.presets import FETCHED

ASKED = os.environ.get("LARC_NETWORK", "")
SCRIPT = "import sys; from larc.cli import main; sys.exit(main(sys.argv[1:]))"
# SHA-256 of the float32 values that the official files hold, as transformers reads them.
WEIGHTS = {
    "smollm2-135m": "1e899d0df6b19b309b8410eec8fabd8b44754128831e41791d658be3127bb3af",
    "stories15m": "a261dd01965909df6f392fd8b90fe95b193ccedfb9caff2a3cdbc25fd3d7f8f1",
    "qwen2.5-coder-0.5b": "5362ca452a9ac2acae39be9e138bc8a3296c20d3ebffdbc3a545288ff2679584",
    "qwen2.5-coder-1.5b": "9cd3e92d2bf30de94a1e1d0b4a9c3b0dca3b2351946e3a39f09e01c6d1c7584b",
}
CONTINUED = {
    "smollm2-135m": ("The capital of France is", " Paris"),
    "stories15m": ("Once upon a time", ", there was a little girl named Lily."),
    "qwen2.5-coder-0.5b": ("The capital of France is", " Paris."),
    "qwen2.5-coder-1.5b": ("The capital of France is", " Paris."),
}

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(not ASKED, reason="brings models from the network; set LARC_NETWORK=1"),
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", WEIGHTS)
def test_a_preset_is_brought_into_an_empty_cache_and_works_offline(name, tmp_path, monkeypatch):
    if name == "qwen2.5-coder-1.5b" and ASKED != "all":
        pytest.skip("needs LARC_NETWORK=all")
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    command = [sys.executable, "-c", SCRIPT, "fetch", name]
    brought = subprocess.run(command, capture_output=True, text=True, check=False)
    assert brought.returncode == 0, brought.stderr
    assert f"{name} is ready" in brought.stdout
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [name]
    directory = tmp_path / "cache" / name
    assert (directory / "LICENSE").read_text()
    assert (directory / "ATTRIBUTION.md").read_text() == FETCHED[name].attribution

    # No network any more: neither a registry nor the Hub has an address.
    for variable in ("PIP_INDEX_URL", "npm_config_registry", "HF_ENDPOINT", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "is here already" in again.stdout
    substrate = larc.load_substrate(name)
    assert substrate.identity.weights == WEIGHTS[name]
    prompt, expected = CONTINUED[name]
    tokenizer = substrate.tokenizer
    ids = tokenizer(prompt, return_tensors="pt")
    written = substrate.model.generate(**ids, max_new_tokens=12, do_sample=False)
    new = tokenizer.decode(written[0], skip_special_tokens=True).removeprefix(prompt)
    assert new.startswith(expected)
