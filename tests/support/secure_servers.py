"""Real servers that let in only who may: Apache Kafka with SASL, TLS and ACLs; Redis with TLS and ACLs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import redis

from streamer.operate.local.processes import Child, ServerFailed, free_port
from tests.support.certificates import Certificates
from tests.support.servers import KafkaServer

ADMIN = "admin"
NO_REDIS = "SKIPPED LOUDLY: no redis-server on PATH that was built with TLS; install Redis 7 (Debian's is)"
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SCRAM": "SASL_SSL",
    "OTHERHOST": "SASL_SSL",
    "PLAIN": "SASL_PLAINTEXT",
    "MUTUAL": "SSL",
    "CONTROLLER": "SASL_PLAINTEXT",
}
"""Listener -> its protocol. PLAINTEXT lets strangers in, who may do nothing by the ACLs."""


class SecureKafka(KafkaServer):
    """Apache Kafka with a listener for each way in, and an authorizer that allows nothing by itself.

    Args:
        directory: an existing folder for configuration, log and data.
        certificates: whose CA it trusts and whose certificates it shows.
        passwords: of each user, by SCRAM and PLAIN alike; the user `admin` may do everything.
    """

    def __init__(self, directory: Path, certificates: Certificates, passwords: Mapping[str, str]) -> None:
        super().__init__(directory)
        self._certificates = certificates
        self._passwords = passwords
        self._ports = {name: free_port() for name in PROTOCOLS if name not in ("PLAINTEXT", "CONTROLLER")}
        for user, password in passwords.items():
            self._format_options += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]

    def at(self, listener: str) -> str:
        """Bootstrap address of a listener."""
        return f"127.0.0.1:{self._ports[listener]}"

    def _settings(self) -> dict[str, object]:
        common = super()._settings()
        public = f"PLAINTEXT://127.0.0.1:{self.port}," + ",".join(
            f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()
        )
        return common | {
            "listeners": f"{public},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": public,
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in PROTOCOLS.items()),
            "inter.broker.listener.name": "PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            **self._tls(),
            **self._sasl(),
        }

    def _tls(self) -> dict[str, object]:
        server, other = self._certificates.server, self._certificates.other_host
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server.with_suffix(".both"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._certificates.ca,
            "listener.name.otherhost.ssl.keystore.type": "PEM",
            "listener.name.otherhost.ssl.keystore.location": other.with_suffix(".both"),
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }

    def _sasl(self) -> dict[str, object]:
        security = "org.apache.kafka.common.security"
        users = " ".join(f'user_{user}="{password}"' for user, password in self._passwords.items())
        itself = f'username="{ADMIN}" password="{self._passwords[ADMIN]}"'
        plain = f"{security}.plain.PlainLoginModule required {itself} {users};"
        scram = f"{security}.scram.ScramLoginModule required;"
        settings: dict[str, object] = {
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
        }
        for name, mechanism, jaas in (
            ("plain", "PLAIN", plain),
            ("controller", "PLAIN", plain),
            ("scram", "SCRAM-SHA-512", scram),
            ("otherhost", "SCRAM-SHA-512", scram),
        ):
            settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = mechanism
            settings[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = jaas
        return settings


class SecureRedis:
    """Redis that listens with TLS only and knows only the users that its ACL file names.

    Args:
        directory: an existing folder.
        certificates: whose server certificate it shows.
        users: lines of an ACL file.
    """

    def __init__(self, directory: Path, certificates: Certificates, users: Iterable[str]) -> None:
        binary = shutil.which("redis-server") or pytest.skip(NO_REDIS)
        self.port = free_port()
        self._ca = certificates.ca
        acl = directory / "users.acl"
        acl.write_text("".join(f"{line}\n" for line in users))
        server = certificates.server
        options: dict[str, object] = {
            "port": 0,
            "tls-port": self.port,
            "tls-cert-file": server,
            "tls-key-file": server.with_suffix(".key"),
            "tls-ca-cert-file": certificates.ca,
            "tls-auth-clients": "no",
            "bind": "127.0.0.1 127.0.0.2",
            "appendonly": "no",
            "dir": directory,
            "aclfile": acl,
        }
        argv = [binary, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
        self.log = directory / "redis.log"
        self.child = Child("Redis with TLS", [*argv, "--save", ""], log=self.log)

    def url(self, user: str = "") -> str:
        """Redis URL with a user name and without a password."""
        return f"rediss://{user}{'@' if user else ''}127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start and return when it answers."""
        self.child.start()
        try:
            self.child.wait_ready(self._answers)
        except ServerFailed:
            if "Bad directive" in self.log.read_text(errors="replace"):
                pytest.skip(NO_REDIS)
            raise

    def stop(self) -> None:
        """End it in good order."""
        self.child.stop()

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url(), ssl_ca_certs=str(self._ca), socket_timeout=1.0) as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:  # it answers: nobody may come in without a name
                return True
            except redis.ConnectionError:
                return False
