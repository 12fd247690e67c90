"""Trees in which nothing is wrong: no warning, and no row with a hint."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.asking import ask, local
from tests.reference.trees import Tree

HOME = "/home/dev"
P = f"{HOME}/p"
USER = f"{HOME}/.claude"


@dataclass(frozen=True)
class Sound:
    """A tree that somebody made on purpose. ``loads`` is how many files do, ``arrives`` what touches bring."""

    name: str
    files: dict[str, Any]
    loads: int
    arrives: int = 0
    cwd: str = P
    touched: tuple[str, ...] = ()
    git: dict[str, Any] | None = None
    workspace: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    on_disk: bool = True

    def case(self) -> dict[str, Any]:
        described: dict[str, Any] = {"source": "inline", "cwd": self.cwd, "home": HOME, "platform": "linux"}
        described |= {"files": self.files} | self.workspace | ({"git": self.git} if self.git else {})
        touched = [{"path": path} for path in self.touched]
        body = {"model": "claude-sonnet-4-5", "date": "2026-11-30", "workspace": described, "touched": touched}
        return {"id": self.name, "request": body | self.more}


def settings(**values: Any) -> str:
    return json.dumps(values)


def rule(*patterns: str, body: str = "Follow this.") -> str:
    return "---\npaths:\n" + "".join(f'  - "{pattern}"\n' for pattern in patterns) + f"---\n\n{body}\n"


PROSE = """\
# Shop

Maintained by @ann, @bob-smith and @org/platform-team. Mail ops@example.org or <dev@example.org>; talk to @here in chat.
On the web: https://example.org/@shop and [profile](https://example.org/@ann).

Install `@scope/tool` with `npm i @types/node @scope/tool@1.2.3`; we use @angular/core, @nestjs/common and @types/react.
Decorate with @Injectable, @app.route("/x"), @Override, @property and @pytest.fixture. In CSS use @media and @import.

```sh
git clone git@example.org:shop/app.git
npm i @scope/tool @docs/gone.md
```

    indented @docs/gone.md

~~~text
@docs/gone.md
~~~

- at 5 @ 10 each; see user@host:/path, v1@2
- `@docs/gone.md` is only code

<!-- TODO @ann: @docs/gone.md -->

Last line, see @docs/guide.md.
"""

SOUND = (
    Sound(name="empty", files={P: {"directory": True}}, loads=0),
    Sound(
        name="monorepo",
        files={
            f"{HOME}/mono/CLAUDE.md": "Root. See @docs/style.md and @README.md",
            f"{HOME}/mono/README.md": "Read me. Contact @ann.",
            f"{HOME}/mono/docs/style.md": "Style. More: @more.md#tabs",
            f"{HOME}/mono/docs/more.md": "More",
            f"{HOME}/mono/.claude/rules/go.md": rule("**/*.go", "go.mod"),
            f"{HOME}/mono/packages/CLAUDE.md": "Packages",
            f"{HOME}/mono/packages/api/CLAUDE.md": "Api @../../docs/style.md",
            f"{HOME}/mono/packages/api/CLAUDE.local.md": "Mine",
            f"{HOME}/mono/packages/api/.claude/CLAUDE.md": "More of api",
            f"{HOME}/mono/packages/api/.claude/rules/sub/sql.md": rule("db/**/*.sql", "!db/gen/**"),
            f"{HOME}/mono/packages/api/db/CLAUDE.md": "Database",
            f"{HOME}/mono/packages/web/CLAUDE.md": "Web",
        },
        cwd=f"{HOME}/mono/packages/api",
        git={"toplevel": f"{HOME}/mono"},
        touched=(f"{HOME}/mono/packages/api/db/x/a.sql",),
        loads=8,
        arrives=2,
    ),
    Sound(
        name="worktree",
        files={
            f"{HOME}/r-feature/CLAUDE.md": "R @AGENT_NOTES.md",
            f"{HOME}/r-feature/AGENT_NOTES.md": "Notes",
            f"{HOME}/r-feature/.claude/rules/a.md": "A",
            f"{HOME}/r/CLAUDE.local.md": "Mine",
            f"{HOME}/r/CLAUDE.md": "R",
        },
        cwd=f"{HOME}/r-feature",
        git={"toplevel": f"{HOME}/r-feature", "main_toplevel": f"{HOME}/r"},
        loads=3,
    ),
    Sound(
        name="worktree inside",
        files={
            f"{HOME}/r/CLAUDE.md": "R",
            f"{HOME}/r/.claude/rules/a.md": "A",
            f"{HOME}/r/CLAUDE.local.md": "Mine",
            f"{HOME}/r/.claude/settings.json": settings(claudeMdExcludes=["**/vendor/**"]),
            f"{HOME}/r/.claude/worktrees/f/CLAUDE.md": "R",
            f"{HOME}/r/.claude/worktrees/f/.claude/rules/a.md": "A",
        },
        cwd=f"{HOME}/r/.claude/worktrees/f",
        git={"toplevel": f"{HOME}/r/.claude/worktrees/f", "main_toplevel": f"{HOME}/r"},
        loads=3,
    ),
    Sound(
        name="submodule",
        files={
            f"{HOME}/s/CLAUDE.md": "Super",
            f"{HOME}/s/lib/CLAUDE.md": "Sub @docs/a.md",
            f"{HOME}/s/lib/docs/a.md": "A",
        },
        cwd=f"{HOME}/s/lib",
        git={"toplevel": f"{HOME}/s/lib"},
        loads=3,
    ),
    Sound(
        name="many rules",
        files={
            f"{USER}/CLAUDE.md": "Mine @~/notes/all.md",
            f"{HOME}/notes/all.md": "All",
            f"{USER}/rules/general.md": "General",
            f"{USER}/rules/lang/go.md": rule("**/*.go"),
            f"{USER}/rules/lang/ts.md": "---\npaths: src/**/*.{ts,tsx}\ndescription: TypeScript\n---\nTS",
            f"{USER}/settings.json": settings(
                claudeMdExcludes=["/home/work/**/CLAUDE.md", "**/node_modules/**"], model="opus", permissions={}
            ),
            f"{P}/.claude/rules/plugin-a/one.md": "---\nname: one\ndescription: The first.\n---\nOne",
            f"{P}/.claude/rules/plugin-a/two.md": "---\npaths: ['*.py', \"tests/**\"]\n---\nTwo",
            f"{P}/.claude/rules/plugin-b": {"link": "../../plugins/b/rules"},
            f"{P}/plugins/b/rules/three.md": "# Three\n\n---\n\nText: with a line above.",
            f"{P}/.claude/settings.json": settings(hooks={}, permissions={"allow": ["Bash(ls:*)"]}),
            f"{P}/src/a.ts": "",
        },
        touched=(f"{P}/src/a.ts",),
        loads=5,
        arrives=1,
    ),
    Sound(
        name="linked AGENTS.md",
        files={f"{P}/CLAUDE.md": {"link": "AGENTS.md"}, f"{P}/AGENTS.md": "Agents", f"{P}/sub/AGENTS.md": "Not read"},
        touched=(f"{P}/sub/x",),
        loads=1,
    ),
    Sound(
        name="AGENTS.md linked to CLAUDE.md",
        files={f"{P}/AGENTS.md": {"link": "CLAUDE.md"}, f"{P}/CLAUDE.md": "Claude"},
        loads=1,
    ),
    Sound(
        name="included AGENTS.md",
        files={f"{P}/CLAUDE.md": "@AGENTS.md\n\n## For this tool\n\nMore.", f"{P}/AGENTS.md": "Agents"},
        loads=2,
    ),
    Sound(
        name="included AGENTS.md from .claude",
        files={f"{P}/.claude/CLAUDE.md": "@../AGENTS.md", f"{P}/AGENTS.md": "Agents"},
        loads=2,
    ),
    Sound(
        name="prose",
        files={f"{P}/CLAUDE.md": PROSE, f"{P}/docs/guide.md": PROSE.replace("docs/guide.md", "ann")},
        loads=2,
    ),
    Sound(
        name="prose in a subfolder",
        files={
            f"{P}/CLAUDE.md": "Root",
            f"{P}/types/react": {"directory": True},
            f"{P}/ann": {"directory": True},
            f"{P}/app/CLAUDE.md": PROSE.replace("@docs/guide.md", "the guide"),
        },
        cwd=f"{P}/app",
        git={"toplevel": P},
        loads=2,
    ),
    Sound(
        name="same words at the top",
        files={
            f"{P}/Makefile": "all:",
            f"{P}/property": "a file",
            f"{P}/docs/CLAUDE.md": "Use @property and @media; @Makefile too.",
        },
        cwd=f"{P}/docs",
        git={"toplevel": P},
        loads=1,
    ),
    Sound(
        name="excludes of other projects",
        files={
            f"{USER}/settings.json": settings(claudeMdExcludes=["/srv/other/CLAUDE.md", f"{HOME}/old/**"]),
            "/etc/claude-code/managed-settings.json": settings(claudeMdExcludes=["**/third_party/**"]),
            "/etc/claude-code/CLAUDE.md": "Policy",
            f"{P}/CLAUDE.md": "Mine",
        },
        loads=2,
    ),
    Sound(
        name="notes",
        files={
            f"{USER}/projects/-home-dev-p/memory/MEMORY.md": "# Notes\n\n- [Tests](tests.md): make\n- mail a@b.cd",
            f"{USER}/projects/-home-dev-p/memory/tests.md": "Run with make",
            f"{USER}/projects/-home-dev-other/memory/MEMORY.md": "Others",
            f"{HOME}/p2/CLAUDE.md": "x",
            f"{HOME}/p-q/CLAUDE.md": "x",
            f"{P}/q/CLAUDE.md": "x",
        },
        loads=1,
    ),
    Sound(
        name="windows",
        files={
            "C:\\Users\\Me\\p\\CLAUDE.md": "See @docs\\guide.md and @docs/more.md. Drive C:\\Users, a@b.cd, @ann.\r\n",
            "C:\\Users\\Me\\p\\docs\\guide.md": "---\r\ntitle: Guide\r\n---\r\nGuide\r\n",
            "C:\\Users\\Me\\p\\docs\\more.md": "More\r\n",
            "C:\\Users\\Me\\p\\.claude\\rules\\cs.md": '---\r\npaths: "src/**/*.cs"\r\n---\r\nCS\r\n',
            "C:\\Users\\Me\\.claude\\CLAUDE.md": "Mine @~/notes.md",
            "C:\\Users\\Me\\notes.md": "Notes",
            "C:\\Users\\Me\\.claude\\settings.json": settings(claudeMdExcludes=["D:/work/**", "C:\\old\\**"]),
        },
        cwd="C:\\Users\\Me\\p",
        workspace={"home": "C:\\Users\\Me", "platform": "windows"},
        touched=("C:\\Users\\Me\\p\\src\\a.cs",),
        loads=5,
        arrives=1,
        on_disk=False,
    ),
    Sound(
        name="scripts",
        files={
            f"{HOME}/项目/CLAUDE.md": "# 商店\n\n请看 @文档/指南.md。邮箱 运维@例子.中国，联系 @小明。价格 5@10。\n",
            f"{HOME}/项目/文档/指南.md": "指南：见「@注释.md」与 @注释.md，谢谢。",
            f"{HOME}/项目/文档/注释.md": "注释",
            f"{HOME}/项目/.claude/rules/数据.md": rule("数据/**/*.sql"),
            f"{HOME}/项目/数据/CLAUDE.md": "データ",
            f"{HOME}/Ünïcödé/CLAUDE.md": "x",
        },
        cwd=f"{HOME}/项目",
        touched=(f"{HOME}/项目/数据/a.sql",),
        loads=3,
        arrives=2,
    ),
    Sound(
        name="line ends",
        files={
            f"{P}/CLAUDE.md": "\ufeff# Shop\r\n\r\n<!-- note -->\r\n\r\n```\r\n@gone.md\r\n```\r\n\r\n@docs/a.md\r\n",
            f"{P}/docs/a.md": "---\r\ntitle: A\r\n---\r\n\r\nA\r\n",
            f"{P}/.claude/rules/r.md": "---\r\npaths:\r\n  - '**/*.c'\r\n---\r\n\r\nR\r\n",
        },
        touched=(f"{P}/x.c",),
        loads=2,
        arrives=1,
    ),
    Sound(
        name="home",
        files={
            f"{USER}/CLAUDE.md": "Mine",
            f"{USER}/rules/a.md": "A",
            f"{USER}/settings.json": settings(claudeMdExcludes=["/x/**"], includeGitInstructions=False),
            f"{USER}/settings.local.json": settings(permissions={}),
            f"{HOME}/CLAUDE.md": "Home",
            f"{HOME}/code/p/CLAUDE.md": "Elsewhere",
        },
        cwd=HOME,
        loads=3,
    ),
    Sound(
        name="dotfiles",
        files={
            f"{HOME}/dotfiles/CLAUDE.md": "Dots",
            f"{USER}/CLAUDE.md": {"link": "../dotfiles/claude/CLAUDE.md"},
            f"{HOME}/dotfiles/claude/CLAUDE.md": "Mine",
        },
        cwd=f"{HOME}/dotfiles",
        loads=2,
    ),
    Sound(
        name="comments and lines",
        files={
            f"{P}/CLAUDE.md": "<!-- owner: ann -->\n# Title\n\n---\n\nText\n\n---\n\n<!--\nmany\nlines\n-->\n\nEnd\n",
            f"{P}/.claude/CLAUDE.md": "```md\n<!-- shown\n```\n\nA `<!--` in code, a ` tick.\n\n> ```\n> x\n\nEnd",
            f"{P}/.claude/rules/r.md": "# Rule\n\n~~~~\n```\n~~~~\n",
        },
        loads=3,
    ),
    Sound(
        name="one word",
        files={f"{P}/CLAUDE.md": "tabs", f"{P}/CLAUDE.local.md": "README", f"{P}/src": {"directory": True}},
        loads=2,
    ),
    Sound(
        name="frontmatter of other uses",
        files={
            f"{P}/CLAUDE.md": "---\ntitle: Shop\npath: /shop\ntags: [a, b]\n---\nText",
            f"{P}/docs/a.md": "---\nlayout: page\npath: /a\nglob: none\n---\nA",
            f"{P}/.claude/CLAUDE.md": "See @../docs/a.md",
        },
        loads=3,
    ),
    Sound(
        name="additional directory",
        files={f"{P}/CLAUDE.md": "P", f"{HOME}/lib/CLAUDE.md": "Lib", f"{HOME}/lib/sub/CLAUDE.md": "Sub"},
        workspace={"additional_directories": [f"{HOME}/lib"]},
        more={"memory": {"from_additional_directories": True}},
        touched=(f"{HOME}/lib/sub/x",),
        loads=2,
        arrives=1,
    ),
)


def check(tree: Sound, answer: dict[str, Any]) -> None:
    memory = answer["memory"]
    assert [row for row in memory["report"] if row["hint"]] == []
    assert answer["warnings"] == []
    assert (len(memory["files"]), len(memory["attachments"])) == (tree.loads, tree.arrives)


@pytest.mark.parametrize("sound", SOUND, ids=lambda sound: sound.name)
def test_a_tree_in_order_raises_no_alarm(sound: Sound, service: httpx.Client) -> None:
    check(sound, ask(service, sound.case()["request"]))


@pytest.mark.parametrize("sound", [one for one in SOUND if one.on_disk], ids=lambda sound: sound.name)
def test_a_tree_in_order_on_disk_raises_no_alarm(sound: Sound, service: httpx.Client, tree: Tree) -> None:
    check(sound, ask(service, tree.lay(sound.case())))


@pytest.mark.parametrize("sound", SOUND, ids=lambda sound: sound.name)
def test_nor_on_later_turns_of_a_session(sound: Sound, service: httpx.Client) -> None:
    body = sound.case()["request"] | {"session_id": f"sound {sound.name}"}
    check(sound, ask(service, body))
    again = ask(service, body)
    assert [row for row in again["memory"]["report"] if row["hint"]] == []
    assert (again["warnings"], again["memory"]["attachments"]) == ([], [])


def test_a_folder_without_anything_raises_no_alarm(tmp_path: Any, service: httpx.Client) -> None:
    answer = ask(service, local(tmp_path, memory={"walk_stop": str(tmp_path)}))
    assert {(row["reason"], row["hint"]) for row in answer["memory"]["report"]} == {("not_found", None)}
    assert answer["warnings"] == []
