"""Settings: secrets from files, and what cannot be used is named."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from streamer.operate.local.processes import free_port
from streamer.settings import BadConfigurationFile, Settings, mismatch, what_is_wrong
from streamer.storage.kafka import KAFKA_HELLO
from streamer.storage.redis import REDIS_HELLO
from streamer.web import listening
from tests.support.certificates import Certificates
from tests.support.cli import streamer
from tests.support.servers import RedisServer
from tests.support.tls_front import TlsFront

# -----------------------------------------------------------------------------
# Settings: secrets from files, and what cannot be used is named.


SECRET = "s3cr/et?#@:%41"
SASL = {"security_protocol": "SASL_SSL", "sasl_username": "u"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


def test_passwords_come_from_files(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMER_SASL_PASSWORD_FILE", str(file))
    monkeypatch.setenv("STREAMER_REDIS_PASSWORD_FILE", str(file))
    settings = Settings(**SASL)
    assert settings.kafka_options()["sasl_plain_password"] == SECRET
    assert settings.redis_options()["password"] == SECRET
    assert SECRET not in f"{settings!r} {settings} {settings.model_dump()}"


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


@pytest.mark.parametrize("name", ["ssl_cafile", "redis_cafile", "ssl_certfile", "ssl_keyfile"])
def test_a_certificate_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValidationError, match="there is no file"):
        Settings(**{name: tmp_path / "absent"})


def test_a_password_is_given_once(file: Path) -> None:
    with pytest.raises(ValidationError, match="set only one"):
        Settings(**SASL, sasl_password=SECRET, sasl_password_file=file)


@pytest.mark.parametrize("more", [{}, {"sasl_username": "u"}, {"sasl_password": SECRET}])
def test_sasl_needs_a_name_and_a_password(more: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="SASL needs sasl_username") as caught:
        Settings(security_protocol="SASL_PLAINTEXT", **more)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("proxies", ["boards.example", "10.0.0.1/8", "10.0.0.1, *"])
def test_trusted_proxies_are_addresses_and_networks(proxies: str) -> None:
    assert Settings(trusted_proxies="10.0.0.1, ::1,10.1.0.0/16").trusted_proxies
    with pytest.raises(ValidationError) as caught:
        Settings(trusted_proxies=proxies)
    assert "STREAMER_TRUSTED_PROXIES" in what_is_wrong(caught.value)


def test_a_wrong_setting_is_named_without_any_secret_beside_it() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(partitions="x", sasl_password=SECRET, redis=f"redis://u:{SECRET}@h/0")
    assert "partitions" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_settings_print_no_url_that_may_hold_a_password() -> None:
    assert SECRET not in repr(Settings(redis=f"redis://u:{SECRET}@h/0"))


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


@pytest.mark.parametrize(("name", "hint"), [("namspace", "Did you mean namespace"), ("xyzzy", "operator.md")])
def test_a_setting_that_does_not_exist_is_called_so(name: str, hint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{name: "a"})
    said = what_is_wrong(caught.value)
    assert said.startswith(f"the configuration file sets {name!r}")
    assert hint in said
    assert f"--{name}" not in said


@pytest.mark.parametrize(
    ("name", "value", "places"),
    [
        ("namespace", "a b", "It comes from --namespace, STREAMER_NAMESPACE or the"),
        ("ssl_cafile", "absent", "there is no file absent. It comes from STREAMER_SSL_CAFILE or the"),
    ],
)
def test_a_wrong_setting_is_said_to_come_from_places_that_exist(name: str, value: str, places: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{name: value})
    said = what_is_wrong(caught.value)
    assert places in said
    assert "Value error" not in said


def test_data_lie_in_the_users_directory_unless_the_settings_name_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.settings.user_data_dir", lambda: tmp_path / "user")
    assert Settings().data_root == tmp_path / "user"
    assert Settings(data_dir=tmp_path / "own").data_root == tmp_path / "own"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings(data_dir="~/own").data_root == tmp_path / "own"
    with pytest.raises(ValidationError, match="there is no home directory for ~no-such-user/own"):
        Settings(data_dir="~no-such-user/own")


# -----------------------------------------------------------------------------
# A streamer.toml that was only found in the working directory gets no credential of another place.


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
    monkeypatch.setenv("STREAMER_REDIS", "redis://mine:1/0")
    monkeypatch.setenv("STREAMER_REDIS_PASSWORD", SECRET)
    assert Settings().redis_options()["password"] == SECRET
    with pytest.raises(BadConfigurationFile, match="the argument sasl_password"):
        Settings(sasl_password=SECRET)


def test_a_found_file_that_says_nothing_of_where_to_connect_leaves_the_password_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_file(tmp_path, monkeypatch, "partitions = 3\n")
    monkeypatch.setenv("STREAMER_REDIS_PASSWORD", SECRET)
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


# -----------------------------------------------------------------------------
# One side speaks TLS and the other does not: one clear line within seconds, from every command.


MOST_SECONDS = 20.0
"""Seconds that a command may take here, its start on a busy machine included."""

OF_KAFKA = [
    ["status"],
    ["verify", "--all"],
    ["query", "trials", "r"],
    ["publish", "events.ndjson"],
    ["subscribe", "run"],
    ["events", "r"],
    ["rejections", "list"],
    ["runs", "set", "r", "--name", "x"],
    ["tail", "run-directory"],
    ["worker"],
]
OF_REDIS = [
    ["status"],
    ["query", "runs"],
    ["query", "leaderboard"],
    ["report", "r"],
    ["serve", "--port", "18721"],
    ["notify", "--all", "--notify", "json://127.0.0.1:1/"],
    ["worker"],
]
CANNOT_VERIFY = 3


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "events.ndjson").write_text('{"type":"run_finished","run_id":"r"}\n')
    (tmp_path / "run-directory").mkdir()
    return tmp_path


@pytest.fixture
def kafka_with_tls(certificates: Certificates, embedded_broker: str) -> Iterator[str]:
    with TlsFront(certificates, int(embedded_broker.rpartition(":")[2])) as front:
        yield f"127.0.0.1:{front.port}"


@pytest.fixture
def redis_with_tls(certificates: Certificates, redis_server: RedisServer) -> Iterator[int]:
    with TlsFront(certificates, redis_server.port) as front:
        yield front.port


def told(arguments: list[str], here: Path, environment: Mapping[str, str]) -> str:
    """The one line about TLS that a command ends with, in time."""
    start = time.monotonic()
    done = streamer(*arguments, cwd=here, environment=environment)
    assert time.monotonic() - start < MOST_SECONDS
    assert done.returncode in (1, 2, CANNOT_VERIFY)
    [line] = [line for line in done.stderr.decode().splitlines() if "speak" in line]
    assert "Traceback" not in done.stderr.decode()
    return line


def names(arguments: list[str]) -> str:
    return " ".join(arguments[:2])


@pytest.mark.slow
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("arguments", OF_KAFKA, ids=names)
def test_plaintext_to_a_kafka_with_tls(
    arguments: list[str], here: Path, kafka_with_tls: str, redis_server: RedisServer
) -> None:
    environment = {"STREAMER_BOOTSTRAP": kafka_with_tls, "STREAMER_REDIS": redis_server.url}
    line = told(arguments, here, environment)
    assert f"Kafka at {kafka_with_tls} speaks TLS at this port" in line
    assert "STREAMER_SECURITY_PROTOCOL is PLAINTEXT. Set it to SSL" in line


@pytest.mark.slow
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("arguments", OF_KAFKA, ids=names)
def test_tls_to_a_kafka_without(
    arguments: list[str],
    here: Path,
    embedded_broker: str,
    redis_server: RedisServer,
    certificates: Certificates,
) -> None:
    environment = {
        "STREAMER_BOOTSTRAP": embedded_broker,
        "STREAMER_REDIS": redis_server.url,
        "STREAMER_SECURITY_PROTOCOL": "SSL",
        "STREAMER_SSL_CAFILE": str(certificates.ca),
    }
    line = told(arguments, here, environment)
    assert f"Kafka at {embedded_broker} does not speak TLS at this port" in line
    assert "Set it to PLAINTEXT" in line


@pytest.mark.slow
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("arguments", OF_REDIS, ids=names)
def test_plaintext_to_a_redis_with_tls(
    arguments: list[str], here: Path, embedded_broker: str, redis_with_tls: int
) -> None:
    url = f"redis://user:secret@127.0.0.1:{redis_with_tls}/0"
    environment = {"STREAMER_BOOTSTRAP": embedded_broker, "STREAMER_REDIS": url}
    line = told(arguments, here, environment)
    assert f"Redis at 127.0.0.1:{redis_with_tls} speaks TLS at this port" in line
    assert "Write rediss://" in line
    assert "secret" not in line


@pytest.mark.slow
@pytest.mark.in_turn(2)
@pytest.mark.parametrize("arguments", OF_REDIS, ids=names)
def test_tls_to_a_redis_without(
    arguments: list[str], here: Path, embedded_broker: str, redis_server: RedisServer
) -> None:
    url = f"rediss://127.0.0.1:{redis_server.port}/0"
    line = told(arguments, here, {"STREAMER_BOOTSTRAP": embedded_broker, "STREAMER_REDIS": url})
    assert f"Redis at 127.0.0.1:{redis_server.port} does not speak TLS at this port" in line
    assert "Write redis://" in line


def test_servers_that_agree_or_are_away_are_no_mismatch(
    certificates: Certificates, redis_server: RedisServer, redis_with_tls: int, embedded_broker: str
) -> None:
    kafka = int(embedded_broker.rpartition(":")[2])
    assert mismatch("127.0.0.1", redis_server.port, REDIS_HELLO, tls=False) is None
    assert mismatch("127.0.0.1", redis_with_tls, REDIS_HELLO, tls=True) is None
    assert mismatch("127.0.0.1", kafka, KAFKA_HELLO, tls=False) is None
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


@pytest.mark.parametrize("seconds", ["inf", "0", "100000"])
def test_a_session_ends_after_a_second_at_least_and_within_a_day(seconds: str) -> None:
    with pytest.raises(ValidationError, match="session_timeout_seconds"):
        Settings(session_timeout_seconds=float(seconds))


def test_the_value_that_keeps_idle_runs_in_memory_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    said = str(Settings.model_fields["run_idle_seconds"].description)
    monkeypatch.setenv("STREAMER_RUN_IDLE_SECONDS", said.removesuffix(": never.").split()[-1])
    assert Settings().run_idle_seconds == float("inf")
