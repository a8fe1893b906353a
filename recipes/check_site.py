"""Check the built documentation site: every link leads to a file and a heading, and nothing is loaded from the network.

    python recipes/check_site.py site

mkdocs checks the links of the Markdown pages; this reads the HTML, and so also what themes and plugins write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
"""What a browser loads by itself, and the attribute that names it."""


class Page(HTMLParser):
    """The links, anchors and loaded files of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = {"", "__top", "__search"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes of a tag."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(values[LOADED[tag]])


def faults(site: Path) -> Iterator[str]:
    """Yield a sentence for each broken link and each file from the network."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of the root, whatever the address of the missing page
            continue
        for link in [*page.links, *page.loaded]:
            address = urlsplit(link)
            if address.scheme in ("http", "https") or address.netloc:
                if link in page.loaded:
                    yield f"{path.relative_to(site)} loads {link} from the network"
                continue
            if address.scheme in ("data", "mailto"):
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site)} links to {link}, which does not exist"
            elif target in pages and unquote(address.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)} links to {link}, and {target.name} has no such heading"
    for path in sorted(site.rglob("*.css")):
        for address in re.findall(r"(?:@import|url\()\s*[\"']?(https?:[^\"')]+)", path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)} loads {address} from the network"


def main() -> None:
    """Print the faults of a site; end with status 1 if there are any."""
    site = Path(sys.argv[1]).resolve()
    if not list(site.glob("*.html")):
        sys.exit(f"{site} has no pages: build the site first, with make docs.")
    found = list(faults(site))
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages, every link leads somewhere")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
