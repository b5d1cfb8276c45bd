"""Settings: secrets from files, and what cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from streamer.settings import BadConfigurationFile, Settings, what_is_wrong
from tests.support.cli import streamer

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
    with pytest.raises(ValidationError, match="give one of them"):
        Settings(**SASL, sasl_password=SECRET, sasl_password_file=file)


@pytest.mark.parametrize("more", [{}, {"sasl_username": "u"}, {"sasl_password": SECRET}])
def test_sasl_needs_a_name_and_a_password(more: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="SASL needs sasl_username") as caught:
        Settings(security_protocol="SASL_PLAINTEXT", **more)
    assert SECRET not in str(caught.value)


def test_a_wrong_setting_is_named_without_any_secret_beside_it() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(partitions="x", sasl_password=SECRET, redis=f"redis://u:{SECRET}@h/0")
    assert "partitions" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_settings_print_no_url_that_may_hold_a_password() -> None:
    assert SECRET not in repr(Settings(redis=f"redis://u:{SECRET}@h/0"))


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no such file"), (b"\xff\xfe", "is not TOML"), (b"a = [", "is not TOML")],
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


@pytest.mark.parametrize(("name", "hint"), [("namspace", "Did you mean namespace"), ("xyzzy", "operator.md")])
def test_a_setting_that_does_not_exist_is_called_so(name: str, hint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{name: "a"})
    said = what_is_wrong(caught.value)
    assert said.startswith(f"there is no setting {name!r}")
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
