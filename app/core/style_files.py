"""Output styles: the built-in ones, and files under ``output-styles`` of the project and the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.core.candidates import Plan
from app.core.configuration import private_folders
from app.core.facts import Content, Notice, OutputStyle
from app.core.flow import Flow, look, names, read
from app.core.frontmatter import split_frontmatter
from app.core.includes import is_git_metadata, leads_out, reach
from app.core.paths import Paths
from app.core.styles import built_in_style, is_default_style, parse_style

Found = tuple[OutputStyle | None, tuple[Notice, ...]]


def find_style(name: str, plan: Plan, prose: Mapping[str, str]) -> Flow[Found]:
    """The style called ``name``, in any case: a file's before a built-in one, the project's before the user's."""
    if is_default_style(name):
        return None, ()
    within = reach(plan.client, plan.roots, plan.options, plan.paths)
    for folder in _folders(plan):
        node = yield from look(folder)
        for file in sorted((yield from names(node.real))):
            if file.endswith(".md"):
                path = plan.paths.join(folder, file)
                real = (yield from look(path)).real
                if (yield from leads_out(within, plan.roots, path, real)):
                    continue
                style = yield from _style(real, file, plan.paths)
                if style is not None and style.name.lower() == name.lower():
                    return style, ()
    built_in = built_in_style(name, prose)
    message = f"There is no output style {name}: the default is used. Put it into .claude/output-styles/{name}.md."
    return built_in, () if built_in else (Notice("output_style_unknown", message, "settings.output_style"),)


def _folders(plan: Plan) -> Iterator[str]:
    client, join = plan.client, plan.paths.join
    if "project" in plan.sources:
        for folder in dict.fromkeys([client.cwd, plan.roots.toplevel if plan.roots else client.cwd]):
            if join(folder, ".claude") not in private_folders(client, plan.paths):
                yield join(folder, ".claude", "output-styles")
    if "user" in plan.sources and client.config_dir:
        yield join(client.config_dir, "output-styles")


def _style(real: str, file: str, paths: Paths) -> Flow[OutputStyle | None]:
    content = Content(None) if is_git_metadata(real, paths) else (yield from read(real))
    if content.data is None:
        return None
    front = split_frontmatter(content.data.decode("utf-8-sig", "replace"))
    return parse_style(file, front.body, front.values)
