"""The files of a deployment are valid by the rules of those who read them, and name nothing that is not there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from engine.settings import Settings
from tests.helpers import lock, space_lock
from tests.helpers.haproxy import haproxy

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = [DEPLOY / "Dockerfile", DEPLOY / "Dockerfile.replica"]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
RAY = yaml.safe_load((DEPLOY / "rayservice.yaml").read_text())
CLUSTER = RAY["spec"]["rayClusterConfig"]
OWN_SERVICES = {"web-1", "web-2", "replicas"}
PROXY_SERVICES = {"proxy"}
SECRET = re.compile("PASSWORD|TOKEN|SECRET|KEY")
# What KubeRay's operator reads of a RayService and its groups, of what stands in ours.
SPEC = {"serveConfigV2": str, "rayClusterConfig": dict}
CONFIG = {"rayVersion": str, "headGroupSpec": dict, "workerGroupSpecs": list}
HEAD = {"rayStartParams": dict, "template": dict}
GROUP = {**HEAD, "groupName": str, "replicas": int, "minReplicas": int, "maxReplicas": int}


def ran(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tool(name):
    """Return the path of a validator that stands beside this Python."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"{name} is one of the tools of requirements-dev.txt"
    return found


def variables(text):
    return set(re.findall(r"\bPLAYGROUND_([A-Z_]+)", text))


# Without a shell in between, SIGTERM reaches the program.
LINES_OF_A_DOCKERFILE = (
    r"^FROM python:3\.12-slim$",
    r"^USER 10001:10001$",
    r'^CMD \["python", ',
    r'^HEALTHCHECK .*\\\n +CMD \["',
    r"--require-hashes -r requirements\.lock",
)


def test_a_dockerfile_is_linted_and_ends_when_it_is_asked_to():
    ran(tool("hadolint"), *map(str, DOCKERFILES))
    missing = [
        f"{path.name}: {line}"
        for path in DOCKERFILES
        for line in LINES_OF_A_DOCKERFILE
        if not re.search(line, path.read_text(), re.MULTILINE)
    ]
    assert not missing, "\n".join(missing)


def test_what_is_copied_is_there_and_reaches_the_build():
    let_in = (ROOT / ".dockerignore").read_text().split("\n")
    copied = [
        (path.name, source)
        for path in DOCKERFILES
        for line in re.findall(r"^COPY (.+)$", path.read_text(), re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert {name for name, _ in copied} == {path.name for path in DOCKERFILES}
    wrong = [
        f"{name}: {source}"
        for name, source in copied
        if not (ROOT / source).exists() or f"!{source.rstrip('/')}" not in let_in
    ]
    assert not wrong, "\n".join(wrong)


def test_every_variable_of_these_files_is_one_of_the_settings():
    known = {field.upper() for field in Settings.__dataclass_fields__} | {"HOST", "PORT"}
    paths = [*DOCKERFILES, DEPLOY / "compose.yaml", DEPLOY / "rayservice.yaml"]
    for path in paths:
        assert variables(path.read_text()) <= known, path.name


def test_what_images_install_is_locked_with_hashes():
    text = (DEPLOY / "requirements.lock").read_text()
    entries = space_lock.entries(text)
    assert all(hashes for _, hashes in entries.values())
    asked = [*lock.requirements(ROOT / "requirements.txt")]
    for wanted in asked:
        version, _ = entries[wanted.name.lower()]
        assert wanted.specifier.contains(version), wanted
    assert entries["ray"][0] == CLUSTER["rayVersion"]


def test_compose_is_valid_and_names_what_is_there():
    path = DEPLOY / "compose.yaml"
    ran(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(path))
    for service in COMPOSE["services"].values():
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).is_file(), source


def test_compose_opens_one_port_and_bounds_everything():
    services = COMPOSE["services"]
    assert {name for name, s in services.items() if "ports" in s} == PROXY_SERVICES
    assert {name for name, s in services.items() if "outside" in s["networks"]} == PROXY_SERVICES
    assert COMPOSE["networks"]["inside"]["internal"]
    assert set(services) >= OWN_SERVICES
    for name, service in services.items():
        assert service["read_only"], name
        assert service["mem_limit"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not re.search(":latest$", service["image"]), name
    for name in OWN_SERVICES:
        assert services[name]["cap_drop"] == ["ALL"]


def test_no_secret_is_in_a_file():
    for name, service in COMPOSE["services"].items():
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable) or "://" in str(value):
                plain = re.sub(r"\$\{\w+:\?\}", "", str(value))
                assert not SECRET.search(variable) or plain == "", (name, variable)
                assert not re.search(r"://[^@/]*:[^@/]+@", plain), (name, variable)


def test_the_proxy_understands_its_configuration():
    """With the binary that comes with Ray Serve, or the system's."""
    path = haproxy()
    if path is None:
        pytest.skip("there is no haproxy here")
    ran(path, "-c", "-f", str(DEPLOY / "haproxy.cfg"))


def test_the_proxy_keeps_a_page_where_it_began_and_believes_no_visitor():
    text = (DEPLOY / "haproxy.cfg").read_text()
    assert "cookie playground_at insert indirect nocache httponly" in text
    assert text.index("del-header X-Forwarded-For") < text.index("default_backend")
    assert "deny deny_status 404 if { path_beg /metrics }" in text
    servers = re.findall(r"^ +server (\S+) (\S+):7860 cookie", text, re.MULTILINE)
    assert [name for name, host in servers if name == host] == ["web-1", "web-2"]


def test_prometheus_asks_every_web_process_with_the_token():
    [job] = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["static_configs"] == [{"targets": ["web-1:7860", "web-2:7860"]}]
    assert job["authorization"]["credentials_file"] == "/run/secrets/metrics_token"
    assert COMPOSE["services"]["prometheus"]["secrets"][0]["source"] in COMPOSE["secrets"]


def has(values, kinds):
    assert set(values) == set(kinds)
    for name, kind in kinds.items():
        assert type(values[name]) is kind, name


def test_the_manifest_has_what_the_operator_reads():
    assert (RAY["apiVersion"], RAY["kind"]) == ("ray.io/v1", "RayService")
    has(RAY["spec"], SPEC)
    has(CLUSTER, CONFIG)
    has(CLUSTER["headGroupSpec"], HEAD)
    for group in CLUSTER["workerGroupSpecs"]:
        has(group, GROUP)
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for group in (CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


@pytest.mark.parametrize("group", [CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]])
def test_its_pods_are_pods(group):
    from kubernetes_validate import validate

    about = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "of-a-group"}}
    validate({**about, "spec": group["template"]["spec"]}, "1.37.0", strict=True)
    for container in group["template"]["spec"]["containers"]:
        assert {"requests", "limits"} <= set(container["resources"])
        assert not container["securityContext"]["allowPrivilegeEscalation"]


def test_its_application_is_one_of_ours():
    config = yaml.safe_load(RAY["spec"]["serveConfigV2"])
    [application] = config["applications"]
    module, name = application["import_path"].split(":")
    source = (ROOT / (module.replace(".", "/") + ".py")).read_text()
    assert f"def {name}(args" in source
    own = (ROOT / "engine/serving/deployment.py").read_text()
    [deployment] = application["deployments"]
    assert f'APP = "{application["name"]}"' in own
    assert f'REPLICA = "{deployment["name"]}"' in own


def test_serve_takes_its_configuration():
    schema = pytest.importorskip("ray.serve.schema", reason="Ray is not installed")
    config = yaml.safe_load(RAY["spec"]["serveConfigV2"])
    schema.ServeDeploySchema.model_validate(config)
