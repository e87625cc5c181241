"""A drawing as a browser shows it: its words are text, and its lines are as fine as a screen can show, so that it is small."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as Tree

import numpy as np

from reports.figures import _plots

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
STEP = 0.1  # of a point, one decimal in what is written: finer than a pixel of a screen
LEAST_SHARED = 60  # letters; a reference takes about twenty
TOLERANCE = 3.0  # steps by which a line may miss a point that it leaves out: less than half a pixel
STYLE = f"""
.drawing *{{stroke-linejoin:round;stroke-linecap:butt}}.drawing path{{fill:none}}
.drawing text{{font:7.5px "DejaVu Sans",Verdana,sans-serif;fill:{_plots.INK};text-anchor:middle;paint-order:stroke;stroke:#fff;
stroke-width:2px}}"""
IN_SHEET = {  # said once, by the style sheet of the page
    "text": ("font-family:", "font-size:7.5px", f"fill:{_plots.INK}", "text-anchor:middle"),
    "path": ("fill:none", "stroke-dashoffset:0"),
}
SHARED = re.compile(r"<(?:path|text) [^<>]*(?:/>|>[^<>]*</text>)")
COMMANDS = re.compile(r"([MLQCz])([^MLQCz]*)")

Part = tuple[str, list[tuple[int, int]]]  # a command of a path and its points, in steps of `STEP`

Box = tuple[int, int, int, int]  # left, top, right and bottom, in steps of `STEP`


def compact(svg: bytes, prefix: str) -> str:
    """Return a drawing of matplotlib that holds its text as text, without what no browser needs.

    Each marker becomes a line at its place, lines lose the points that no one could see, coordinates are written as the
    distance from the last; only the identifiers that are referred to stay, each behind `prefix`.
    """
    root = Tree.fromstring(svg)  # written by matplotlib a moment ago, so it is no hostile XML
    for parent in list(root.iter()):  # all of them first, since elements are removed on the way
        for child in [child for child in parent if child.tag in (f"{SVG}metadata", f"{SVG}style")]:
            parent.remove(child)
    marks = {item.get("id", ""): item.get("d", "") for item in root.iter(f"{SVG}path") if item.get("id")}
    clips = {item.get("id", ""): _box(item[0]) for item in root.iter(f"{SVG}clipPath")}
    source = _Source(marks=marks, clips=clips, prefix=prefix)
    picture = Tree.Element("svg", {"viewBox": root.get("viewBox", ""), "width": "100%", "class": "drawing"})
    picture.extend(_merge_paths(_flat(root, source)))
    drawing = Tree.tostring(picture, encoding="unicode")
    boxes = "".join(source.clip_path(name) for name in clips if f"url(#{prefix}{name})" in drawing)
    return drawing.removesuffix("</svg>") + boxes + "</svg>"


def shared(page: str) -> str:
    """Return the page with lines and words that are alike in several of its drawings written once and referred to."""
    places: dict[str, int] = {}
    copies = {text for text, times in Counter(SHARED.findall(page)).items() if times > 1 and len(text) > LEAST_SHARED}

    def reference(match: re.Match[str]) -> str:
        text = match.group()
        if text not in copies:
            return text
        if text in places:
            return f'<use href="#u{places[text]}"/>'
        places[text] = len(places)
        return text.replace(" ", f' id="u{places[text]}" ', 1)

    return SHARED.sub(reference, page)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What elements of a drawing refer to: paths of markers, boxes outside of which nothing is seen; before names, `prefix`."""

    marks: Mapping[str, str]
    clips: Mapping[str, Box]
    prefix: str

    def clip_path(self, name: str) -> str:
        """Return the definition of a box that cuts off what is outside of it."""
        first, top, right, bottom = self.clips[name]
        size = f'width="{_number(right - first)}" height="{_number(bottom - top)}"'
        return f'<clipPath id="{self.prefix}{name}"><rect x="{_number(first)}" y="{_number(top)}" {size}/></clipPath>'

    def cut(self, reference: str, parts: list[Part]) -> bool:
        """Return True if part of a path is outside of the box that it refers to."""
        first, top, right, bottom = self.clips[reference[5:-1]]
        points = [point for _, run in parts for point in run]
        # one step of tolerance: a line that ends on the frame is rounded beyond it, and needs no clip
        return not all(first - 1 <= x <= right + 1 and top - 1 <= y <= bottom + 1 for x, y in points)


def _flat(parent: Tree.Element, source: _Source) -> Iterator[Tree.Element]:
    """Yield what a drawing shows, in order, outside of the groups that only named it."""
    for item in parent:
        match item.tag.removeprefix(SVG):
            case "g" if set(item.keys()) <= {"id"}:
                inside = _flat(item, source)
                yield from _by_look(inside) if item.get("id", "").startswith("matplotlib.axis") else inside
            case "defs":
                continue
            case "path" | "use":
                yield _path(item, source)
            case name:
                full = _element(name, item)
                if "clip-path" in full.attrib:
                    full.set("clip-path", full.attrib["clip-path"].replace("url(#", f"url(#{source.prefix}"))
                full.text = item.text if name == "text" else None
                full.extend(_merge_paths(_flat(item, source)))
                yield full


def _path(item: Tree.Element, source: _Source) -> Tree.Element:
    """Return a line or an area; a marker as a line at its place."""
    path = _element("path", item)
    right, down = _steps(path.attrib.pop("x", "0")), _steps(path.attrib.pop("y", "0"))
    drawn = _parts(item.get("d") or source.marks[item.get(LINK, "")[1:]])
    parts = [(command, [(x + right, y + down) for x, y in points]) for command, points in drawn]
    reference = path.attrib.pop("clip-path", "")
    if reference and source.cut(reference, parts):
        path.set("clip-path", reference.replace("url(#", f"url(#{source.prefix}"))
    path.set("d", _round(parts) or _path_text(_thin(parts)))
    return path


def _round(parts: list[Part]) -> str:
    """Return a dot as two arcs, "" for any other path; matplotlib writes a circle as eight curves."""
    if "".join(command for command, _ in parts) not in ("MCCCCCCCCz", "MCCCCCCCC"):
        return ""
    across = [x for _, points in parts for x, _ in points]
    along = [y for _, points in parts for _, y in points]
    size, middle = max(across) - min(across), (min(along) + max(along)) // 2
    half = f"a{_number(size // 2)} {_number(size // 2)} 0 1 0"
    return f"M{_number(min(across))} {_number(middle)}{half} {_number(size)} 0{half} {_number(-size)} 0z"


def _box(shape: Tree.Element) -> Box:
    """Return left, top, right and bottom of what a clip path leaves to be seen."""
    first, top, width, height = (_steps(shape.get(key, "0")) for key in ("x", "y", "width", "height"))
    return first, top, first + width, top + height


def _element(name: str, item: Tree.Element) -> Tree.Element:
    """Return an element with the attributes that change what is seen."""
    attributes = {key: value for key, value in item.attrib.items() if key not in ("id", LINK)}
    for key in ("x", "y", "width", "height"):
        if key in attributes:
            attributes[key] = _number(_steps(attributes[key]))
    if "transform" in attributes:
        attributes["transform"] = _numbers(attributes["transform"])
        if attributes["transform"].startswith(("rotate(0 ", "rotate(-0 ")):
            del attributes["transform"]
    if "style" in attributes:
        rules = [[word.strip() for word in rule.split(":")] for rule in attributes["style"].split(";") if rule.strip()]
        texts = [f"{key}:{_numbers(value)}" for key, value in rules]
        if name == "text" and not any(text.startswith("text-anchor:") for text in texts):
            texts.append("text-anchor:start")
        kind = "path" if name == "use" else name
        different_rules = [text for text in texts if not text.startswith(IN_SHEET.get(kind, ("\n",)))]
        attributes["style"] = ";".join(different_rules)
    if not attributes.get("style", "left out"):
        del attributes["style"]
    return Tree.Element(name, attributes)


def _look(item: Tree.Element) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return tag and attributes of an element, except those of its place."""
    return item.tag, tuple(
        sorted((key, value) for key, value in item.attrib.items() if key not in ("d", "x", "y", "transform"))
    )


def _by_look(items: Iterable[Tree.Element]) -> list[Tree.Element]:
    """Return grid, ticks and words of one axis, those of one look behind each other; they cover nothing of each other."""
    elements = list(items)
    order = list(dict.fromkeys(_look(item) for item in elements))
    return sorted(elements, key=lambda item: order.index(_look(item)))


def _merge_paths(items: Iterable[Tree.Element]) -> Iterator[Tree.Element]:
    """Yield the elements, paths of one look that follow each other as one path; see-through ones stay apart."""
    last: Tree.Element | None = None
    for item in items:
        clear = "opacity" not in item.get("style", "")
        if last is not None and item.tag == "path" and clear and _look(item) == _look(last):
            last.set("d", last.get("d", "") + item.get("d", ""))
            continue
        if last is not None:
            yield last
        last = item
    if last is not None:
        yield last


def _parts(path: str) -> list[Part]:
    parts = []
    for command, values in COMMANDS.findall(path):
        numbers = [_steps(value) for value in values.split()]
        parts.append((command, list(zip(numbers[::2], numbers[1::2], strict=True))))
    return parts


def _thin(parts: list[Part]) -> list[Part]:
    """Return the path without the corners that no one could see."""
    path: list[Part] = []
    line: list[tuple[int, int]] = []
    for command, points in [*parts, ("", [])]:
        if command == "L" and line:
            line += points
            continue
        path += [("L", [point]) for point in _corners(line)[1:]]
        path += [(command, points)] if command else []
        line = points[-1:]
    return path


def _corners(line: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the fewest points with lines that pass within `TOLERANCE` of all others (Douglas and Peucker, 1973)."""
    if len(line) < 3:
        return line
    points = np.array(line, dtype=np.float64)
    keep = {0, len(line) - 1}
    open_runs = [(0, len(line) - 1)]  # a stack, as a line may have more corners than Python allows calls inside calls
    while open_runs:
        first, last = open_runs.pop()
        if last - first < 2:
            continue
        along = points[last] - points[first]
        offset = points[first + 1 : last] - points[first]
        # at least 1 below the line, since a closed run ends where it begins
        share = np.clip(offset @ along / max(float(along @ along), 1.0), 0.0, 1.0)
        distance = np.hypot(*(offset - share[:, None] * along).T)
        if distance.max() > TOLERANCE:
            middle = first + 1 + int(distance.argmax())
            keep.add(middle)
            open_runs += [(first, middle), (middle, last)]
    return [line[place] for place in sorted(keep)]


def _path_text(parts: list[Part]) -> str:
    """Return the path as text: where it begins, then each point from the last."""
    text, (x, y) = "", (0, 0)
    for command, points in parts:
        if command == "M":
            x, y = points[0]
            text += f"M{_number(x)} {_number(y)}"
        elif command == "z":
            text += "z"
        else:
            moves = [(a - x, b - y) for a, b in points]  # all points of a curve count from where its command begins
            x, y = points[-1]
            text += _move_text(command.lower(), moves)
    return text


def _move_text(command: str, moves: list[tuple[int, int]]) -> str:
    if command == "l" and 0 in moves[0]:
        (right, down) = moves[0]
        return f"v{_number(down)}" if right == 0 else f"h{_number(right)}"
    return command + "".join(_pair(move, first=place == 0) for place, move in enumerate(moves))


def _pair(move: tuple[int, int], first: bool) -> str:
    lhs, right = _number(move[0]), _number(move[1])
    # a minus sign separates two numbers as well as a space
    return ("" if first or lhs.startswith("-") else " ") + lhs + ("" if right.startswith("-") else " ") + right


def _steps(value: str) -> int:
    return round(float(value) / STEP)


def _number(steps: int) -> str:
    full, tenth = divmod(abs(steps), 10)
    return ("-" if steps < 0 else "") + (str(full) if full or not tenth else "") + (f".{tenth}" if tenth else "")


def _numbers(text: str) -> str:
    """Return the text with its decimal numbers to a tenth."""
    return re.sub(r"-?\d+\.\d\d+", lambda number: _number(_steps(number.group())), text)
