"""Files that tell how a project wants to be worked on: which tool reads them, or what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

FileKind = Literal[
    "instructions", "rules", "manifest", "ci", "readme", "guide", "prompts", "agents", "skills", "mcp", "settings"
]

KINDS: tuple[tuple[FileKind, str], ...] = (
    ("instructions", "Instructions for agents"),
    ("rules", "Rules for agents, some only for certain files"),
    ("manifest", "Manifests and build files"),
    ("ci", "Continuous integration"),
    ("readme", "READMEs"),
    ("guide", "Guides for contributors"),
    ("prompts", "Prompts, commands and workflows"),
    ("agents", "Agents and modes"),
    ("skills", "Skills"),
    ("mcp", "MCP servers"),
    ("settings", "Settings of tools"),
)
"""Every kind with its heading, in the order in which they are worth reading."""


@dataclass(frozen=True, slots=True)
class Known:
    """Files of one ``tool``, or of one purpose. ``patterns`` are parted by spaces.

    A pattern is a path below any folder, or from the root of the scan when it begins with a slash; its last name may
    hold one ``*``, and ``**/`` before that name stands for folders in between, or none. Case counts.
    """

    tool: str
    kind: FileKind
    patterns: str


NAMES: tuple[Known, ...] = (
    Known("Claude Code", "instructions", "CLAUDE.md .claude/CLAUDE.md CLAUDE.local.md"),
    Known("Claude Code", "rules", ".claude/rules/**/*.md"),
    Known("Claude Code", "prompts", ".claude/commands/**/*.md .claude/output-styles/**/*.md"),
    Known("Claude Code", "agents", ".claude/agents/**/*.md"),
    Known("Claude Code", "skills", ".claude/skills/**/SKILL.md"),
    Known("Claude Code", "settings", ".claude/settings.json .claude/settings.local.json .claude-plugin/plugin.json"),
    Known("AGENTS.md", "instructions", "AGENTS.md"),
    Known("Codex", "instructions", "AGENTS.override.md"),
    Known("Codex", "prompts", ".codex/prompts/**/*.md"),
    Known("Codex", "agents", ".codex/agents/**/*.toml"),
    Known("Codex", "settings", ".codex/config.toml"),
    Known("Amp", "instructions", "AGENT.md"),
    Known("Amp", "settings", ".amp/settings.json"),
    Known("shared by agents", "rules", ".agents/rules/**/*.md"),
    Known("shared by agents", "prompts", ".agents/workflows/**/*.md .agents/commands/**/*.md"),
    Known("shared by agents", "skills", ".agents/skills/**/SKILL.md"),
    Known("Gemini CLI", "instructions", "GEMINI.md"),
    Known("Gemini CLI", "prompts", ".gemini/commands/**/*.toml"),
    Known("Gemini CLI", "skills", ".gemini/skills/**/SKILL.md"),
    Known("Gemini CLI", "settings", ".gemini/settings.json"),
    Known("Gemini Code Assist", "rules", "/.gemini/styleguide.md"),
    Known("Gemini Code Assist", "settings", "/.gemini/config.yaml"),
    Known("Cursor", "instructions", ".cursorrules /.cursor/BUGBOT.md"),
    Known("Cursor", "rules", ".cursor/rules/**/*.mdc .cursor/rules/**/*.md"),
    Known("Cursor", "prompts", ".cursor/commands/**/*.md"),
    Known("Cursor", "agents", ".cursor/agents/**/*.md"),
    Known("Cursor", "skills", ".cursor/skills/**/SKILL.md"),
    Known("Cursor", "mcp", ".cursor/mcp.json"),
    Known("Cursor", "settings", ".cursor/environment.json"),
    Known("GitHub Copilot", "instructions", "/.github/copilot-instructions.md"),
    Known("GitHub Copilot", "rules", "/.github/instructions/**/*.instructions.md"),
    Known("GitHub Copilot", "prompts", "/.github/prompts/**/*.prompt.md"),
    Known("GitHub Copilot", "agents", "/.github/agents/**/*.md /.github/chatmodes/**/*.chatmode.md"),
    Known("GitHub Copilot", "skills", "/.github/skills/**/SKILL.md"),
    Known("Windsurf", "instructions", ".windsurfrules"),
    Known("Windsurf", "rules", ".windsurf/rules/**/*.md"),
    Known("Windsurf", "prompts", ".windsurf/workflows/**/*.md"),
    Known("Windsurf", "skills", ".windsurf/skills/**/SKILL.md"),
    Known("Windsurf", "mcp", ".windsurf/mcp_config.json"),
    Known("Cline", "instructions", ".clinerules"),
    Known("Cline", "prompts", ".clinerules/workflows/**/*.md"),
    Known("Cline", "rules", ".clinerules/**/*.md .clinerules/**/*.txt"),
    Known("Roo Code", "instructions", ".roorules .roorules-*"),
    Known("Roo Code", "prompts", ".roo/commands/**/*.md"),
    Known("Roo Code", "skills", ".roo/skills/**/SKILL.md"),
    Known("Roo Code", "rules", ".roo/**/*.md .roo/**/*.txt"),
    Known("Roo Code", "agents", ".roomodes"),
    Known("Roo Code", "mcp", ".roo/mcp.json"),
    Known("Kilo Code", "instructions", ".kilocoderules .kilocoderules-*"),
    Known("Kilo Code", "prompts", ".kilocode/workflows/**/*.md"),
    Known("Kilo Code", "rules", ".kilocode/**/*.md"),
    Known("Kilo Code", "agents", ".kilocodemodes"),
    Known("Kilo Code", "mcp", ".kilocode/mcp.json"),
    Known("Zed", "instructions", ".rules"),
    Known("Zed", "settings", ".zed/settings.json"),
    Known("Junie", "instructions", ".junie/guidelines.md .junie/AGENTS.md"),
    Known("Junie", "rules", ".junie/guidelines/**/*.md"),
    Known("Junie", "skills", ".junie/skills/**/SKILL.md"),
    Known("Junie", "mcp", ".junie/mcp/mcp.json"),
    Known("JetBrains AI Assistant", "rules", ".aiassistant/rules/**/*.md"),
    Known("Kiro", "rules", ".kiro/steering/**/*.md"),
    Known("Kiro", "agents", ".kiro/agents/**/*.json .kiro/agents/**/*.md"),
    Known("Kiro", "mcp", ".kiro/settings/mcp.json"),
    Known("Amazon Q", "instructions", "AmazonQ.md"),
    Known("Amazon Q", "rules", ".amazonq/rules/**/*.md"),
    Known("Amazon Q", "agents", ".amazonq/cli-agents/*.json"),
    Known("Amazon Q", "mcp", ".amazonq/mcp.json .amazonq/default.json"),
    Known("Augment", "instructions", ".augment-guidelines"),
    Known("Augment", "rules", ".augment/rules/**/*.md"),
    Known("Augment", "prompts", ".augment/commands/**/*.md"),
    Known("Continue", "instructions", ".continuerules"),
    Known("Continue", "rules", ".continue/rules/**/*.md"),
    Known("Continue", "prompts", ".continue/prompts/**/*.md .continue/prompts/**/*.prompt"),
    Known("Continue", "mcp", ".continue/mcpServers/*.yaml .continue/mcpServers/*.json"),
    Known("aider", "instructions", "CONVENTIONS.md"),
    Known("aider", "settings", ".aider.conf.yml"),
    Known("Goose", "instructions", ".goosehints"),
    Known("OpenHands", "instructions", ".openhands_instructions"),
    Known("OpenHands", "rules", ".openhands/microagents/**/*.md"),
    Known("OpenHands", "skills", ".openhands/skills/**/*.md"),
    Known("Trae", "rules", ".trae/rules/**/*.md"),
    Known("Trae", "mcp", ".trae/mcp.json"),
    Known("Warp", "instructions", "WARP.md"),
    Known("Qwen Code", "instructions", "QWEN.md"),
    Known("Qwen Code", "prompts", ".qwen/commands/**/*.toml .qwen/commands/**/*.md"),
    Known("Qwen Code", "settings", ".qwen/settings.json"),
    Known("Crush", "instructions", "CRUSH.md Crush.md crush.md CRUSH.local.md"),
    Known("Crush", "settings", ".crush.json crush.json"),
    Known("Firebase Studio", "instructions", ".idx/airules.md"),
    Known("Firebase Studio", "mcp", ".idx/mcp.json"),
    Known("Firebase Studio", "settings", ".idx/dev.nix"),
    Known("Firebender", "settings", "firebender.json"),
    Known("Replit", "instructions", "replit.md"),
    Known("Replit", "settings", ".replit"),
    Known("opencode", "prompts", ".opencode/command/**/*.md .opencode/commands/**/*.md"),
    Known("opencode", "agents", ".opencode/agent/**/*.md .opencode/agents/**/*.md"),
    Known("opencode", "skills", ".opencode/skill/**/SKILL.md .opencode/skills/**/SKILL.md"),
    Known("opencode", "settings", "opencode.json opencode.jsonc .opencode/opencode.json .opencode/opencode.jsonc"),
    Known("Tabnine", "rules", ".tabnine/guidelines/**/*.md"),
    Known("Tabnine", "mcp", ".tabnine/mcp_servers.json"),
    Known("Void", "instructions", ".voidrules"),
    Known("Google Antigravity", "rules", ".agent/rules/**/*.md"),
    Known("Google Antigravity", "prompts", ".agent/workflows/**/*.md"),
    Known("Google Antigravity", "skills", ".agent/skills/**/SKILL.md"),
    Known("Factory Droid", "prompts", ".factory/commands/**/*.md"),
    Known("Factory Droid", "agents", ".factory/droids/**/*.md"),
    Known("Factory Droid", "skills", ".factory/skills/**/SKILL.md"),
    Known("Factory Droid", "mcp", ".factory/mcp.json"),
    Known("Mistral Vibe", "settings", ".vibe/config.toml"),
    Known("Rovo Dev", "instructions", ".agent.md .agent.local.md"),
    Known("GitLab Duo", "rules", "/.gitlab/duo/chat-rules.md /.gitlab/duo/mr-review-instructions.yaml"),
    Known("GitLab Duo", "mcp", "/.gitlab/duo/mcp.json"),
    Known("CodeBuddy", "instructions", "CODEBUDDY.md"),
    Known("CodeBuddy", "rules", ".codebuddy/rules/**/*.md .codebuddy/rules/**/*.mdc"),
    Known("Qoder", "rules", ".qoder/rules/**/*.md"),
    Known("Lingma", "rules", ".lingma/rules/**/*.md"),
    Known("Zencoder", "rules", ".zencoder/rules/**/*.md"),
    Known("Sourcegraph", "rules", ".sourcegraph/**/*.rule.md"),
    Known("Ruler", "rules", ".ruler/**/*.md"),
    Known("Ruler", "settings", ".ruler/ruler.toml"),
    Known("Rulesync", "rules", ".rulesync/rules/**/*.md"),
    Known("Rulesync", "mcp", ".rulesync/mcp.json .rulesync/.mcp.json"),
    Known("Qodo", "rules", "/best_practices.md"),
    Known("Qodo", "settings", "/.pr_agent.toml"),
    Known("CodeRabbit", "settings", "/.coderabbit.yaml"),
    Known("MCP", "mcp", ".mcp.json"),
    Known("VS Code", "mcp", ".vscode/mcp.json"),
    Known("JavaScript", "manifest", "package.json pnpm-workspace.yaml lerna.json nx.json turbo.json rush.json"),
    Known("Deno", "manifest", "deno.json deno.jsonc"),
    Known("Python", "manifest", "pyproject.toml setup.py setup.cfg requirements.txt requirements-*.txt Pipfile"),
    Known("Python", "manifest", "environment.yml tox.ini noxfile.py"),
    Known("Rust", "manifest", "Cargo.toml rust-toolchain.toml"),
    Known("Go", "manifest", "go.mod go.work"),
    Known("Java", "manifest", "pom.xml"),
    Known("Gradle", "manifest", "build.gradle build.gradle.kts settings.gradle settings.gradle.kts"),
    Known("Scala", "manifest", "build.sbt build.sc build.mill"),
    Known("Clojure", "manifest", "project.clj deps.edn"),
    Known("Ruby", "manifest", "Gemfile *.gemspec Rakefile"),
    Known("PHP", "manifest", "composer.json"),
    Known("Elixir", "manifest", "mix.exs"),
    Known("Erlang", "manifest", "rebar.config"),
    Known("Gleam", "manifest", "gleam.toml"),
    Known(".NET", "manifest", "*.csproj *.fsproj *.vbproj *.sln *.slnx Directory.Build.props global.json"),
    Known("Swift", "manifest", "Package.swift Podfile *.podspec"),
    Known("Dart", "manifest", "pubspec.yaml melos.yaml"),
    Known("Haskell", "manifest", "*.cabal cabal.project stack.yaml"),
    Known("OCaml", "manifest", "dune-project *.opam"),
    Known("R", "manifest", "DESCRIPTION"),
    Known("Julia", "manifest", "Project.toml"),
    Known("Zig", "manifest", "build.zig build.zig.zon"),
    Known("Crystal", "manifest", "shard.yml"),
    Known("Nim", "manifest", "*.nimble"),
    Known("Elm", "manifest", "elm.json"),
    Known("Perl", "manifest", "cpanfile Makefile.PL"),
    Known("Lua", "manifest", "*.rockspec"),
    Known("C and C++", "manifest", "CMakeLists.txt meson.build configure.ac conanfile.txt conanfile.py vcpkg.json"),
    Known("Bazel", "manifest", "MODULE.bazel /WORKSPACE"),
    Known("Nix", "manifest", "flake.nix shell.nix"),
    Known("Make", "manifest", "Makefile makefile GNUmakefile"),
    Known("just", "manifest", "justfile Justfile .justfile"),
    Known("Task", "manifest", "Taskfile.yml Taskfile.yaml"),
    Known("mise", "manifest", "mise.toml .mise.toml .tool-versions"),
    Known("containers", "manifest", "Dockerfile Dockerfile.* *.Dockerfile Containerfile"),
    Known("containers", "manifest", "compose.yaml compose.yml docker-compose.yml docker-compose.yaml"),
    Known("development container", "manifest", ".devcontainer/**/devcontainer.json .devcontainer.json"),
    Known("processes", "manifest", "Procfile"),
    Known("README", "readme", "README* Readme* readme readme.*"),
    Known("contributing", "guide", "CONTRIBUTING* contributing.md HACKING* DEVELOPMENT.md ARCHITECTURE.md"),
    Known("pull requests", "guide", "/.github/PULL_REQUEST_TEMPLATE.md /.github/pull_request_template.md"),
    Known("GitHub Actions", "ci", "/.github/workflows/*.yml /.github/workflows/*.yaml"),
    Known("GitLab CI", "ci", "/.gitlab-ci.yml /.gitlab/ci/**/*.yml"),
    Known("CircleCI", "ci", "/.circleci/config.yml"),
    Known("Azure Pipelines", "ci", "/azure-pipelines.yml /azure-pipelines.yaml /.azure-pipelines/**/*.yml"),
    Known("Jenkins", "ci", "Jenkinsfile"),
    Known("Buildkite", "ci", "/.buildkite/**/*.yml /.buildkite/**/*.yaml"),
    Known("Bitbucket Pipelines", "ci", "/bitbucket-pipelines.yml"),
    Known("Drone", "ci", "/.drone.yml"),
    Known("Woodpecker", "ci", "/.woodpecker.yml /.woodpecker/**/*.yml /.woodpecker/**/*.yaml"),
    Known("Forgejo Actions", "ci", "/.forgejo/workflows/*.yml /.forgejo/workflows/*.yaml"),
    Known("Gitea Actions", "ci", "/.gitea/workflows/*.yml /.gitea/workflows/*.yaml"),
    Known("Travis CI", "ci", "/.travis.yml"),
    Known("AppVeyor", "ci", "/appveyor.yml /.appveyor.yml"),
    Known("Cirrus CI", "ci", "/.cirrus.yml"),
    Known("Google Cloud Build", "ci", "/cloudbuild.yaml"),
    Known("pre-commit", "settings", "/.pre-commit-config.yaml /lefthook.yml"),
    Known("EditorConfig", "settings", ".editorconfig"),
)
"""Where two rows fit, the first one counts."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A pattern taken apart. ``folder`` has slashes on both ends; ``order`` is its place in the table."""

    order: int
    known: Known
    folder: str
    anchored: bool
    deep: bool
    start: str
    end: str

    def fits(self, folder: str, name: str) -> bool:
        if not (name.startswith(self.start) and name.endswith(self.end)):
            return False
        if self.anchored:
            return folder.startswith(self.folder) if self.deep else folder == self.folder
        return self.folder in folder if self.deep else folder.endswith(self.folder)


@dataclass(frozen=True, slots=True)
class NameIndex:
    """The table by the last name of its patterns, so that a name is compared with few of them."""

    places: dict[str, tuple[_Place, ...]]

    def find(self, folder: str, name: str) -> Known | None:
        """The row that fits the file ``name`` in ``folder`` (relative to the scan's root, slashes, empty for it)."""
        slashed = f"/{folder}/" if folder else "/"
        keys = (name, _ending_key(name), "*")
        fitting = [place for key in keys for place in self.places.get(key, ()) if place.fits(slashed, name)]
        return min(fitting, key=lambda place: place.order).known if fitting else None


def name_index(rows: tuple[Known, ...] = NAMES) -> NameIndex:
    places: dict[str, tuple[_Place, ...]] = {}
    for order, known in enumerate(rows):
        for key, place in _places(order, known):
            places[key] = (*places.get(key, ()), place)
    return NameIndex(places)


def _places(order: int, known: Known) -> Iterator[tuple[str, _Place]]:
    for pattern in known.patterns.split():
        folder, _, last = pattern.rpartition("/")
        above = folder.removesuffix("**").strip("/")
        start, star, end = last.partition("*")
        place = _Place(
            order,
            known,
            folder=f"/{above}/" if above else "/",
            anchored=pattern.startswith("/"),
            deep=folder.endswith("**"),
            start=start,
            end=end if star else last,
        )
        yield (_ending_key(end) if "." in end else star or last), place


def _ending_key(name: str) -> str:
    return "*." + name.rpartition(".")[2]
