#!/usr/bin/env python3
"""Write the proxy's configuration: `python .deploy/configure.py --host demo.example.org ... > nginx.conf`.

Needs Python's standard library alone, so that it runs where the proxy does. What the proxy says to
browsers (content-security-policy) and what it is made of (nginx.conf.template) lie beside it.
"""

import argparse
import re
import sys
from pathlib import Path
from string import Template
from typing import NamedTuple

HERE = Path(__file__).parent
# The one script inside the index.html of Streamlit 1.67: tests/server/test_proxy.py computes it.
BOOT = "'sha256-THxz9J9+wf7rhwR2YkXJoSZ13UCmYyC+3lNDv2+8ugA='"


class Login(NamedTuple):
    """A way to know people: whom nginx knows, and what it needs for that at which place."""

    known_user: str = '""'
    server: str = ""
    http: str = ""
    pages: str = ""  # what somebody unknown gets for a page; for all else, a bare 401


# oauth2-proxy, as its documentation puts it behind auth_request. Its sign-in answers in the place of a
# page and is told the address asked for in a header: in its own address, as rd=, all of a link from the
# first & on would be lost, for nginx cannot quote it. Its pages have a form that leads to other hosts.
REQUEST = Login(
    known_user="$login_user",
    http="""\
    map $request_uri $login_next {{
        default     $request_uri;
        ~^/oauth2/  {root}/;
    }}""",
    server="""\
        auth_request /oauth2/auth;
        auth_request_set $login_user $upstream_http_{login_variable};
        auth_request_set $login_cookie $upstream_http_set_cookie;
        add_header Set-Cookie $login_cookie always;  # it renews its own
        location = /oauth2/auth {{
            internal;
            proxy_pass {login_url};
            proxy_pass_request_body off;
            proxy_set_header Content-Length '';
{login_told}
        }}
        location ^~ /oauth2/ {{
            auth_request off;
            proxy_pass {login_url};
{login_told}
            proxy_set_header X-Auth-Request-Redirect $login_next;
            add_header Content-Security-Policy "base-uri 'none'; frame-ancestors 'none'" always;
            add_header X-Content-Type-Options nosniff always;
            add_header X-Frame-Options DENY always;
            add_header Referrer-Policy no-referrer always;
{strict}
        }}""",
    pages="            error_page 401 = /oauth2/sign_in;",
)
LOGIN_TOLD = """\
            proxy_set_header Host $http_host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Forwarded-Host $http_host;
            proxy_set_header X-Forwarded-Uri $request_uri;
            proxy_buffer_size 16k;  # its cookies are long
            proxy_buffers 8 16k;"""
LOGINS = {
    "none": Login(),
    "basic": Login(
        known_user="$remote_user",
        server='        auth_basic "posenc";\n        auth_basic_user_file {login_file};',
    ),
    "request": REQUEST,
}


def policy() -> str:
    """Return the value of the Content-Security-Policy header."""
    text = (HERE / "content-security-policy").read_text()
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return "; ".join(line.format(boot=BOOT) for line in lines if line)


_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_NUMBER = r"\[[0-9A-Fa-f:.]+\]"  # an IPv6 address
_PORT = "[0-9]{1,5}"
_HEADER = (r"[A-Za-z][A-Za-z0-9-]{0,63}", "the name of an HTTP header")
_FILE = (r"[^\s;{}\"'$\\#]+", "a path without spaces, quotes and ; { } $ # \\")
# What each word may be. The first three are the server's own: see the
# rules of POSENC_PATH, POSENC_HOSTS and POSENC_USER_HEADER (dashboard/server/settings.py).
FORMS = {
    "path": (
        r"(?:[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+){0,7})?",
        "a path without slashes at its ends, such as tools/posenc",
    ),
    "host": (rf"(?:\*\.)?{_NAME}", "a host name"),
    "user_header": (
        rf"(?!(?i:cookie|host|authorization)$){_HEADER[0]}",
        "the name of an HTTP header of its own",
    ),
    "login_header": _HEADER,
    "listen": (rf"(?:(?:{_NAME}|{_NUMBER}|\*):)?{_PORT}", "a port, or address:port"),
    "server": (rf"(?:{_NAME}|{_NUMBER}):{_PORT}", "host:port"),
    "folder": _FILE,
    "login_file": _FILE,
    "login_url": (
        rf"https?://(?:{_NAME}|{_NUMBER})(?::{_PORT})?",
        "an address without a path, such as http://127.0.0.1:4180",
    ),
    "certificate": _FILE,
    "key": _FILE,
}
NEEDED = {"none": (), "basic": ("login_file",), "request": ("login_url",)}
MOST_MB = 51  # a file of 50, and what a form puts around it


def configuration(
    *,
    host: str,
    servers: list[str],
    listen: str,
    folder: str,
    path: str = "",
    user_header: str = "X-Posenc-User",
    login: str = "none",
    login_file: str = "",
    login_url: str = "",
    login_header: str = "X-Auth-Request-User",
    uploads: bool = True,
    most_mb: int = MOST_MB,
    certificate: str = "",
    key: str = "",
) -> str:
    """Return the whole configuration. Raises ValueError for words that nginx would take otherwise."""
    said = {
        "path": path,
        "host": host,
        "user_header": user_header,
        "login_header": login_header,
        "listen": listen,
        "folder": folder,
        "login_file": login_file,
        "login_url": login_url,
        "certificate": certificate,
        "key": key,
    }
    needed = {"host", "listen", "folder", "user_header", "login_header", *NEEDED[login]}
    if certificate or key:
        needed |= {"certificate", "key"}
    for name, word in said.items():
        if word or name in needed:
            _check(name, word)
    for one in servers:
        _check("server", one)
    if not servers:
        raise ValueError("--server must be given.")
    if most_mb < 1:  # nginx takes 0 for no bound
        raise ValueError(f"--most-mb must be at least 1, got {most_mb}.")
    if login == "request" and path.split("/")[0] == "oauth2":
        raise ValueError("--path must not begin with oauth2, where the login is.")
    root = f"/{path}" if path else ""
    both = f"        ssl_certificate {certificate};\n        ssl_certificate_key {key};"
    outside = (
        f"        location = {root} {{ return 301 {root}/; }}\n        location / {{ return 404; }}"
    )
    taken = "limit_req zone=uploads burst=20 nodelay; proxy_pass http://servers;"
    strict = "add_header Strict-Transport-Security max-age=31536000 always;" if certificate else ""
    way = LOGINS[login]
    words_of_login = {
        "root": root,
        "login_file": login_file,
        "login_url": login_url,
        "login_variable": login_header.lower().replace("-", "_"),
        "login_told": LOGIN_TOLD,
        "strict": f"            {strict}",
    }
    return Template((HERE / "nginx.conf.template").read_text()).substitute(
        host=host,
        listen=listen,
        folder=folder.rstrip("/"),
        path=path,
        root=root,
        servers="\n".join(f"        server {one} max_fails=1 fail_timeout=5s;" for one in servers),
        user_header=user_header,
        known_user=way.known_user,
        login=way.server.format(**words_of_login),
        login_maps=way.http.format(**words_of_login),
        login_pages=way.pages,
        uploads=taken if uploads else "return 403;",
        most_mb=f"{most_mb}m",
        policy=policy(),
        tls=" ssl" if certificate else "",
        certificate=both if certificate else "",
        strict=f"        {strict}",
        secure="; Secure" if certificate else "",
        outside=outside if path else "",
    )


def _check(name: str, word: str) -> None:
    pattern, described = FORMS[name]
    if re.fullmatch(pattern, word, re.ASCII) is None:
        raise ValueError(f"--{name.replace('_', '-')} must be {described}, got {word!r}.")


def main() -> int:
    """Write the configuration that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True, help="the name that people type")
    parser.add_argument("--server", dest="servers", action="append", required=True,
                        help="host:port of a dashboard; may be repeated")  # fmt: skip
    parser.add_argument("--listen", default="127.0.0.1:8080", help="address:port of the proxy")
    parser.add_argument("--folder", required=True, help="of its logs and temporary files")
    parser.add_argument("--path", default="", help="as POSENC_PATH of the servers")
    parser.add_argument("--user-header", default="X-Posenc-User", help="as POSENC_USER_HEADER")
    parser.add_argument("--login", choices=list(LOGINS), default="none")
    parser.add_argument("--login-file", default="", help="of --login basic, as htpasswd writes it")
    parser.add_argument("--login-url", default="",
                        help="of --login request, such as http://127.0.0.1:4180")  # fmt: skip
    parser.add_argument("--login-header", default="X-Auth-Request-User",
                        help="in which it says who somebody is; or X-Auth-Request-Email")  # fmt: skip
    parser.add_argument("--no-uploads", dest="uploads", action="store_false")
    parser.add_argument(
        "--most-mb", type=int, default=MOST_MB, help="POSENC_UPLOAD_MB and a little"
    )
    parser.add_argument("--certificate", default="", help="and --key: serve TLS")
    parser.add_argument("--key", default="")
    try:
        sys.stdout.write(configuration(**vars(parser.parse_args())))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
