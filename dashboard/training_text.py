"""Texts that visitors train on: each is held as long as the session that uploaded it holds it."""

import hashlib
import threading
import weakref
from functools import cached_property

from posenc.errors import CorpusError
from posenc.lab.corpus import Corpus, from_text, standard_library

KEY = r"text-[0-9a-f]{12}"


class TrainingText:
    """A text as bytes, with the name that every visitor sees of it. key: the same for equal texts."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content = content
        self.name = name
        self.key = f"text-{hashlib.sha256(name.encode() + content).hexdigest()[:12]}"

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus of this text. Raises CorpusError for what is no text, or too short."""
        return from_text(self.name, self.content)


_held: "weakref.WeakValueDictionary[str, TrainingText]" = weakref.WeakValueDictionary()
_lock = threading.Lock()


def hold(content: bytes, name: str) -> TrainingText:
    """Return the text that every page finds by its key for as long as the caller keeps it."""
    text = TrainingText(content, name)
    with _lock:
        return _held.setdefault(text.key, text)


def held(key: str) -> TrainingText:
    """Return the text of a key. Raises CorpusError where no session holds it any more."""
    text = _held.get(key)
    if text is None:
        raise CorpusError("This server does not hold the uploaded text any more. Upload it again.")
    return text


def corpus_of(key: str) -> Corpus:
    """Return the corpus of a key, "" for Python's sources. Raises CorpusError as `held` does."""
    return held(key).corpus if key else standard_library()
