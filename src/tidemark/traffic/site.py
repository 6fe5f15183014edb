"""The generated site: its pages, their assets and links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import log
from random import Random
from urllib.parse import parse_qsl

from tidemark.traffic.visitors import weighted_table

HOST = "www.example.com"
ORIGIN = f"https://{HOST}"
TABLE = 16384
SLOW = "/products/compare"
CONVERTED = "/welcome"
FUNNEL = ("/cart", "/checkout", CONVERTED)
# Of a page's links.
_TO_CART, _TO_CHECKOUT, _TO_BOUGHT = 2, 14, 15
_LINKS = 24
VARIANTS = 16
_ZIPF_EXPONENT = 1.0
# Parameters of a search, by precedence.
_SEARCHES = ("q", "s", "query")
_PROTOCOLS = ("HTTP/1.1", "HTTP/1.1", "HTTP/2.0")


@dataclass(frozen=True, slots=True)
class Request:
    """One request and its response: the `line` of the request as logged, and what it says, None if it is not HTTP.

    `size` None is logged as a dash. `seconds` is what the response took, in milliseconds after the point. `text` is
    logged, from method to size, without the opening quote. `page`: a GET of a path that is not an asset, with a status
    below 400. `campaign` and `search` are what the query says, decoded.
    """

    line: str
    status: int
    size: int | None
    method: str | None = None
    path: str | None = None
    query: str | None = None
    protocol: str | None = None
    asset: bool = False
    seconds: bytes = b"0.000"
    text: bytes = field(init=False)
    page: bool = field(init=False)
    campaign: str = field(init=False)
    search: str = field(init=False)

    def __post_init__(self) -> None:
        tags = _tags(self.query) if self.query else {}
        size = "-" if self.size is None else self.size
        derived = {
            "text": f'{self.line}" {self.status} {size}'.encode(),
            "page": self.method == "GET" and not self.asset and self.status < 400,
            "campaign": tags.get("utm_campaign", ""),
            "search": next((tags[name] for name in _SEARCHES if name in tags), ""),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)


@cache
def _tags(query: str) -> dict[str, str]:
    return dict(parse_qsl(query))


def request(
    path: str,
    *,
    query: str = "",
    method: str = "GET",
    status: int = 200,
    size: int | None = 0,
    asset: bool = False,
    protocol: str = "HTTP/1.1",
    seconds: bytes = b"0.004",
) -> Request:
    """A request for `path`."""
    line = f"{method} {path}?{query} {protocol}" if query else f"{method} {path} {protocol}"
    return Request(line, status, size, method, path, query or None, protocol, asset, seconds)


def not_http(text: str, status: int = 400, size: int | None = 226) -> Request:
    """A server's log text for bytes that are not an HTTP request, escaped as servers do."""
    return Request(text, status, size)


def took(random: Random, typical: float, spread: float = 0.5) -> bytes:
    """A duration in seconds, log-normal around a typical one."""
    return f"{random.lognormvariate(log(typical), spread):.3f}".encode()


@dataclass(slots=True)
class Page:
    """`variants` are responses of one address with different sizes; `links` are drawn uniformly."""

    path: str
    url: bytes
    size: int
    variants: list[Request]
    assets: list[Request] = field(default_factory=list)
    links: list[Page] = field(default_factory=list)


@dataclass(frozen=True)
class Site:
    """Entry pages are drawn from `landing`; the first page of a visit loads the `common` assets.

    `searches` are queries of the search page; `bought` is the last page of a purchase."""

    pages: Sequence[Page]
    landing: Sequence[Page]
    common: Sequence[Request]
    searches: Sequence[str]
    results: Page
    login: Page
    account: Page
    signup: Page
    bought: Page
    moved: Sequence[tuple[Request, Page]]
    downloads: Sequence[Request]


_TOPICS = (
    "kettle", "grinder", "espresso", "filter", "roast", "scale", "mug", "beans", "milk", "brew", "water",
    "press", "barista", "origin", "harvest", "steam", "crema", "dripper", "server", "thermos",
)  # fmt: skip
_WORDS = (
    "guide",
    "care",
    "basics",
    "review",
    "compact",
    "classic",
    "pro",
    "travel",
    "steel",
    "glass",
    "daily",
    "slow",
)
_DOCS = (
    "setup",
    "cleaning",
    "descaling",
    "warranty",
    "returns",
    "shipping",
    "payment",
    "api",
    "faq",
    "parts",
)
_FIXED = ("/about", "/contact", "/pricing", "/careers", "/press", "/terms", "/privacy")
_DOWNLOADS = (
    ("/files/catalogue.pdf", 2_410_112),
    ("/files/price-list.zip", 181_204),
    ("/files/manual-kettle.PDF", 904_331),
)
_COMMON = (
    ("/static/css/site.4f2a.css", 18233), ("/static/js/app.91bc.js", 74120), ("/static/img/logo.svg", 3110),
    ("/static/fonts/inter-var.woff2", 98012), ("/favicon.ico", 1150),
)  # fmt: skip


def build_site() -> Site:
    """The site, always the same: home, 200 articles, 240 products, 60 documents, search, login, other pages.

    Products lead to the cart, the cart to the checkout, and that to the last page of a purchase. One product page is
    slow. Entry pages follow a Zipf law over the pages in order of rank, home first.
    """
    random = Random("site")
    home, login, account, signup = (_page(random, path) for path in ("/", "/login", "/account", "/signup"))
    results = _page(random, "/search", typical=0.18)
    cart, checkout, bought = (_page(random, path, typical=0.12) for path in ("/cart", "/checkout", CONVERTED))
    slow = _page(random, SLOW, images=1, typical=2.4, spread=0.25)
    articles = [_page(random, f"/articles/{slug}", images=2) for slug in _slugs(random, 200)]
    products = [_page(random, f"/products/{slug}", images=3) for slug in _slugs(random, 240)]
    documents = [_page(random, f"/docs/{d}/{t}") for d in _DOCS for t in _TOPICS[:6]]
    sections = [_page(random, path, images=1) for path in ("/articles", "/products", "/docs")]
    fixed = [_page(random, path) for path in _FIXED]

    body = [*articles, *products, *documents, *fixed, slow]
    random.shuffle(body)
    ranked = [home, *sections, *body]
    popular = [(page, 1 / rank**_ZIPF_EXPONENT) for rank, page in enumerate(ranked, start=1)]
    landing = weighted_table(popular, TABLE)
    kinds = {"/articles": articles, "/products": products, "/docs": documents}
    others = [results, login, account, signup]
    for page in [*ranked, *others, cart, checkout, bought]:
        kin = kinds.get("/" + page.path.split("/")[1], body)
        page.links = random.choices(kin, k=_LINKS // 2) + random.choices(landing, k=_LINKS // 2)
    for product in products:
        product.links[:_TO_CART] = [cart] * _TO_CART
    cart.links[:_TO_CHECKOUT] = [checkout] * _TO_CHECKOUT
    checkout.links[:_TO_BOUGHT] = [bought] * _TO_BOUGHT
    moved = [
        (request(page.path.replace("/products/", "/shop/item-"), status=301, size=162), page)
        for page in products[:40]
    ]
    searches = [
        *(f"q={topic}+{word}" for topic in _TOPICS for word in _WORDS),
        *("q=caf%C3%A9", "q=%22cold+brew%22", "q=a%26b", "q=&s=Moka+Pot", "page=2&query=Kettle%20Lid"),
    ]
    common = [request(path, size=size, asset=True, seconds=took(random, 0.002)) for path, size in _COMMON]
    downloads = [request(path, size=size, seconds=took(random, 0.3)) for path, size in _DOWNLOADS]
    pages = [*ranked, *others]
    return Site(pages, landing, common, searches, results, login, account, signup, bought, moved, downloads)


def _slugs(random: Random, count: int) -> list[str]:
    return [f"{random.choice(_TOPICS)}-{random.choice(_WORDS)}-{number}" for number in range(1, count + 1)]


def _page(random: Random, path: str, images: int = 0, typical: float = 0.06, spread: float = 0.5) -> Page:
    size = int(random.lognormvariate(9.4, 0.5))
    variants = [
        request(
            path,
            size=size + random.randint(0, 900),
            protocol=random.choice(_PROTOCOLS),
            seconds=took(random, typical, spread),
        )
        for _ in range(VARIANTS)
    ]
    name = path.strip("/").replace("/", "-") or "home"
    assets = [
        request(
            f"/media/{name}-{i}.{random.choice(('jpg', 'webp', 'PNG'))}",
            size=random.randint(9000, 90000),
            asset=True,
            seconds=took(random, 0.003),
        )
        for i in range(1, random.randint(1, images + 1) if images else 1)
    ]
    return Page(path, f"{ORIGIN}{path}".encode(), size, variants, assets)
