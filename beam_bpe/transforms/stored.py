"""Steps that open files: what they open them with, and whose run they are of, comes along to the workers."""

from typing import Any, Callable, Dict, Iterator

import apache_beam as beam

from beam_bpe import storage, stores


class StoredDoFn(beam.DoFn):
    """A DoFn whose workers open stores with the storage options of the process that submitted it, and write for its run.

    The options travel as they were given: names of environment variables, not what these hold. Temporaries of all
    workers carry the id of the one run, so that its last step can sweep what killed ones left.
    """

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_storage_options": stores.current_options(), "_run": storage.run_id()}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        stores.storage_options(state["_storage_options"])
        storage.join_run(state["_run"])
        self.__dict__.update(state)


class StoredMap(StoredDoFn):
    """Yield what a function makes of each element, as beam.Map does."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function

    def process(self, element: Any, *arguments: Any) -> Iterator[Any]:
        yield self._function(element, *arguments)
