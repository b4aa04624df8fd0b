"""Makes MkDocs read the documents where they are in the repository.

Documents are in several folders, and link to each other and to files by relative paths, as hosts
of repositories show them. MkDocs knows one folder of documents. Here its files get their paths in
the repository, so that it resolves and checks these links itself. Pages of docs keep their folders in
the site, other documents are beside them, and other files of the repository are below files/.
"""

import posixpath
import re
from collections import Counter
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parents[2]

# Pages from other folders than docs, with their names in the site.
PAGES = {
    "README.md": "overview",
    "lab/README.md": "lab",
    "clib/README.md": "clib",
    "study/bench/README.md": "bench",
    "study/bench/results/overhead.md": "bench-overhead",
    "study/bench/results/send.md": "bench-send",
}

FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"(!?)\[([^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)"><img alt="([^"]+)" src="([^"]+)"></picture>')


def add(files, path, to, config):
    files.append(File(path, str(ROOT), config.site_dir, False, dest_uri=to))


def linked(page):
    """Paths in the repository to which a document links."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    targets = [match[3] for match in LINK.finditer(text)] + re.findall(r'<img [^>]*src="([^":]+)"', text)
    return {posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) for target in targets}


def on_files(files, config):
    for file in [f for f in files if f.src_dir == config.docs_dir]:
        files.remove(file)
        add(files, "docs/" + file.src_uri, file.dest_uri, config)
    for page, name in PAGES.items():
        add(files, page, name + ".html", config)
    for page in [f.src_uri for f in files.documentation_pages()]:
        for path in linked(page):
            # A document that is no page stays a broken link.
            if (ROOT / path).is_file() and not path.endswith(".md") and not files.get_file_from_path(path):
                add(files, path, "files/" + path, config)
    add(files, "ui/public/icon.svg", "assets/icon.svg", config)
    add(files, "dist/site/site.css", "assets/site.css", config)
    add(files, "dist/site/worker.js", "assets/iframe-worker.js", config)
    files.append(File.generated(config, "assets/colour.css", content=colours()))
    return files


def colours():
    """The colours of the server's page, for the themes of the site."""
    text = (ROOT / "ui/style/colour.css").read_text(encoding="utf-8")
    dark = ':root[data-theme="dark"]'
    if dark not in text:
        raise PluginError(f"read ui/style/colour.css: no rule {dark}")
    return text.replace(dark, '[data-md-color-scheme="slate"]')


def anchors():
    """Makes the anchors of one page as hosts of repositories do: a second `lanes` is `lanes-1`."""
    slug, seen = slugify(case="lower"), Counter()

    def anchor(heading, separator):
        name = slug(heading, separator)
        seen[name] += 1
        return name if seen[name] == 1 else f"{name}-{seen[name] - 1}"

    return anchor


def on_page_markdown(markdown, page, config, files):
    config.mdx_configs["toc"]["slugify"] = anchors()
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    folder = posixpath.dirname(page.file.src_uri)

    def link(match):
        """Folders are in the repository only: a link to one becomes text."""
        return match[2] if not match[1] and (ROOT / folder / match[3]).is_dir() else match[0]

    def fence(match):
        """The second word of a fence selects its test."""
        return re.sub(r"\A```(\w+) [\w-]+$", r"```\1", match[0], flags=re.M)

    parts, end = [], 0
    for match in FENCE.finditer(markdown):
        parts += [prose(markdown[end : match.start()], link), fence(match)]
        end = match.end()
    return "".join(parts + [prose(markdown[end:], link)])


def prose(text, link):
    text = LINK.sub(link, text)
    text = PICTURE.sub(r"![\2](\1#only-dark)![\2](\3#only-light)", text)
    # A comment directly above a table would make the table part of it.
    return re.sub(r"^(<!--.*-->)\n(?=\S)", r"\1\n\n", text, flags=re.M)
