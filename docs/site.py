"""How the site is made from the repository: a hook of mkdocs, run by `make docs`.

Most pages are the files of this folder. The rest are made when the site is built: the pages at the root, the
gallery from its scripts, the reference from docstrings and from the help of the commands. Links that lead
from a page to a source file lead to its place in the reference.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.main import get_command
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "totalcal"
AT_THE_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills the two parts of the navigation that follow from what there is."""
    parts: dict[str, list[Any]] = {name: pages for part in config.nav or [] for name, pages in part.items()}
    parts["Gallery"] = [
        {"All examples": "gallery/index.md"},
        *(f"gallery/{script.stem}.md" for script in scripts()),
    ]
    parts["Reference"] = [
        {"Public names": "reference/index.md"},
        *parts["Reference"],
        {"All modules": [f"reference/{room}.md" for room in rooms()]},
    ]
    config.nav = [{name: pages} for name, pages in parts.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are no files of this folder."""
    for name, make in made_pages().items():
        files.append(File.generated(config, name, content=make()))
    for tutorial in DOCS.glob("tutorial_*.md"):
        files.append(File.generated(config, f"{tutorial.stem}.ipynb", content=notebook(tutorial)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links that lead out of this folder into links of the site."""
    name = page.file.src_uri
    made = rewritten(markdown, name)
    if not name.startswith("tutorial_"):
        return made
    return f"{made}\n\n[This page as a notebook]({name.removesuffix('.md')}.ipynb)\n"


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mends what Markdown cannot say about tables, code and formulas, and mkdocstrings about links."""
    html = with_formulas(with_whole_words(with_group_rows(html)))
    return with_links(html) if page.file.src_uri.startswith("reference/") else html


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """What is shown where one points at a link is one line."""
    return re.sub(r'(?<= title=")\s+[^"]*', lambda title: " ".join(title.group().split()), output)


def notebook(page: Path) -> str:
    """A page as a Jupyter notebook: its blocks of Python are the cells, and what stands between is text."""
    parts = re.split(
        r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        cell = {"id": f"cell-{number}", "metadata": {}, "source": part.strip()}
        if number % 2:
            cells.append({"cell_type": "code", "execution_count": None, "outputs": [], **cell})
        elif part.strip():
            cells.append({"cell_type": "markdown", **cell})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def made_pages() -> dict[str, Callable[[], str]]:
    """The address of each page that is made, and what makes its Markdown."""
    from_the_root = {
        page: partial((ROOT / source).read_text, encoding="utf-8")
        for source, page in AT_THE_ROOT.items()
        if (ROOT / source).exists()
    }
    return {
        **from_the_root,
        "gallery/index.md": gallery_index,
        **{f"gallery/{script.stem}.md": partial(example_page, script) for script in scripts()},
        "reference/index.md": api_index,
        "reference/commands.md": commands_page,
        **{f"reference/{room}.md": partial(room_page, room) for room in rooms()},
    }


class AsShown(griffe.Extension):
    """What the reference shows beyond what mkdocstrings does by itself."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Examples in the middle of a docstring are code, not Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """A named tuple shows its fields, as a dataclass does."""
        if [str(base) for base in cls.bases] == ["NamedTuple"]:
            fields = [
                griffe.Parameter(
                    name,
                    annotation=field.annotation,
                    default=field.value,
                    kind=griffe.ParameterKind.positional_or_keyword,
                )
                for name, field in cls.members.items()
                if isinstance(field, griffe.Attribute) and field.annotation is not None
            ]
            cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*fields)))

    def on_function_instance(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """The options of a command have their types here; their help is on the page of the commands."""
        for parameter in func.parameters:
            match parameter.annotation:
                case griffe.ExprSubscript(left, griffe.ExprTuple([kind, *_])) if str(left) == "Annotated":
                    parameter.annotation = kind


def fenced(docstring: str) -> str:
    """Each paragraph that begins with >>> as a block of code.

    >>> fenced("Adds.\\n\\n>>> 1 + 1\\n2")
    'Adds.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    paragraph = re.compile(r"^([ ]*)>>>.*(?:\n(?!\s*$).*)*", re.MULTILINE)
    return paragraph.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", docstring)


# --- what Markdown cannot say


def with_group_rows(html: str) -> str:
    """A row that only names a group of rows, in italics, goes across the whole table.

    >>> with_group_rows("<tr>\\n<td><em>digits</em></td>\\n<td></td>\\n</tr>")
    '<tr>\\n<td colspan="2"><em>digits</em></td>\\n</tr>'
    """
    row = re.compile(r"<tr>\s*<td>(<em>[^\n]*?</em>)</td>((?:\s*<td[^>]*></td>)+)\s*</tr>")
    return row.sub(
        lambda found: f'<tr>\n<td colspan="{1 + found[2].count("<td")}">{found[1]}</td>\n</tr>', html
    )


def with_whole_words(html: str) -> str:
    """Short words of code and options are not broken at their hyphens, nor a deviation at its sign.

    A long word of code is broken between its parts.

    >>> with_whole_words("<code>--strict</code>")
    '<code class="whole">--strict</code>'
    >>> with_whole_words("<code>run --domain</code>")
    '<code>run <span class="whole">--domain</span></code>'
    """
    html = re.sub(r"<code>([^<>\s]{1,28})</code>", r'<code class="whole">\1</code>', html)
    html = re.sub(r"<code>[^<>\s]{29,}</code>", _with_parts, html)
    html = re.sub(r"<code>[^<>\n]+</code>", _with_whole_options, html)
    return re.sub(r"<td.*?</td>", lambda cell: cell.group().replace("± ", "±&nbsp;"), html)


def _with_parts(code: re.Match[str]) -> str:
    return re.sub(r"(?<!<)([._/])(?=[^\W_])", r"\1<wbr>", code.group())


def _with_whole_options(code: re.Match[str]) -> str:
    return re.sub(r"(?<=[ >])([^\s<>]{0,5}-[^\s<>]{1,27})", r'<span class="whole">\1</span>', code.group())


def with_formulas(html: str) -> str:
    """Subscripts, and numbers that stay with their sign; code and headings are left alone.

    >>> with_formulas("<p>v_s ~ N(0, σ²_kj) of 5 % <code>v_s</code></p>")
    '<p>v<sub>s</sub> ~ N(0, σ²<sub>kj</sub>) of 5&nbsp;% <code>v_s</code></p>'
    """
    parts = re.split(r"(<(code|pre|h\d|svg|script)\b.*?</\2>|<[^>]*>)", html, flags=re.DOTALL)
    return "".join(
        text + (tag or "") for text, tag in zip(map(_formula, parts[::3]), [*parts[1::3], ""], strict=True)
    )


def _formula(text: str) -> str:
    text = re.sub(r"(?<=\d) (?=%)|(?<=±) (?=\d)|(?<=\d) (?=[×/] \d)|(?<=\d [×/]) (?=\d)", "&nbsp;", text)
    letter, after = r"[^\W\d_²³ᵀ]", r"(?![^\W²³ᵀ])"
    single = rf"(?<![^\Wᵀ])({letter}[²′]?)_(?:\{{([^{{}}]+)\}}|({letter}{{1,2}}|true|batch){after})"
    text = re.sub(single, lambda found: f"{found[1]}<sub>{found[2] or found[3]}</sub>", text)
    return re.sub(rf"(?<!\w)(min|max|softmax|Var|AUROC)_({letter}){after}", r"\1<sub>\2</sub>", text)


# --- links


def with_links(html: str) -> str:
    """On a page of the reference, every error that is raised is a link, and so are files of this folder.

    >>> with_links('<td><code class="whole">LabelError</code> (docs/toys.md)</td>').partition(" (")[2]
    '<a href="../toys.html">The two toys</a>)</td>'
    """
    errors = "|".join(name for node in _parsed(PACKAGE / "errors.py").body for name in _defined(node))
    html = re.sub(
        rf'(<td>\s*<code) class="whole">({errors})(?=</code>)',
        r'\1><a href="core.html#totalcal.errors.\2">\2</a>',
        html,
    )
    return re.sub(r"(?<=[ (>])docs/(\w+\.md)", _page_link, html)


def _page_link(found: re.Match[str]) -> str:
    page = found[1]
    return f'<a href="../{page[:-3]}.html">{_title(page)}</a>' if (DOCS / page).exists() else found[0]


def rewritten(markdown: str, page: str) -> str:
    """Links of a page, by its address in the site, with those into the repository brought home."""
    origin = next((source for source, made in AT_THE_ROOT.items() if made == page), f"docs/{page}")
    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", lambda link: _link(link, page, origin), markdown)


def _link(link: re.Match[str], page: str, origin: str) -> str:
    bang, text, target = link.groups()
    if re.match(r"[a-z]+:|#", target):
        return link.group()
    path, _, anchor = target.partition("#")
    place = normpath(str(PurePosixPath(origin).parent / path))
    home = _in_the_site(place)
    if home is None:  # a file that the site does not have, as a test
        return f"`{text}`" if re.fullmatch(r"[\w./]+", text) and re.search(r"[./]", text) else text
    name, own_anchor = home
    if text.endswith(".md"):  # the name of a file means nothing to readers of the site
        text = _title(name)
    fragment = anchor or own_anchor
    address = relpath(name, str(PurePosixPath(page).parent))
    return f"{bang}[{text}]({address}{'#' * bool(fragment)}{fragment})"


def _title(page: str) -> str:
    """The first heading of a page that is a file."""
    source = next((ROOT / source for source, made in AT_THE_ROOT.items() if made == page), DOCS / page)
    return source.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _in_the_site(place: str) -> tuple[str, str] | None:
    at_home = {**AT_THE_ROOT, "README.md": "index.md"}.get(place, place.removeprefix("docs/"))
    if at_home == "index.md" or at_home in made_pages():
        return at_home, ""
    if place.startswith("src/totalcal/") and place.endswith(".py"):
        parts = place.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").split("/")
        room = parts[1] if parts[1] in rooms() else "core"
        return f"reference/{room}.md", ".".join(parts)
    if place.startswith("docs/") and (ROOT / place).exists() and not _is_left_out(place):
        return (f"{at_home}/README.md" if (ROOT / place).is_dir() else at_home), ""
    return None


def _is_left_out(place: str) -> bool:
    """What `exclude_docs` names in mkdocs.yml."""
    return place.endswith(".py") or place.startswith(("docs/figures", "docs/results/records"))


# --- the gallery


def scripts() -> list[Path]:
    """The examples, in the order of their names."""
    return sorted((DOCS / "gallery").glob("*.py"))


def example_page(script: Path) -> str:
    """A script as a page: its docstring, then its cells (`# %%`), each text before code, then its figure."""
    title, text, code = parsed(script)
    body = "\n\n".join(
        _cell(cell) for cell in re.split(r"^# %%.*\n", code, flags=re.MULTILINE) if cell.strip()
    )
    figure = f"![{title}]({script.stem}.png)"
    run = f"Run it: `python docs/gallery/{script.name}`"
    return f"# {title}\n\n{text}\n\n{figure}\n\n{body}\n\n{run}\n"


def parsed(script: Path) -> tuple[str, str, str]:
    """The title and text of a script's docstring, and the code beneath it."""
    source = script.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or script.stem).partition("\n")
    first = tree.body[0].end_lineno or 0
    return title.rstrip("."), text.strip(), "\n".join(source.splitlines()[first:]).strip()


def _cell(cell: str) -> str:
    lines = cell.strip().splitlines()
    count = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    words = "\n".join(line.removeprefix("#").strip() for line in lines[:count])
    code = "\n".join(lines[count:]).strip()
    return f"{words}\n\n```python\n{code}\n```" if code else words


def gallery_index() -> str:
    """Every example with its figure."""
    cards = []
    for script in scripts():
        title, text, _ = parsed(script)
        lead = text.partition("\n\n")[0].replace("\n", " ")
        cards.append(
            f"## [{title}]({script.stem}.md)\n\n{lead}\n\n"
            f"[![{title}]({script.stem}.png){{ width=600 }}]({script.stem}.md)"
        )
    head = "Small programs that run as they are, in seconds, on generated data or scikit-learn's own."
    return "\n\n".join(["# Gallery", head, *cards]) + "\n"


# --- the reference


def rooms() -> list[str]:
    """The folders of the package, and `core` for the files beside them."""
    folders = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    return ["core", *(name for name in folders if not name.startswith("_"))]


def room_page(room: str) -> str:
    """Every module of a room, from its docstrings."""
    folder = PACKAGE if room == "core" else PACKAGE / room
    files = sorted(folder.glob("*.py") if room == "core" else folder.rglob("*.py"))
    entries = [
        _package(file) if file.stem == "__init__" else f"::: {_dotted(file)}"
        for file in files
        if room != "core" or file.stem not in ("__init__", "__main__")
    ]
    if room == "estimators":  # whose classes are made from the registry, where mkdocstrings sees none
        entries += [
            f"## `{name}` {{ #{home} }}\n\n{_summary(name)}"
            for name, home in public_names().items()
            if home == f"totalcal.estimators.{name}"
        ]
    return "\n\n".join([f"# {_room_title(room)}", *entries]) + "\n"


def _dotted(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def _package(file: Path) -> str:
    """A package: what it defines itself, then links to what it takes from its modules, documented there."""
    own = [name for node in _parsed(file).body for name in _defined(node)]
    options = f"      members: {own}\n      show_root_heading: false"  # the title of the page says it
    entry = f"::: {_dotted(file)}\n    options:\n{options}"
    links = [f"[`{home.rpartition('.')[2]}`][{home}]" for home in _taken(file) if _is_documented(home)]
    return f"{entry}\n\nAlso here: {', '.join(links)}." if links else entry


def _taken(file: Path) -> list[str]:
    """Where the names are defined that a package takes from elsewhere and lists in its stub or `__all__`."""
    stub = file.with_suffix(".pyi")
    tree = _parsed(stub if stub.exists() else file)
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return [
        f"{_dotted(file)}.{node.module}.{alias.name}" if node.level else f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if stub.exists() or alias.name in strings
    ]


def _is_documented(home: str) -> bool:
    """Whether the reference shows it: a class or a function, or a constant with a docstring."""
    module, _, name = home.rpartition(".")
    file = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
    if not file.exists():
        return True
    body = _parsed(file).body
    place = next((place for place, node in enumerate(body) if name in _defined(node)), None)
    if place is None or isinstance(body[place], ast.FunctionDef | ast.ClassDef):
        return place is not None
    after = body[place + 1] if place + 1 < len(body) else None
    return isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _defined(node: ast.stmt) -> list[str]:
    """The public names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        names = [node.name]
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
    else:
        names = []
    return [name for name in names if not name.startswith("_")]


def api_index() -> str:
    """Every public name with one line about it, room by room."""
    parts = [
        "# The public names",
        "All of them are attributes of `totalcal`: `totalcal.calibrate`, `totalcal.etp`, …",
    ]
    homes = public_names()
    for room in rooms():
        rows = [
            f"| [`{name}`]({room}.md#{home}) | {_summary(name)} |"
            for name, home in homes.items()
            if _room(home) == room
        ]
        if rows:
            about = "" if room == "core" else _first_sentence(_tree()[room])
            table = "\n".join(["| name | what it is |", "|---|---|", *rows])
            parts += [f"## [{_room_title(room)}]({room}.md)", about, table]
    return "\n\n".join(parts) + "\n"


@cache
def public_names() -> dict[str, str]:
    """Each public name and where it is defined."""
    import totalcal

    return {name: _home(name) for name in totalcal.__all__ if name != "__version__"}


def _home(name: str) -> str:
    try:
        return str(_tree()[name].canonical_path)
    except (KeyError, griffe.AliasResolutionError):
        return f"totalcal.estimators.{name}"  # made from the registry


def _room(home: str) -> str:
    room = home.split(".")[1]
    return room if room in rooms() else "core"


def _room_title(room: str) -> str:
    return "The core" if room == "core" else f"totalcal.{room}"


def _summary(name: str) -> str:
    """What an entry says first, as the cell of a table."""
    from totalcal import registry

    made = {registry.classifier_name(model): model for model in registry.MODEL_NAMES}
    if name in made:
        return f"The scikit-learn classifier of [`{made[name]}`][{public_names()[made[name]]}]."
    return _first_sentence(_tree()[name])


def _first_sentence(thing: Any) -> str:
    """The first paragraph of a docstring."""
    docstring = thing.docstring.value if thing.docstring else ""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("|", "\\|")


@cache
def _tree() -> Any:
    return griffe.load("totalcal", search_paths=[PACKAGE.parent])


def commands_page() -> str:
    """The help of every command, as the terminal shows it."""
    from totalcal.cli import app
    from totalcal_lab.cli import app as laboratory

    parts = ["# The command lines", "What `totalcal COMMAND --help` and `totalcal-lab COMMAND --help` print."]
    for name, application in {"totalcal": app, "totalcal-lab": laboratory}.items():
        for words in _commands(get_command(application)):
            parts += [f"## {name} {' '.join(words)}", f"```text\n{_help(application, words)}\n```"]
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*before, name))
        elif not command.hidden:
            yield (*before, name)


def _help(application: Any, words: tuple[str, ...]) -> str:
    settings = {"COLUMNS": "96", "TERMINAL_WIDTH": "96", "NO_COLOR": "1", "TERM": "dumb"}
    shown = CliRunner().invoke(application, [*words, "--help"], env=settings).output
    return "\n".join(line.rstrip() for line in shown.strip().splitlines())
