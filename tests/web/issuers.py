"""A small identity provider that really answers over HTTP."""

from __future__ import annotations

import json
import threading
import time
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from web.people import Person

ALGORITHMS = ["RS256", "RS512", "HS256"]


class Issuer:
    """Knows one person, and hands out one code."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "1"})
        self.signing_key: RSAKey | OctKey = self.key
        self.algorithm = "RS256"
        self.claims: dict[str, Any] = {"sub": "42", "preferred_username": "Ada", "email": "ada@red.example"}
        self.changes: dict[str, Any] = {}
        self.asked: dict[str, str] = {}
        self.redeemed: dict[str, str] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def sign_in(self, person: Person) -> Any:
        """Do what a browser does: away, and back with a code."""
        away = person("GET", "/sso", follow_redirects=False)
        assert away.status_code == 303, away.text
        query = parse_qs(urlsplit(away.headers["location"]).query)
        self.asked = {key: values[0] for key, values in query.items()}
        back = {"state": self.asked["state"], "code": "code-1"}
        return person("GET", "/sso/callback", params=back, follow_redirects=False)

    def id_token(self) -> str:
        now = int(time.time())
        facts = {"iss": self.url, "aud": "mlcd", "iat": now, "exp": now + 60, "nonce": self.asked["nonce"]}
        claims = {**facts, **self.claims, **self.changes}
        said = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": self.algorithm, "kid": "1"}, said, self.signing_key, algorithms=ALGORITHMS)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/authorize?"):
                    self._ask()
                    return
                answers = {
                    "/.well-known/openid-configuration": {
                        "issuer": issuer.url,
                        "authorization_endpoint": f"{issuer.url}/authorize",
                        "token_endpoint": f"{issuer.url}/token",
                        "jwks_uri": f"{issuer.url}/keys",
                    },
                    "/keys": {"keys": [issuer.key.as_dict(private=False)]},
                }
                self._say(answers[self.path])

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["content-length"])).decode()
                issuer.redeemed = {key: values[0] for key, values in parse_qs(form).items()}
                self._say({"id_token": issuer.id_token()})

            def _ask(self) -> None:
                """The page on which people agree."""
                query = parse_qs(urlsplit(self.path).query)
                issuer.asked = {key: values[0] for key, values in query.items()}
                back = {"yes": {"code": "code-1"}, "no": {"error": "access_denied"}}
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                for word, said in back.items():
                    query_back = urlencode({"state": issuer.asked["state"], **said})
                    address = escape(f"{issuer.asked['redirect_uri']}?{query_back}")
                    self.wfile.write(f'<p><a id="{word}" href="{address}">{word}</a></p>'.encode())

            def _say(self, data: Any) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(data).encode())

            def log_message(self, *_arguments: object) -> None:
                pass

        return Handler
