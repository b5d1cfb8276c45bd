"""Settings of every command and the worker: `STREAMER_*` variables, a TOML file, or arguments.

The first source with a value wins: arguments, environment, configuration file, discovery file of a running
`streamer up`, defaults. `STREAMER_CONFIG` names the configuration file; empty means no file. Without it a
`streamer.toml` in the working directory is read, which others may have put there. So if this file decides
where to connect, no credential from another source is used.
"""

# Annotations are evaluated, as in `schemas/base.py`.

import json
import logging
import os
import socket
import ssl
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from difflib import get_close_matches
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, NamedTuple

import platformdirs
from pydantic import (
    BaseModel,
    ConfigDict,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from streamer.schemas.base import optional

log = logging.getLogger("streamer.settings")

# -----------------------------------------------------------------------------
# The running `streamer up` of this machine: a small JSON file that it writes and removes.
#
# It holds `bootstrap`, `redis`, `namespace`, `partitions`, `pid`, `data_dir` (null if ephemeral),
# `started_at` (Unix seconds). STREAMER_DISCOVERY names another file.


CLOCK_SLACK_SECONDS = 60.0
"""Tolerance for a wall clock that was adjusted since the machine started."""


def discovery_path() -> Path:
    """The discovery file, one per user of this machine."""
    named = os.environ.get("STREAMER_DISCOVERY")
    if named:
        return Path(named)
    return user_data_dir() / "running.json"


def user_data_dir() -> Path:
    """The user's data directory for this program."""
    return Path(platformdirs.user_data_dir("streamer", appauthor=False))


def read_discovery() -> dict[str, Any] | None:
    """The data that the running stack wrote; None without a stack, or if its process has ended."""
    try:
        stack = json.loads(discovery_path().read_text())
        alive = is_running(stack["pid"], stack["started_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stack if alive else None


def discovered_settings() -> dict[str, Any]:
    """The settings of a running stack; {} without one."""
    stack = read_discovery()
    if stack is None:
        return {}
    names = ("bootstrap", "redis", "namespace", "partitions")
    return {"embedded": True} | {name: stack[name] for name in names if name in stack}


def is_running(pid: int, started_at: float) -> bool:
    """Whether this process runs, and is not another one that got its number after a restart."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    if (
        boot_clock is not None
        and started_at < time.time() - time.clock_gettime(boot_clock) - CLOCK_SLACK_SECONDS
    ):
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


# -----------------------------------------------------------------------------
# Settings of every command and the worker: `STREAMER_*` variables, a TOML file, or arguments.


DEFAULT_CONFIG_FILE = "streamer.toml"
_ARGUMENTS = ("bootstrap", "redis", "namespace")

READ_COMMITTED = "read_committed"


class BadConfigurationFile(ValueError):
    """A configuration file that is missing, not TOML in UTF-8, or not allowed to receive a credential."""


class Settings(BaseModel):
    """Addresses of the broker and Redis, and options of the worker. Secrets are never printed."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    bootstrap: str = optional("Kafka bootstrap servers, comma-separated host:port.", "127.0.0.1:9092")
    redis: str = optional("Redis URL; rediss:// for TLS.", "redis://127.0.0.1:6379/0", repr=False)
    redis_password: SecretStr | None = optional("Redis password, if not in the URL.")
    redis_password_file: Path | None = optional("File that holds the Redis password.")
    redis_cafile: Path | None = optional("CA certificates to trust for Redis.")
    redis_expire_seconds: int | None = optional("Expiry of a run's keys; null: never.", ge=1)
    namespace: str = optional("Prefix of topics, group and keys.", "", pattern=r"^[A-Za-z0-9._-]{0,64}$")
    partitions: int = optional("Partitions of each topic, fixed for ever.", 8, ge=1, le=10_000)
    replication: int = optional("Replicas of each topic that is created.", 1, ge=1, le=32)
    embedded: bool = optional("True against the embedded broker (its facts differ).", False)
    client_id: str | None = optional(
        "Name that Kafka knows these clients by; null: the library's.", min_length=1
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = optional(
        "How Kafka is spoken to.", "PLAINTEXT"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = optional(
        "SASL mechanism, where the protocol has SASL.", "PLAIN"
    )
    sasl_username: str | None = optional("SASL user.")
    sasl_password: SecretStr | None = optional("SASL password; better in a file.")
    sasl_password_file: Path | None = optional("File that holds the SASL password.", validate_default=True)
    ssl_cafile: Path | None = optional("CA certificates to trust for Kafka.")
    ssl_certfile: Path | None = optional("Client certificate for Kafka.")
    ssl_keyfile: Path | None = optional("Key of the client certificate.")
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = optional(
        "Codec of what is written to Kafka, by clients and workers.", "zstd"
    )
    session_timeout_seconds: float = optional("Consumer group session timeout.", 10.0, ge=1, le=86_400)
    store: Literal["memory", "rocksdb"] = optional(
        "Where a worker keeps its tables. rocksdb: on disk too, under data_dir: then a restart "
        "reads only the news from Kafka; needs the extra trialstream[rocksdb].",
        "memory",
    )
    standby_replicas: int = optional(
        "How many other workers keep a copy of each partition's tables, to take over faster.", 0, ge=0, le=32
    )
    run_idle_seconds: float | None = optional(
        "A run without events for so long leaves memory until the next one; inf: never.", 21_600.0, gt=0
    )
    data_dir: Path | None = optional(
        "Where `up` keeps its journal, and workers with store=rocksdb their tables; null: the "
        "user's data dir."
    )
    prices_file: Path | None = optional("TOML price table of the user (R2).")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = optional(
        "Least level of a worker's log.", "INFO"
    )
    log_format: Literal["text", "json"] = optional(
        "A worker's log: lines for people, or one JSON object per line.", "text"
    )
    metrics_address: str | None = optional(
        "HOST:PORT where a worker answers /healthz, /readyz and /metrics; null: nowhere.",
        pattern=r"^[^\s/]+:[0-9]{1,5}$",
    )
    trusted_proxies: str = optional(
        "Proxies whose X-Forwarded-For counts: addresses, networks, comma-separated.", ""
    )
    adopt_configuration: bool = optional(
        "A worker that starts makes its own prices, profiles and formulas those of its group, as "
        "the one of `up` does; false: it waits for `streamer config adopt`.",
        False,
    )
    epoch: int | None = optional("Overrides the epoch kept in streamer-meta.", ge=1)

    _decided_by_implicit_file: tuple[str, ...] = PrivateAttr(default=())

    def __init__(self, **given: Any) -> None:
        """The given values, and the others from their sources in order.

        Raises:
            ValidationError: a setting is wrong; :func:`what_is_wrong` names it.
            BadConfigurationFile: the configuration file cannot be used.
        """
        sources = Sources(*_from_file(), _from_environment(), given)
        named = {**sources.file, **sources.environment, **given}
        # Never a mixture: a user who names a broker or a Redis does not mean the running stack.
        running = {} if {"bootstrap", "redis"} & named.keys() else discovered_settings()
        check_credentials(running | named, sources)
        super().__init__(**(running | named))
        self._decided_by_implicit_file = sources.decided_by_implicit_file(CONNECTION)

    def implicit_file_that_decides(self) -> str | None:
        """A sentence about a working directory's file that decides where to connect, if there is one."""
        if not self._decided_by_implicit_file:
            return None
        names = ", ".join(self._decided_by_implicit_file)
        return f"{Path(DEFAULT_CONFIG_FILE).absolute()} says where to connect: it sets {names}"

    @field_validator("data_dir", "prices_file")
    @classmethod
    def _from_home(cls, path: Path | None) -> Path | None:
        try:
            return path and path.expanduser()
        except RuntimeError:
            raise ValueError(f"there is no home directory for {path}") from None

    @field_validator("redis_cafile", "ssl_cafile", "ssl_certfile", "ssl_keyfile")
    @classmethod
    def _is_there(cls, file: Path | None) -> Path | None:
        if file is not None and not file.is_file():
            raise ValueError(f"there is no file {file}")
        return file

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, proxies: str) -> str:
        return ",".join(str(ip_network(proxy.strip())) for proxy in proxies.split(",") if proxy.strip())

    @field_validator("redis_password_file", "sasl_password_file")
    @classmethod
    def _holds_the_only_secret(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None:
            password = str(info.field_name).removesuffix("_file")
            if info.data.get(password) is not None:
                raise ValueError(f"{password} is set too; set only one")
            secret_in(file)
        return file

    @field_validator("sasl_password_file")
    @classmethod
    def _sasl_has_credentials(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        wants = str(info.data.get("security_protocol", "")).startswith("SASL")
        if wants and not (info.data.get("sasl_username") and (file or info.data.get("sasl_password"))):
            raise ValueError("SASL needs sasl_username, and sasl_password or sasl_password_file")
        return file

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS context for Kafka; None for protocols without TLS."""
        if not self.security_protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cafile=str(self.ssl_cafile) if self.ssl_cafile else None)
        if self.ssl_certfile:
            context.load_cert_chain(
                str(self.ssl_certfile), str(self.ssl_keyfile) if self.ssl_keyfile else None
            )
        return context

    def kafka_options(self) -> dict[str, Any]:
        """Connection arguments for any aiokafka client."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.security_protocol,
            "ssl_context": self.ssl_context(),
        }
        if self.client_id is not None:
            options["client_id"] = self.client_id
        if self.security_protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = _secret(self.sasl_password, self.sasl_password_file)
            logging.getLogger("aiokafka.conn").addFilter(_without_credentials)
        return options

    def consumer_options(self) -> dict[str, Any]:
        """Arguments for any aiokafka consumer; it never reads an aborted transaction's records."""
        return self.kafka_options() | {"isolation_level": READ_COMMITTED}

    @property
    def data_root(self) -> Path:
        return self.data_dir or user_data_dir()

    @property
    def codec(self) -> str | None:
        """`compression` in the form that aiokafka's producers expect."""
        return None if self.compression == "none" else self.compression

    def redis_options(self) -> dict[str, Any]:
        """Keyword arguments for `redis.Redis.from_url(settings.redis, ...)`, sync or async."""
        options: dict[str, Any] = {}
        if (password := _secret(self.redis_password, self.redis_password_file)) is not None:
            options["password"] = password
        if self.redis.startswith("rediss://"):
            options["ssl_check_hostname"] = True  # not every version of redis-py does it by default
            if self.redis_cafile:
                options["ssl_ca_certs"] = str(self.redis_cafile)
        return options


def _from_file() -> tuple[bool, dict[str, Any]]:
    """Whether the configuration file was found or named, and its settings; a named one must exist."""
    named = os.environ.get("STREAMER_CONFIG")
    file = Path(DEFAULT_CONFIG_FILE if named is None else named).expanduser()
    if not file.is_file():
        if named:
            what = "not a file" if file.exists() else "no such file"
            raise BadConfigurationFile(
                f"STREAMER_CONFIG names {named}: {what}. Name another file, or unset it"
            )
        return False, {}
    try:
        return named is None, tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfigurationFile(f"the configuration file {file} is not TOML: {error}") from error
    except OSError as error:
        raise BadConfigurationFile(f"the configuration file {file} cannot be read: {error}") from error


def _from_environment() -> dict[str, str]:
    """The settings among this process's variables, in any case; near misses are reported."""
    variables = {name.lower(): value for name, value in os.environ.items()}
    ours = {name.removeprefix("streamer_") for name in variables if name.startswith("streamer_")}
    for name in ours.difference(Settings.model_fields):
        _say_misspelt(name)
    named = ((name, variables.get(f"streamer_{name}")) for name in Settings.model_fields)
    return {name: value for name, value in named if value is not None}


@cache
def _say_misspelt(name: str) -> None:
    for close in get_close_matches(name, Settings.model_fields, n=1, cutoff=0.8):
        said = "STREAMER_%s is not a setting and has no effect. Did you mean STREAMER_%s?"
        log.warning(said, name.upper(), close.upper())


# -----------------------------------------------------------------------------
# Addresses and credentials must come from one source, unless the user named the file.
#
# A program may be started in a directory with a stranger's `streamer.toml`. It must not send a password from
# the environment, or a user's file as a password, to a host that the stranger chose.


KAFKA_ADDRESS = ("bootstrap", "security_protocol", "sasl_mechanism", "ssl_cafile")
REDIS_ADDRESS = ("redis", "redis_cafile")
CONNECTION = KAFKA_ADDRESS + REDIS_ADDRESS
"""The settings that decide which servers to connect to, how, and with which credentials."""


class Sources(NamedTuple):
    """The sources of the settings; `implicit` marks a file that was found in the working directory."""

    implicit: bool
    file: Mapping[str, Any]
    environment: Mapping[str, Any]
    given: Mapping[str, Any]

    def decided_by_implicit_file(self, names: Iterable[str]) -> tuple[str, ...]:
        """The settings among these that come from the implicit file."""
        others = self.environment.keys() | self.given.keys()
        return tuple(name for name in names if self.implicit and name in self.file and name not in others)

    def place(self, name: str) -> str:
        """The source of a setting that does not come from the file, for a message."""
        return f"the argument {name}" if name in self.given else f"STREAMER_{name.upper()}"


def check_credentials(settings: Mapping[str, Any], sources: Sources) -> None:
    """Raise BadConfigurationFile if a found file would receive a credential from elsewhere."""
    protocol, url = str(settings.get("security_protocol", "")), str(settings.get("redis", ""))
    tls = {"ssl_cafile": protocol.endswith("SSL"), "redis_cafile": url.startswith("rediss://")}
    of_kafka = {
        "sasl_password": protocol.startswith("SASL"),
        "sasl_password_file": protocol.startswith("SASL"),
        "ssl_keyfile": protocol.endswith("SSL"),
    }
    of_redis = {"redis_password": True, "redis_password_file": True, "redis": "@" in url}
    for address, credentials in ((KAFKA_ADDRESS, of_kafka), (REDIS_ADDRESS, of_redis)):
        decided = sources.decided_by_implicit_file(name for name in address if tls.get(name, True))
        used = [name for name, sent in credentials.items() if sent and settings.get(name)]
        for name in used if decided else ():
            _check_credential(name, settings[name], decided, sources)


def _check_credential(name: str, value: Any, decided: Sequence[str], sources: Sources) -> None:
    file = Path(DEFAULT_CONFIG_FILE).absolute()
    is_of_file = bool(sources.decided_by_implicit_file([name]))
    if is_of_file and not name.endswith("password_file"):
        return
    if is_of_file and Path(str(value)).resolve().is_relative_to(file.parent.resolve()):
        return
    lies = f"{name} = {value}, outside of its directory" if is_of_file else sources.place(name)
    raise BadConfigurationFile(
        f"{file} was found in the working directory and decides where to connect ({', '.join(decided)}). "
        f"So it may not use a password or key from elsewhere, but one is set: {lies}. If the file is "
        f"yours, name it: STREAMER_CONFIG={DEFAULT_CONFIG_FILE}. Otherwise set "
        f"{', '.join(f'STREAMER_{one.upper()}' for one in decided)} yourself, or STREAMER_CONFIG= for no "
        "file"
    )


# -----------------------------------------------------------------------------
# Errors of settings, and secrets in files.


def what_is_wrong(error: ValidationError) -> str:
    """One sentence about the first wrong setting, without its value."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":  # other variables are ignored
        close = get_close_matches(name, Settings.model_fields, n=3)
        hint = f"Did you mean {', '.join(close)}?" if close else "docs/operator.md lists the settings."
        return f"the configuration file sets {name!r}, which is not a setting. {hint}"
    argument = f"--{name}, " if name in _ARGUMENTS else ""
    said = first["msg"].removeprefix("Value error, ")
    return (
        f"setting {name}: {said}. It comes from {argument}STREAMER_{name.upper()} or the configuration file"
    )


def secret_in(file: Path) -> str:
    """The secret in a file, without the line end; ValueError if it is unreadable or empty."""
    try:
        secret = file.read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    if not secret:
        raise ValueError(f"{file} is empty; it should contain only the password")
    return secret


def _secret(given: SecretStr | None, file: Path | None) -> str | None:
    """The secret, read again each time, so that the next client gets a changed secret."""
    if file is not None:
        return secret_in(file)
    return given.get_secret_value() if given else None


def _without_credentials(record: logging.LogRecord) -> bool:
    """Log filter: at DEBUG aiokafka logs what it sends, including the password of SASL/PLAIN."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(type(argument).__name__.startswith("SaslAuthenticate") for argument in arguments)


# -----------------------------------------------------------------------------
# TLS on only one side, which libraries report as "connection closed".


PROBE_SECONDS = 1.5


def mismatch(host: str, port: int, hello: bytes, *, tls: bool) -> str | None:
    """The mismatch if only one side uses TLS; None if both agree, or if that is unknown.

    `hello` is the first answer of a server without TLS.
    """
    if tls and not _answers_tls(host, port) and _answers(host, port, hello):
        return "does not speak TLS at this port"
    if not tls and not _answers(host, port, hello) and _answers_tls(host, port):
        return "speaks TLS at this port"
    return None


def _answers_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            closing(socket.create_connection((host, port), timeout=PROBE_SECONDS)) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # it refuses us, in TLS
    except OSError:
        return False


def _answers(host: str, port: int, hello: bytes) -> bool:
    """Whether the server answers with anything except a TLS alert."""
    try:
        with closing(socket.create_connection((host, port), timeout=PROBE_SECONDS)) as connection:
            connection.sendall(hello)
            return connection.recv(1) not in (b"", b"\x15")
    except OSError:
        return False
