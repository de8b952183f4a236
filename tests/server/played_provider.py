"""A provider of OpenID Connect as a test plays it: asks for no password, signs what it is told."""

import base64
import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

from tests.server.proxied import reply, running
from tests.server.served_process import HOST

CLIENT = ("posenc-client", "of the client")
CONFIGURATION = "/.well-known/openid-configuration"


@dataclass
class PlayedProvider:
    """Says that whoever comes is `person`; `fault` is what it does wrong: of `FAULTS`, or "down"."""

    address: str = ""
    person: dict[str, Any] = field(
        default_factory=lambda: {"email": "ann@example.org", "email_verified": True}
    )
    fault: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)  # of /authorize
    paths: list[str] = field(default_factory=list)
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "one"}))
    other_key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "one"}))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def secrets(self, address: str = f"http://{HOST}:{{port}}") -> str:
        """Return the [auth] of secrets.toml of a server that people come to at this address."""
        return (
            f'[auth]\nredirect_uri = "{address}/oauth2callback"\n'
            f'cookie_secret = "{"0123456789abcdef" * 2}"\n'
            f'client_id = "{CLIENT[0]}"\nclient_secret = "{CLIENT[1]}"\n'
            f'server_metadata_url = "{self.address}{CONFIGURATION}"\n'
        )

    def configuration(self) -> dict[str, Any]:
        """Where everything is (OpenID Connect Discovery 1.0, section 3)."""
        return {
            "issuer": self.address, "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token", "jwks_uri": f"{self.address}/keys",
            "end_session_endpoint": f"{self.address}/end", "response_types_supported": ["code"],
            "subject_types_supported": ["public"], "code_challenge_methods_supported": ["S256"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }  # fmt: skip

    def authorize(self, said: dict[str, str]) -> str:
        """Return where to send the browser of somebody who came to say who they are."""
        self.asked.append(said)
        assert said["client_id"] == CLIENT[0]
        assert said["response_type"] == "code"
        assert said["code_challenge_method"] == "S256"
        back = {"state": said["state"]}
        if self.fault == "denied":
            back |= {"error": "access_denied", "error_description": "<b>no</b> entry"}
        else:
            back["code"] = f"code{len(self.asked)}"
            self.codes[back["code"]] = said
        return f"{said['redirect_uri']}?{urlencode(back)}"

    def token(self, said: dict[str, str], login: str) -> dict[str, Any]:
        """Return the tokens for a code, once, to the client that it was made for."""
        assert base64.b64decode(login.removeprefix("Basic ")).decode() == ":".join(CLIENT)
        asked = self.codes.pop(said["code"])
        assert said["redirect_uri"] == asked["redirect_uri"]
        digest = hashlib.sha256(said["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        now = int(time.time())
        claims = {
            "iss": self.address, "aud": CLIENT[0], "sub": "7", "iat": now, "exp": now + 600,
            "nonce": asked["nonce"], **self.person,
        }  # fmt: skip
        changes: dict[str, dict[str, Any]] = {
            "of another client": {"aud": "another"},
            "replayed": {"nonce": "of another visit"},
            "expired": {"exp": now - 600},
        }
        claims |= changes.get(self.fault, {})
        signer = self.other_key if self.fault == "signed by another" else self.key
        token = jwt.encode({"alg": "ES256", "kid": "one"}, claims, signer)
        if self.fault == "tampered":
            head, body, signature = token.split(".")
            changed = claims | {"email": "root@example.org"}
            body = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip("=")
            token = ".".join((head, body, signature))
        return {"access_token": "x", "token_type": "Bearer", "expires_in": 600, "id_token": token}


FAULTS = ("denied", "tampered", "signed by another", "of another client", "replayed", "expired")


@contextlib.contextmanager
def provider() -> Iterator[PlayedProvider]:
    """Answer as a provider would, at a free port of this machine."""
    played = PlayedProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            played.paths.append(asked.path)
            said = dict(parse_qsl(asked.query))
            if asked.path == "/authorize":
                reply(self, 302, Location=played.authorize(said))
            elif asked.path == "/end":
                reply(self, 302, Location=said["post_logout_redirect_uri"])
            elif asked.path == "/keys":
                self._told({"keys": [played.key.as_dict(private=False)]})
            elif played.fault == "down":
                reply(self, 503)
            else:
                assert asked.path == CONFIGURATION, asked.path
                self._told(played.configuration())

        def do_POST(self) -> None:
            played.paths.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._told(played.token(dict(parse_qsl(body)), self.headers["Authorization"]))

        def _told(self, what: dict[str, Any]) -> None:
            reply(self, 200, json.dumps(what).encode(), Content_Type="application/json")

        def log_message(self, *words: object) -> None:
            """Nobody reads it."""

    with running(ThreadingHTTPServer((HOST, 0), Handler)) as found:
        played.address = f"http://{found}"
        yield played
