"""The server's own small pages, which need no script and nothing from elsewhere."""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#8a96a3, #5b6776); --main: light-dark(#09646b, #2dd4bf); }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; min-height: 100vh; display: grid; place-items: center;
  background: light-dark(#fff, #10151e); color: light-dark(#1c2733, #e4eaf2); }
main { width: min(22rem, calc(100vw - 3rem)); }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
label { display: block; margin: .75rem 0 .25rem; }
input { box-sizing: border-box; width: 100%; font: inherit; padding: .5rem .6rem; border: 1px solid var(--line);
  border-radius: 8px; background: transparent; color: inherit; }
button, a.button { display: block; box-sizing: border-box; width: 100%; margin-top: 1.25rem; padding: .55rem; border: 0;
  border-radius: 8px; font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer;
  background: var(--main); color: light-dark(#fff, #10151e); }
p.problem { color: light-dark(#a3260f, #ffab9b); }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"


def login_page(problem: str = "", name: str = "", status: int = 200) -> HTMLResponse:
    """The form for name and password."""
    return _page(
        "Log in",
        f"""{_problem(problem)}<form method="post" action="/login">
<label for="name">Name</label>
<input id="name" name="name" autocomplete="username" required autofocus value="{escape(name)}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required>
<button>Log in</button></form>""",
        status,
    )


def password_page(action: str, problem: str = "", status: int = 200) -> HTMLResponse:
    """The form for a share's password."""
    return _page(
        "This page has a password",
        f"""{_problem(problem)}<form method="post" action="{escape(action)}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="off" required autofocus>
<button>Open</button></form>""",
        status,
    )


def unkept_page(action: str) -> HTMLResponse:
    """For a frame of another site whose cookie, of an unlocked share, the browser has not kept."""
    return _page(
        "The password is right",
        f"""<p>But your browser keeps it for no page in a frame of another site. Open this page in a tab of its own, and
enter the password there.</p><a class="button" target="_blank" rel="noopener" href="{escape(action)}">Open a tab</a>""",
        403,
    )


def logout_page(name: str) -> HTMLResponse:
    """The form that ends a session."""
    return _page(
        "Log out",
        f'<p>You are logged in as {escape(name)}.</p><form method="post" action="/logout"><button>Log out</button>'
        "</form>",
    )


def message_page(title: str, text: str, status: int, link: tuple[str, str] | None = None) -> HTMLResponse:
    """A page that only says something, with a link at most."""
    more = f'<a class="button" href="{escape(link[1])}">{escape(link[0])}</a>' if link else ""
    return _page(title, f"<p>{escape(text)}</p>{more}", status)


def _problem(text: str) -> str:
    return f'<p class="problem" role="alert">{escape(text)}</p>' if text else ""


def _page(title: str, body: str, status: int = 200) -> HTMLResponse:
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · Tidemark</title><style>{_STYLE}</style></head>
<body><main><h1>{escape(title)}</h1>{body}</main></body></html>
"""
    return HTMLResponse(text, status, {"content-security-policy": _POLICY, "cache-control": "no-store"})
