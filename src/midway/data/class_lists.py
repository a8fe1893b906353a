"""Which logit each class of a folder belongs to: by names, indices, a file, or a published list of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from midway._files import parse_json, read_text
from midway._suggest import unknown

LISTS = Path(__file__).parent / "classes"

MAX_CLASSES = 1_000_000
"""More than the largest classifiers have: a wrong digit in a list must not ask for memory without end."""

Classes = str | Path | Sequence[str] | Sequence[int] | Mapping[str, int]
"""Names in the order of the logits, an index for each class folder, ``{folder: index}``, a file, or a list's name."""


@dataclass(frozen=True)
class Labels:
    """The labels of class folders.

    Attributes:
        names: The name of each class; a label is an index into it.
        labels: Class folder -> its label.
        logits: The logits that belong to the classes, if the network is to be limited to them; else None.
        indexed: The labels are indices of logits; False if they count names, which must then be those of all logits.
    """

    names: tuple[str, ...]
    labels: dict[str, int]
    logits: tuple[int, ...] | None = None
    indexed: bool = False


def class_lists() -> tuple[str, ...]:
    """Return the names of the lists of classes in the package.

    Example:
        >>> from midway.data import class_lists
        >>> class_lists()
        ('imagenet', 'imagenet-a', 'imagenet-d109', 'imagenet-r')
    """
    return tuple(sorted(path.stem for path in LISTS.glob("*.txt")))


def class_indices(name: str) -> dict[str, int]:
    """Return the classes of a list in the package with the indices of their logits.

    Args:
        name: One of ``class_lists()``. The classes of ImageNet, ImageNet-R and ImageNet-A are WordNet IDs.

    Example:
        >>> from midway.data import class_indices
        >>> class_indices("imagenet-r")["n01443537"], class_indices("imagenet-d109")["zebra"]
        (1, 340)
    """
    if name not in class_lists():
        raise ValueError(unknown("list of classes", name, class_lists()))
    return dict(_read_list(name))


@cache
def _read_list(name: str) -> dict[str, int]:
    parsed = _pairs(_read_lines(LISTS / f"{name}.txt"))
    return {each: index for index, each in enumerate(parsed)} if isinstance(parsed, tuple) else parsed


def plain_classes(classes: Classes) -> str | tuple[str, ...] | tuple[int, ...]:
    """Return classes as plain values: the name of a list, names, indices, or texts ``"folder=index"``.

    A file has one class per line, its name or its name and its index; lines that begin with # are comments. A JSON file
    has a list of names, ``{name: index}`` or ``{index: name}``, as ``imagenet_class_index.json`` does.

    Example:
        >>> from midway.data.class_lists import plain_classes
        >>> plain_classes({"cat": 281, "dog": 207}), plain_classes([3, 5])
        (('cat=281', 'dog=207'), (3, 5))
    """
    if isinstance(classes, str) and classes in class_lists():
        return classes
    if isinstance(classes, str) and classes.rpartition("=")[2].isdecimal() and "=" in classes:
        return (classes,)
    if isinstance(classes, str | Path):
        path = Path(classes).expanduser()
        if not path.is_file() and "," in str(classes):
            parts = [part.strip() for part in str(classes).split(",")]
            return plain_classes([int(part) for part in parts] if all(map(str.isdecimal, parts)) else parts)
        if not path.is_file():
            raise ValueError(f"{unknown('list of classes', str(classes), class_lists())} There is no such file either.")
        with _naming(path):
            content = _read_json(path) if path.suffix == ".json" else _pairs(_read_lines(path))
            if not content:
                raise ValueError(f"{path} has no classes: write one name per line, in the order of the logits.")
            return plain_classes(content)
    if isinstance(classes, Mapping):
        if not all(isinstance(index, int) for index in classes.values()):
            raise ValueError("classes must map each class folder to the index of its logit, such as {'cat': 281}.")
        return tuple([f"{name}={index}" for name, index in classes.items()])
    values: tuple[Any, ...] = tuple(classes)
    if not values or not (all(isinstance(each, str) for each in values) or all(_is_index(each) for each in values)):
        raise ValueError(f"classes must be names or indices of logits, 0 or more, got {list(values[:5])}.")
    if len(set(values)) < len(values):
        raise ValueError(f"classes names {next(each for each in values if values.count(each) > 1)!r} twice.")
    return values if isinstance(values[0], str) else tuple([int(each) for each in values])


def label_folders(folders: Iterable[str], classes: Classes | None, *, where: str) -> Labels:
    """Number class folders: in their order without ``classes``, else by them. ``where`` is for error messages.

    A subset of ImageNet (``"imagenet-r"``, ``"imagenet-a"``, ``"imagenet-d109"``) numbers its classes from 0 and also
    gives their logits: its published results are those of a network limited to these.
    """
    folders = tuple(folders)
    if classes is None:
        return Labels(folders, {folder: label for label, folder in enumerate(folders)})
    if isinstance(classes, Path) or (isinstance(classes, str) and classes not in class_lists()):
        with _naming(Path(classes)):
            return label_folders(folders, plain_classes(classes), where=where)
    plain = plain_classes(classes)
    if isinstance(plain, str):
        indices = class_indices(plain)
        names = tuple(indices)
        logits = None if list(indices.values()) == list(range(len(indices))) else tuple(indices.values())
        return Labels(names, _numbered(folders, names, where), logits)
    if isinstance(plain[0], int):
        if len(plain) != len(folders):
            raise ValueError(f"{where} has {len(folders)} class folders, but classes has {len(plain)} indices.")
        return _by_index(dict(zip(folders, map(int, plain), strict=True)))
    texts = [str(each) for each in plain]
    if all(text.rpartition("=")[2].isdecimal() and "=" in text for text in texts):
        indices = {text.rpartition("=")[0]: int(text.rpartition("=")[2]) for text in texts}
        _numbered(folders, tuple(indices), where)
        return _by_index({folder: indices[folder] for folder in folders} | indices)
    return Labels(tuple(texts), _numbered(folders, texts, where))


def _numbered(folders: Iterable[str], names: Sequence[str], where: str) -> dict[str, int]:
    number = {name: label for label, name in enumerate(names)}
    if unlisted := [folder for folder in folders if folder not in number]:
        some = [name[:60] for name in names[:20]]
        raise ValueError(f"{where}: {unknown('class folder', unlisted[0], some)} Correct the folder or classes=.")
    return {folder: number[folder] for folder in folders}


def _by_index(indices: dict[str, int]) -> Labels:
    """Label folders by the indices of their logits; classes in between, which have no folder, are called by number."""
    named = {index: folder for folder, index in indices.items()}
    if len(named) < len(indices):
        raise ValueError("classes gives two class folders the same index: give each its own.")
    if max(named) >= MAX_CLASSES:
        raise ValueError(f"classes gives a class folder the index {max(named):,}: no network has so many logits.")
    names = tuple([named.get(index, f"class {index}") for index in range(max(named) + 1)])
    return Labels(names, indices, indexed=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file with a list of classes in errors of its content."""
    try:
        yield
    except ValueError as error:
        if path.name in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error


def _is_index(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and int(value) >= 0


def _read_lines(path: Path) -> list[str]:
    lines = [line.strip() for line in read_text(path).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _pairs(lines: Sequence[str]) -> tuple[str, ...] | dict[str, int]:
    """Return the names on lines; name -> index if an integer follows every name after a blank or a comma."""
    split = [line.replace(",", " ").rsplit(maxsplit=1) for line in lines]
    if split and all(len(parts) == 2 and parts[1].isdecimal() for parts in split):
        return {parts[0].strip(): int(parts[1]) for parts in split}
    return tuple(lines)


def _read_json(path: Path) -> Any:
    text = read_text(path)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}).") from error
    if isinstance(content, dict) and content and all(key.isdecimal() for key in content):
        first = {int(key): value[0] if isinstance(value, list) and value else value for key, value in content.items()}
        if not all(isinstance(name, str) for name in first.values()):
            raise ValueError(f"{path} must have a name, or a list that begins with one, for each index.")
        return {name: index for index, name in first.items()}
    if not isinstance(content, list | dict):
        raise ValueError(f"{path} must be a list of names, or name -> index; it is {type(content).__name__}.")
    return content
