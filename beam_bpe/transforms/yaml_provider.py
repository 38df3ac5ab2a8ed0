"""The transforms as Beam YAML takes them: ``python -m beam_bpe.transforms.yaml_provider`` prints the path of provider.yaml.

YAML knows paths and lists of text, where Python may give a Vocabulary or an id: so each transform has a factory
here whose parameters have types that Beam's schemas can tell, and whose docstring tells of these. Beam's own generator
makes the documentation: ``python -m apache_beam.yaml.generate_yaml_docs --provider_source_file=… --markdown_file=…``.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Union, get_args, get_type_hints

import apache_beam as beam

from beam_bpe import transforms
from beam_bpe.learning import Learning
from beam_bpe.transforms.encode import DEAD_LETTERS

#: The file to include in a pipeline.
PROVIDER = Path(__file__).with_name("provider.yaml")

_TYPES: Dict[str, Any] = {
    "vocabulary": str,
    "vocabularies": Sequence[str],
    "bos": Sequence[str],
    "eos": Sequence[str],
    "pad": Optional[str],
}
#: Types of which one has a schema.
_SCHEMAS: Dict[Any, Any] = {
    Union[str, Sequence[str]]: str,
    Optional[Union[str, Sequence[str]]]: Optional[str],
    Optional[Union[str, Sequence[Optional[str]]]]: Optional[str],
}
#: What the docstrings say of Python, and what they say of YAML instead.
_TOLD = {
    r"a path, glob, folder or URL, or a list of them\.": "a path, glob, folder or URL.",
    r"; a list of those of several\s+that count the same documents\.": ".",
    r", or of several a list, as long as that of patterns\.": ".",
    r"a Vocabulary, or the path of one in any": "the path of one, in any",
    r"the one that made the ids, or its path;": "the path of the one that made the ids;",
    r"vocabulary_options: .*": "pattern: of a vocabulary whose file does not tell it, such as a rank file: a name or a regex.\n"
    "    special_ids: special tokens and their ids, of such a vocabulary.",
    r"dead_letters: give (elements .*) to an output of their own\.": r"error_handling: an output for \1.",
    r"(?s)With dead_letters .*?otherwise fails?\.": "With error_handling, what cannot be done does not fail, but "
    "goes to an output of its own, as\nrows with `element` and `msg`.",
}


def _of_learning(named: Sequence[str]) -> List[inspect.Parameter]:
    """Return the attributes of `Learning` as parameters, without those that a transform names itself."""
    kinds = get_type_hints(Learning)
    found = []
    for one in fields(Learning):
        if one.name in named:
            continue
        kind = kinds[one.name]
        members = [member for member in get_args(kind) if member is not type(None)]
        if one.name == "character_coverage":  # a decimal number, which Python may also give as text or a fraction
            kind = float
        elif type(None) in get_args(kind):
            kind = Optional[Union[tuple(members)]]
        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        found.append(inspect.Parameter(one.name, keyword, default=one.default, annotation=kind))
    return found


def _told_of_learning(named: Sequence[str]) -> str:
    """Return what the docstring of `Learning` says of these attributes, as arguments."""
    attributes = (inspect.getdoc(Learning) or "").partition("Attributes:\n")[2].partition("\n\nRaises:")[0]
    entries = re.split(r"\n(?=    \w)", attributes)
    return "\n".join(entry for entry in entries if entry.split(":")[0].strip() not in named)


class _WithErrors(beam.PTransform):
    """Encode or Decode with the elements that fail in an output of YAML's kind."""

    def __init__(self, transform: beam.PTransform, main: str, output: str):
        super().__init__()
        self._transform, self._main, self._output = transform, main, output

    def expand(self, documents):
        found = documents | self._transform
        failed = found[DEAD_LETTERS] | "Errors" >> beam.Map(lambda pair: beam.Row(element=pair[0], msg=pair[1]))
        return {self._main: found[self._main], self._output: failed}


def _factory(transform: Callable[..., beam.PTransform], main: Optional[str] = None) -> Callable[..., beam.PTransform]:
    """Return a function that makes the transform, with the parameters of YAML.

    Args:
        transform: its class.
        main: the name of its output, of which what fails can be parted.
    """
    own = transform.__init__ is not beam.PTransform.__init__
    parameters: List[inspect.Parameter] = []
    named: List[str] = []
    for name, parameter in inspect.signature(transform).parameters.items() if own else ():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named = [one.name for one in parameters]
            parameters += _of_learning(named)
            continue
        if name == "vocabulary_options":
            more = {"pattern": Optional[str], "special_ids": Optional[Dict[str, int]]}
        elif name == "dead_letters" and main:
            more = {"error_handling": Optional[Dict[str, str]]}
        else:
            kind = _TYPES.get(name, parameter.annotation)
            parameters.append(parameter.replace(annotation=_SCHEMAS.get(kind, kind)))
            continue
        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters += [inspect.Parameter(key, keyword, default=None, annotation=kind) for key, kind in more.items()]
    taken = {parameter.name for parameter in parameters}

    def make(**given: Any) -> beam.PTransform:
        if "special_ids" in taken:
            options = {"special_tokens": given.pop("special_ids", None), "pattern": given.pop("pattern", None)}
            given["vocabulary_options"] = {name: value for name, value in options.items() if value is not None}
        failed = given.pop("error_handling", None) if main else None
        if not failed:
            return transform(**given)
        if set(failed) != {"output"}:
            raise ValueError(f"error_handling={failed!r}: give it `output`, the name of the output of what fails, alone")
        return _WithErrors(transform(**given, dead_letters=True), str(main), failed["output"])

    documentation = inspect.getdoc(transform) or ""
    for python, told in _TOLD.items():
        documentation = re.sub(python, told, documentation)
    if named:  # options are the last argument
        documentation = re.sub(r"(?s)    options: .*", lambda _: _told_of_learning(named), documentation)
    make.__name__ = make.__qualname__ = transform.__name__
    make.__doc__ = documentation
    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    make._yaml_requires_inputs = transform not in _SOURCES  # type: ignore[attr-defined]
    return make


_SOURCES = (transforms.EncodeFiles, transforms.LearnVocabulary, transforms.ReadDocuments, transforms.ReadWords)

CountWords = _factory(transforms.CountWords)
Decode = _factory(transforms.Decode, "decoded")
Encode = _factory(transforms.Encode, "encoded")
EncodeFiles = _factory(transforms.EncodeFiles)
LearnVocabulary = _factory(transforms.LearnVocabulary)
MeasureTokens = _factory(transforms.MeasureTokens)
MergeWords = _factory(transforms.MergeWords)
ReadDocuments = _factory(transforms.ReadDocuments)
ReadWords = _factory(transforms.ReadWords)
TrainVocabulary = _factory(transforms.TrainVocabulary)
WordRows = _factory(transforms.WordRows)
WriteShards = _factory(transforms.WriteShards)
WriteStatistics = _factory(transforms.WriteStatistics)
WriteWindowedWords = _factory(transforms.WriteWindowedWords)
WriteWords = _factory(transforms.WriteWords)


if __name__ == "__main__":
    print(PROVIDER)
