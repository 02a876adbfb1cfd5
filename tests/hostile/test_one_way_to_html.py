"""All HTML of the package passes one layer: texts of others cannot go around it, in a new view either."""

import ast
from collections.abc import Iterator
from pathlib import Path

import calibdask

PACKAGE = Path(calibdask.__file__).parent
TREES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
LAYER, WIDGETS = "markup.py", "explore/html_widgets.py"
EXPLORER = [name for name in TREES if name.startswith("explore/") and name != WIDGETS]
# These make HTML of files of the package.
FILES = {"render/html.py"}
# What the explorer uses of Panel: what it shows are texts, panes of other things, or no texts at all.
PANEL = {
    *(
        "Column",
        "FlexBox",
        "Row",
        "extension",
        "indicators.Progress",
        "io.hold",
        "pane.Bokeh",
        "pane.HoloViews",
        "serve",
    ),
    *("serve", "state.curdoc", "state.location", "state.onload", "state.on_session_destroyed"),
    *("widgets.Button", "widgets.CheckButtonGroup", "widgets.Checkbox", "widgets.FileDownload", "widgets.FloatInput"),
    *("widgets.RadioButtonGroup", "widgets.Select", "widgets.TextInput"),
}
MODULES = {"panel.io.resources.get_dist_path", "panel.template.VanillaTemplate"}
BOKEH = {
    *("ColumnDataSource", "CustomJSTransform", "FixedTicker", "GridBox", "HoverTool", "Span"),
    *("LogTicker", "NoOverlap", "NumberFormatter", "Range1d", "Scatter", "TapTool", "plotting", "gridplot", "column"),
    *("check_token_signature", "get_session_id", "BokehUserWarning"),
}


def dotted(node: ast.expr) -> str:
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "?")


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def imports(name: str) -> Iterator[str]:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_literal(node: ast.expr) -> bool:
    """Whether markup is written out in the source: f-strings, sums and names may hold anything."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_html_is_made_of_literals() -> None:
    for name in TREES.keys() - {LAYER, *FILES}:
        for called, node in calls(name):
            assert called not in ("Html", "Markup") or all(map(is_literal, node.args)), (
                f"{name}:{node.lineno}: Html expects a literal; put texts into it by .format(...)"
            )


def test_nothing_else_escapes_or_marks_texts_as_html() -> None:
    others = {"html", "html.escape", "markupsafe.Markup", "markupsafe.escape", "xml.sax.saxutils.escape"}
    for name in TREES.keys() - {LAYER}:
        assert not others & set(imports(name)), f"{name}: texts become HTML by calibdask.markup.Html"


def test_the_explorer_makes_only_widgets_that_show_texts() -> None:
    for name in EXPLORER:
        nodes = [node for node in ast.walk(TREES[name]) if isinstance(node, ast.Attribute)]
        used = {dotted(node).removeprefix("pn.") for node in nodes if dotted(node).startswith("pn.")}
        inner = {one for one in used if any(other.startswith(f"{one}.") for other in used)}
        unknown = {one for one in used - inner if not any(f"{one}.".startswith(f"{known}.") for known in PANEL)}
        assert unknown == set(), f"{name}: widgets that take HTML are made by {WIDGETS}"
        for module in imports(name):
            if module.startswith("panel."):
                assert module in MODULES, f"{name}: widgets that take HTML are made by {WIDGETS}"
            if module.startswith("bokeh"):
                assert module.rpartition(".")[2] in BOKEH, f"{name}: {module} may take HTML"


def test_code_that_browsers_run_is_constant() -> None:
    for name in (*EXPLORER, WIDGETS):
        for called, node in calls(name):
            for option in node.keywords:
                if option.arg in ("code", "func", "v_func", "template"):
                    is_constant = isinstance(option.value, ast.Name) and option.value.id.isupper()
                    assert is_constant or is_literal(option.value), f"{name}:{node.lineno}: {called} runs {option.arg}"


def test_values_of_tooltips_are_columns() -> None:
    # Texts in their place would be templates, and HTML.
    for name in TREES:
        for _, node in calls(name):
            for option in node.keywords:
                if option.arg in ("tooltips", "hover_tooltips"):
                    pairs = [part.elts for part in ast.walk(option.value) if isinstance(part, ast.Tuple)]
                    assert all(is_literal(value) for _, value in pairs), f"{name}:{node.lineno}"
