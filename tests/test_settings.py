"""Settings come from files, the environment and the running stack; no mistake shows a secret."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from streamer.operate.local import remove_discovery, write_discovery
from streamer.operate.local.processes import free_port
from streamer.settings import (
    BadConfigurationFile,
    Settings,
    discovery_path,
    mismatch,
    read_discovery,
    what_is_wrong,
)
from streamer.storage.kafka import KAFKA_HELLO
from streamer.storage.redis import REDIS_HELLO
from streamer.web import AddressInUse, listening
from tests.support.certificates import Certificates
from tests.support.cli import streamer
from tests.support.servers import RedisServer
from tests.support.tls_front import TlsFront

SECRET = "s3cr/et?#@:%41"
SASL = {"security_protocol": "SASL_SSL", "sasl_username": "u"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


def test_passwords_come_from_files_and_no_text_of_the_settings_holds_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_SASL_PASSWORD_FILE", str(file))
    monkeypatch.setenv("STREAMER_REDIS_PASSWORD_FILE", str(file))
    settings = Settings(**SASL)
    assert settings.kafka_options()["sasl_plain_password"] == SECRET
    assert settings.redis_options()["password"] == SECRET
    assert SECRET not in f"{settings!r} {settings} {settings.model_dump()}"
    assert SECRET not in repr(Settings(redis=f"redis://u:{SECRET}@h/0"))


def test_a_changed_file_counts_for_the_next_client(file: Path) -> None:
    settings = Settings(redis_password_file=file)
    file.write_text("new")
    assert settings.redis_options()["password"] == "new"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_secret_is_wrong_use(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "absent"
    if content is not None:
        path.write_bytes(content)
    done = streamer("query", "runs", environment={"STREAMER_REDIS_PASSWORD_FILE": str(path)})
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert str(path).encode() in done.stderr


ABSENT = "there is no file absent. It comes from STREAMER_{} or the configuration file"
NO_SASL = "SASL needs sasl_username"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(({name: "absent"}, ABSENT.format(name.upper())) for name in ("ssl_cafile", "redis_cafile")),
        *(({name: "absent"}, ABSENT.format(name.upper())) for name in ("ssl_certfile", "ssl_keyfile")),
        (SASL | {"sasl_password": SECRET, "sasl_password_file": __file__}, "set only one"),
        ({"security_protocol": "SASL_PLAINTEXT"}, NO_SASL),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_username": "u"}, NO_SASL),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_password": SECRET}, NO_SASL),
        *(
            ({"trusted_proxies": proxies}, "STREAMER_TRUSTED_PROXIES")
            for proxies in ("boards.example", "10.0.0.1/8", "10.0.0.1, *")
        ),
        ({"partitions": "x", "sasl_password": SECRET, "redis": f"redis://u:{SECRET}@h/0"}, "partitions"),
        ({"namespace": "a b"}, "It comes from --namespace, STREAMER_NAMESPACE or the"),
        (
            {"namspace": "a"},
            "the configuration file sets 'namspace', which is not a setting. Did you mean name",
        ),
        ({"xyzzy": "a"}, "the configuration file sets 'xyzzy', which is not a setting. docs/operator.md"),
        *(
            ({"session_timeout_seconds": wrong}, "setting session_timeout_seconds")
            for wrong in ("inf", 0, 1e5)
        ),
        ({"data_dir": "~no-such-user/own"}, "there is no home directory for ~no-such-user/own"),
    ],
)
def test_what_cannot_be_used_is_named_without_any_secret_beside_it(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**given)
    assert said in what_is_wrong(caught.value)
    assert "Value error" not in what_is_wrong(caught.value)
    assert SECRET not in str(caught.value)


def test_trusted_proxies_are_addresses_and_networks() -> None:
    assert Settings(trusted_proxies="10.0.0.1, ::1,10.1.0.0/16").trusted_proxies


@pytest.mark.parametrize(
    ("content", "said"), [(None, "no such file"), (b"\xff\xfe", "is not TOML"), (b"a = [", "is not TOML")]
)
def test_a_named_configuration_file_that_cannot_be_used_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, said: str
) -> None:
    file = tmp_path / "named.toml"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("STREAMER_CONFIG", str(file))
    with pytest.raises(BadConfigurationFile, match=said) as caught:
        Settings()
    assert str(file) in str(caught.value)
    done = streamer("query", "runs", environment={"STREAMER_CONFIG": str(file)})
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert said.encode() in done.stderr


def test_an_empty_name_means_no_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "streamer.toml").write_text("partitions = 3\n")
    monkeypatch.chdir(tmp_path)
    assert Settings(bootstrap="a:1").partitions == 3
    monkeypatch.setenv("STREAMER_CONFIG", "")
    assert Settings(bootstrap="a:1").partitions == 8


def test_a_misspelt_variable_is_named_with_a_suggestion_and_others_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("BOOTSTRP", "TEAM", "CONFIG", "DISCOVERY", "DEBUG", "HARBOR", "INSPECT"):
        monkeypatch.setenv(f"STREAMER_{name}", "")
    for _ in range(2):
        Settings(redis="redis://a:1")
    [said] = caplog.messages
    assert said == ("STREAMER_BOOTSTRP is not a setting and has no effect. Did you mean STREAMER_BOOTSTRAP?")


def test_data_lie_in_the_users_directory_unless_the_settings_name_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.settings.user_data_dir", lambda: tmp_path / "user")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings().data_root == tmp_path / "user"
    for named in (tmp_path / "own", "~/own"):
        assert Settings(data_dir=named).data_root == tmp_path / "own"


HOSTILE = """
bootstrap = "evil.example:9092"
security_protocol = "SASL_PLAINTEXT"
sasl_username = "u"
redis = "redis://evil.example:6379/0"
"""


def found_file(directory: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> Path:
    file = directory / "streamer.toml"
    file.write_text(content)
    monkeypatch.chdir(directory)
    return file


@pytest.mark.parametrize(
    ("content", "name", "decides"),
    [
        (HOSTILE, "sasl_password", "bootstrap, security_protocol"),
        (HOSTILE, "sasl_password_file", "bootstrap, security_protocol"),
        ('bootstrap = "e:1"\nsecurity_protocol = "SSL"', "ssl_keyfile", "bootstrap, security_protocol"),
        ('redis = "redis://e:1/0"', "redis_password", "redis"),
        ('redis = "redis://e:1/0"', "redis_password_file", "redis"),
    ],
)
def test_a_found_file_that_says_where_to_connect_gets_no_credential_of_the_environment(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, content: str, name: str, decides: str
) -> None:
    result = found_file(tmp_path, monkeypatch, content)
    monkeypatch.setenv(f"STREAMER_{name.upper()}", str(file) if name.endswith("file") else SECRET)
    with pytest.raises(BadConfigurationFile) as caught:
        Settings()
    said = str(caught.value)
    assert f"{result} was found in the working directory" in said
    assert f"({decides})" in said
    assert f"STREAMER_{name.upper()}" in said
    assert "STREAMER_CONFIG=streamer.toml" in said
    assert SECRET not in said
    monkeypatch.setenv("STREAMER_CONFIG", "streamer.toml")
    assert getattr(Settings(), name) is not None


@pytest.mark.parametrize(
    ("content", "environment"),
    [
        ('security_protocol = "SASL_PLAINTEXT"\nsasl_username = "u"', {"STREAMER_SASL_PASSWORD": SECRET}),
        (
            'sasl_mechanism = "PLAIN"\nsasl_username = "u"',
            {
                "STREAMER_BOOTSTRAP": "mine:1",
                "STREAMER_SECURITY_PROTOCOL": "SASL_SSL",
                "STREAMER_SASL_PASSWORD": SECRET,
            },
        ),
        ('redis_cafile = "streamer.toml"', {"STREAMER_REDIS": f"rediss://u:{SECRET}@mine/0"}),
    ],
)
def test_a_found_file_that_says_how_to_connect_gets_no_credential_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, environment: dict[str, str]
) -> None:
    found_file(tmp_path, monkeypatch, content)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadConfigurationFile, match="not use a password or key from elsewhere") as caught:
        Settings()
    assert SECRET not in str(caught.value)


def test_a_found_file_names_no_password_file_outside_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, project = tmp_path / "id_rsa", tmp_path / "project"
    private.write_text(SECRET)
    project.mkdir()
    (project / "link").symlink_to(private)
    (project / "own").write_text(SECRET)
    for named in (private, "../id_rsa", "link"):
        found_file(project, monkeypatch, f'{HOSTILE}sasl_password_file = "{named}"')
        with pytest.raises(BadConfigurationFile, match="outside of its directory"):
            Settings()
    found_file(project, monkeypatch, f'{HOSTILE}sasl_password_file = "own"')
    assert Settings().kafka_options()["sasl_plain_password"] == SECRET


def test_address_and_password_of_one_source_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found_file(tmp_path, monkeypatch, f'{HOSTILE}sasl_password = "own"\nredis_password = "own"')
    assert Settings().redis_options()["password"] == "own"
    with pytest.raises(BadConfigurationFile, match="the argument sasl_password"):
        Settings(sasl_password=SECRET)
    monkeypatch.setenv("STREAMER_REDIS_PASSWORD", SECRET)
    with monkeypatch.context() as named:
        named.setenv("STREAMER_REDIS", "redis://mine:1/0")
        assert Settings().redis_options()["password"] == SECRET
    found_file(tmp_path, monkeypatch, "partitions = 3\n")
    settings = Settings()
    assert settings.redis_options()["password"] == SECRET
    assert settings.implicit_file_that_decides() is None


def test_commands_send_no_password_of_the_environment_where_a_found_file_says(tmp_path: Path) -> None:
    """The host of the hostile file never sees a connection; without the password it does."""
    with socket.create_server(("127.0.0.1", 0)) as hostile:
        hostile.settimeout(0.2)
        (tmp_path / "streamer.toml").write_text(f'redis = "redis://127.0.0.1:{hostile.getsockname()[1]}/0"')
        done = streamer("query", "runs", cwd=tmp_path, environment={"STREAMER_REDIS_PASSWORD": SECRET})
        [line] = done.stderr.decode().splitlines()
        assert done.returncode == 2
        assert "STREAMER_REDIS_PASSWORD. If the file is yours, name it" in line
        with pytest.raises(TimeoutError):
            hostile.accept()


def test_commands_that_connect_name_the_found_file_once(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "streamer.toml").write_text(f'redis = "redis://127.0.0.1:{port}/0"')
    done = streamer("query", "runs", cwd=tmp_path)
    named, away = done.stderr.decode().splitlines()
    assert named == f"streamer: {tmp_path}/streamer.toml says where to connect: it sets redis"
    assert str(port) in away
    done = streamer("query", "runs", cwd=tmp_path, environment={"STREAMER_CONFIG": "streamer.toml"})
    assert len(done.stderr.splitlines()) == 1
    assert streamer("prices", "--json", cwd=tmp_path).stderr == b""


@pytest.fixture(autouse=True)
def nothing_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A discovery file of this test alone, and no other source of settings."""
    for name in [name for name in os.environ if name.startswith("STREAMER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STREAMER_DISCOVERY", str(tmp_path / "folder" / "running.json"))
    monkeypatch.chdir(tmp_path)


def a_stack(**changes: Any) -> dict[str, Any]:
    return {
        "bootstrap": "127.0.0.1:1111",
        "redis": "redis://127.0.0.1:2222/0",
        "namespace": "",
        "partitions": 3,
        "pid": os.getpid(),
        "data_dir": None,
        "started_at": time.time(),
    } | changes


def test_settings_come_from_the_running_stack_where_nothing_else_names_them() -> None:
    write_discovery(a_stack())
    settings = Settings()
    assert (settings.bootstrap, settings.redis) == ("127.0.0.1:1111", "redis://127.0.0.1:2222/0")
    assert (settings.embedded, settings.partitions) == (True, 3)
    assert Settings(namespace="mine").bootstrap == "127.0.0.1:1111"


@pytest.mark.parametrize("named", [{"bootstrap": "kafka:9092"}, {"redis": "redis://elsewhere/0"}])
def test_a_named_server_leaves_nothing_of_the_running_stack(named: dict[str, Any]) -> None:
    write_discovery(a_stack())
    settings = Settings(**named)
    assert not settings.embedded
    assert "127.0.0.1:1111" not in settings.bootstrap
    assert "2222" not in settings.redis


def test_the_environment_and_the_file_stand_above_the_running_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    write_discovery(a_stack())
    Path("streamer.toml").write_text('bootstrap = "from-file:1"\n')
    assert Settings().bootstrap == "from-file:1"
    monkeypatch.setenv("STREAMER_BOOTSTRAP", "from-environment:1")
    assert Settings().bootstrap == "from-environment:1"


def test_a_stack_whose_process_is_gone_is_not_found() -> None:
    missing = subprocess.Popen([sys.executable, "-c", ""])
    missing.wait()
    write_discovery(a_stack(pid=missing.pid))
    assert read_discovery() is None
    assert not Settings().embedded


@pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED LOUDLY: only Linux says when it was started")
def test_a_process_that_got_the_number_after_a_reboot_is_not_the_stack() -> None:
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    write_discovery(a_stack(started_at=booted - 3600))
    assert read_discovery() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"pid": "x", "started_at": 1})])
def test_a_file_that_is_no_discovery_counts_as_none(text: str) -> None:
    write_discovery(a_stack())
    discovery_path().write_text(text)
    assert read_discovery() is None


def test_a_process_removes_its_own_file_only_and_the_stack_before_is_found_again() -> None:
    before = os.getppid()
    write_discovery(a_stack(pid=before))
    remove_discovery()
    assert discovery_path().exists()
    write_discovery(a_stack())
    remove_discovery()
    found = read_discovery()
    assert found is not None
    assert found["pid"] == before
    discovery_path().unlink()
    write_discovery(a_stack())
    remove_discovery()
    assert not discovery_path().exists()


MOST_SECONDS = 20.0
"""Seconds that a command may take here, its start on a busy machine included."""


OF_KAFKA = (
    *("status", "verify --all", "query trials r", "publish events.ndjson", "subscribe run", "events r"),
    *("rejections list", "runs set r --name x", "tail run-directory", "worker"),
)
OF_REDIS = (
    *("status", "query runs", "query leaderboard", "report r", "serve --port 18721"),
    *("notify --all --notify json://127.0.0.1:1/", "worker"),
)
CANNOT_VERIFY = 3


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextmanager
def speaking(server: str, certificates: Certificates, *, tls: bool) -> Iterator[str]:
    """The address of the server, or of TLS in front of it."""
    if not tls:
        yield server
        return
    with TlsFront(certificates, int(server.rpartition(":")[2])) as front:
        yield f"127.0.0.1:{front.port}"


@pytest.fixture
def servers(embedded_broker: str, redis_server: RedisServer) -> dict[str, str]:
    return {"Kafka": embedded_broker, "Redis": f"127.0.0.1:{redis_server.port}"}


ONE_SPEAKS_TLS = pytest.mark.parametrize("tls", [True, False], ids=["of the server", "of the command"])
"""Below the commands, which so alternate: one turn has half of them, both ways."""


@pytest.mark.slow
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("command", OF_KAFKA)
@ONE_SPEAKS_TLS
def test_a_kafka_and_a_command_of_which_one_speaks_tls_name_it_in_one_line(
    command: str, tls: bool, tmp_path: Path, certificates: Certificates, servers: dict[str, str]
) -> None:
    of_tls = {"STREAMER_SECURITY_PROTOCOL": "SSL", "STREAMER_SSL_CAFILE": str(certificates.ca)}
    with speaking(servers["Kafka"], certificates, tls=tls) as kafka:
        found = {"STREAMER_BOOTSTRAP": kafka, "STREAMER_REDIS": f"redis://{servers['Redis']}/0"}
        line = told(command, tmp_path, found if tls else found | of_tls)
    assert f"Kafka at {kafka} {'speaks' if tls else 'does not speak'} TLS at this port" in line
    advice = "STREAMER_SECURITY_PROTOCOL is PLAINTEXT. Set it to SSL" if tls else "Set it to PLAINTEXT"
    assert advice in line


@pytest.mark.slow
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("command", OF_REDIS)
@ONE_SPEAKS_TLS
def test_a_redis_and_a_command_of_which_one_speaks_tls_name_it_in_one_line(
    command: str, tls: bool, tmp_path: Path, certificates: Certificates, servers: dict[str, str]
) -> None:
    with speaking(servers["Redis"], certificates, tls=tls) as redis:
        url = f"redis://user:secret@{redis}/0" if tls else f"rediss://{redis}/0"
        line = told(command, tmp_path, {"STREAMER_BOOTSTRAP": servers["Kafka"], "STREAMER_REDIS": url})
    assert f"Redis at {redis} {'speaks' if tls else 'does not speak'} TLS at this port" in line
    assert ("Write rediss://" if tls else "Write redis://") in line
    assert "secret" not in line


def told(command: str, here: Path, environment: Mapping[str, str]) -> str:
    """The one line about TLS that a command ends with, in time."""
    (here / "events.ndjson").write_text('{"type":"run_finished","run_id":"r"}\n')
    (here / "run-directory").mkdir()
    start = time.monotonic()
    done = streamer(*command.split(), cwd=here, environment=environment)
    assert time.monotonic() - start < MOST_SECONDS
    assert done.returncode in (1, 2, CANNOT_VERIFY)
    [line] = [line for line in done.stderr.decode().splitlines() if "speak" in line]
    assert "Traceback" not in done.stderr.decode()
    return line


def test_servers_that_agree_or_are_away_are_no_mismatch(
    certificates: Certificates, redis_server: RedisServer, embedded_broker: str
) -> None:
    assert mismatch("127.0.0.1", redis_server.port, REDIS_HELLO, tls=False) is None
    assert mismatch("127.0.0.1", int(embedded_broker.rpartition(":")[2]), KAFKA_HELLO, tls=False) is None
    with TlsFront(certificates, redis_server.port) as front:
        assert mismatch("127.0.0.1", front.port, REDIS_HELLO, tls=True) is None
    away = free_port()
    for tls in (True, False):
        assert mismatch("127.0.0.1", away, KAFKA_HELLO, tls=tls) is None


@pytest.mark.kafka
def test_apache_kafka_is_known_by_its_answer(kafka_bootstrap: str) -> None:
    host, _, port = kafka_bootstrap.rpartition(":")
    assert mismatch(host, int(port), KAFKA_HELLO, tls=False) is None
    assert mismatch(host, int(port), KAFKA_HELLO, tls=True) == "does not speak TLS at this port"


def test_a_taken_port_of_serve_is_one_line(redis_server: RedisServer) -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        done = streamer("serve", "--port", port, "--redis", redis_server.url)
    [line] = done.stderr.decode().splitlines()
    assert f"Cannot listen on 127.0.0.1 port {port}" in line
    assert "--port" in line
    assert done.returncode == 1


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-name.invalid"])
def test_an_address_that_is_not_ours_asks_for_another_host(host: str) -> None:
    with pytest.raises(AddressInUse, match=r"Name another with --host$"):
        listening(host, 8720)


def test_the_value_that_keeps_idle_runs_in_memory_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    said = str(Settings.model_fields["run_idle_seconds"].description)
    monkeypatch.setenv("STREAMER_RUN_IDLE_SECONDS", said.removesuffix(": never.").split()[-1])
    assert Settings().run_idle_seconds == float("inf")
