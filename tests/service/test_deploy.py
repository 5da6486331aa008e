"""The files that start the service on a cluster, each checked by what will read it."""

import os
import re
import shutil
import subprocess
import warnings

import kubernetes_validate
import pytest
import yaml

from larc.errors import LarcError
from larc.service.cluster.deploying import build, given_settings
from tests.service.conftest import ROOT

DEPLOY = ROOT / "deploy"
#: What a pod of the service is given.
GIVEN = {"LARC_DATABASE": "postgresql://db/larc", "LARC_TOKEN_FILE": "/secrets/token"}


def manifests():
    text = (DEPLOY / "rayservice.yaml").read_text(encoding="utf-8")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def pods():
    cluster = manifests()["RayService"]["spec"]["rayClusterConfig"]
    return [one["template"] for one in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_kubernetes_takes_the_manifests():
    """By its own schemas: policy and pods. The operator's kind is no part of them."""
    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(manifests()["NetworkPolicy"], version, strict=True)
    for number, template in enumerate(pods()):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, **template}
        kubernetes_validate.validate(pod, version, strict=True)
        names = {one["name"] for one in template["spec"]["volumes"]}
        for container in template["spec"]["containers"]:
            assert {one["name"] for one in container["volumeMounts"]} <= names
            assert {one["name"] for one in container["env"]} >= set(GIVEN)


def test_a_pod_that_kubernetes_refuses_is_noticed():
    (template, *_) = pods()
    template["spec"]["containers"][0]["imagePullPolice"] = "Always"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def checked_by_ray(config):
    """What Ray makes of a file of Serve's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pydantic, about Ray's own classes
        from ray.serve.schema import ServeDeploySchema

        return ServeDeploySchema.model_validate(config)


def test_ray_takes_the_services_part():
    """By Ray's own schema; and the service takes its arguments."""
    spec = manifests()["RayService"]["spec"]
    config = yaml.safe_load(spec["serveConfigV2"])
    (application,) = checked_by_ray(config).applications
    module, name = application.import_path.split(":")
    assert (module, name) == (build.__module__, build.__name__)
    settings = given_settings(application.args, GIVEN)
    assert settings.database == GIVEN["LARC_DATABASE"]
    constraints = (ROOT / "constraints.txt").read_text()
    assert f"\nray=={spec['rayClusterConfig']['rayVersion']}\n" in constraints
    # A machine has room for a worker and an ingress.
    for group in spec["rayClusterConfig"]["workerGroupSpecs"]:
        (container,) = group["template"]["spec"]["containers"]
        cpus = float(container["resources"]["requests"]["cpu"])
        assert cpus >= 1.25 * settings.cpus
        assert {"containerPort": config["http_options"]["port"], "name": "serve"} in container[
            "ports"
        ]


def test_nothing_is_built_without_a_database_or_a_token(monkeypatch, tmp_path):
    for name in GIVEN:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LarcError, match="PostgreSQL"):
        build({})
    monkeypatch.setenv("LARC_DATABASE", "postgresql://127.0.0.1:1/larc")
    with pytest.raises(LarcError, match="LARC_TOKEN_FILE"):
        build({})


def compose():
    """The command of docker compose that is installed, if one is; it needs no daemon here."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            version = subprocess.run([*command, "version"], capture_output=True)
            if version.returncode == 0:
                return command
    return None


@pytest.mark.skipif(compose() is None, reason="docker compose is not installed")
def test_compose_takes_its_file():
    command = [*compose(), "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    without = {name: value for name, value in os.environ.items() if not name.startswith("LARC")}
    refused = subprocess.run(command, env=without, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "give the database a password" in refused.stderr
    given = {**without, "LARC_DATABASE_PASSWORD": "secret"}
    assert subprocess.run(command, env=given).returncode == 0


def test_the_image_for_kuberay_has_what_its_probes_run():
    """An image without wget never becomes ready there."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    (step,) = [line for line in lines if line.startswith("RUN") and "apt-get install" in line]
    assert re.search(r'"\$EXTRA" = ray .*apt-get install .* wget ', step)


def test_what_compose_starts_serves(processes, postgres):
    """Its command, with the test's database in the place of its own; both processes have one."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    first, second, user = (services[name] for name in ("first", "second", "database"))
    assert (DEPLOY / first["build"] / "Dockerfile").is_file()
    assert set(first["depends_on"]) == {"database"}
    assert (second["command"], second["build"]) == (first["command"], first["build"])
    ports = [one["ports"][0].split(":") for one in (first, second)]
    assert [port[-1] for port in ports] == ["8722"] * 2  # as the command listens
    assert ports[0][1] != ports[1][1]
    command = first["command"]
    assert command[:2] == ["larc", "serve"]
    options = dict(zip(command[2::2], command[3::2], strict=True))
    assert set(options) == {"--database", "--host", "--data", "--token-file"}
    url = re.sub(r"\$\{LARC_DATABASE_PASSWORD:[^}]*\}", "secret", options["--database"])
    about = user["environment"]
    assert url == f"postgresql://{about['POSTGRES_USER']}:secret@database/{about['POSTGRES_DB']}"
    process = processes("data", "--database", postgres.new(), "--host", options["--host"])
    server = process.start()
    server.make("s")
    assert server.ask("s", "a").status_code == 201
