"""Which store a url leads to, with which options, and how its errors are told: credentials stand in none of them.

Options are those of fsspec's file systems. Where one is secret its *name* in the environment is given (`env:NAME`), so
that what travels to workers, and what is written anywhere, holds no value; each process looks it up for itself.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

ENVIRONMENT = "env:"
_SECRET = re.compile(
    r"key|secret|token|pass|pwd|credential|connection_?string|auth|cookie|signature$|(?:^|[_-])(?:sas|sig)(?:$|[_-])", re.I
)
_METHODS = {"anon", "browser", "cache", "cloud", "google_default"}  # what gcsfs takes for a token and is none
_USERINFO = re.compile(r"(?<=://)(?!arn:)[^/@\s:]*:(?!\d+(?:/|$))(?:(?!://)[^@\s])*@")  # a host:port is none
_QUERY = re.compile(r"(?<=[?&])([^=&#\s]+)=[^&#\s]+")
_WITHOUT = {"", "file", "local", "memory", "zip", "tar", "simplecache", "filecache", "blockcache"}  # no options of ours
_CODES = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, FileExistsError: errno.EEXIST,
          IsADirectoryError: errno.EISDIR, NotADirectoryError: errno.ENOTDIR}
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}
_options: dict[str, Any] = {}


def storage_options(options: Mapping[str, Any]) -> None:
    """Set the options of all stores, for this process and for the workers of the pipelines that are built from now on.

    Args:
        options: by name. A dotted name reaches into a mapping (`client_kwargs.region_name`), a protocol before a colon
            keeps it to the stores of that one (`s3:endpoint_url`). `env:NAME` stands for the value that the environment
            variable NAME has where the store is opened.

    Raises:
        ValueError: an option that names a secret is given as it is.

    >>> storage_options({"endpoint_url": "http://127.0.0.1:9000", "key": "env:MY_KEY", "secret": "env:MY_SECRET"})
    >>> storage_options({"secret": "abc"})
    Traceback (most recent call last):
    ValueError: the storage option 'secret' is secret: put its value into an environment variable and give secret=env:NAME
    >>> storage_options({})
    """
    if not isinstance(options, Mapping):
        raise TypeError(f"storage options are a mapping from names to values, not {options!r:.80}")
    for name, value in options.items():
        if not isinstance(name, str) or not re.fullmatch(r"(?:\w+:)?\w[\w-]*(?:\.\w[\w-]*)*", name):
            raise ValueError(f"the storage option {name!r} has no name as KEY, KEY.KEY or PROTOCOL:KEY")
        _check(name, name.rpartition(":")[2].split("."), value)
    global _options
    _options = dict(options)  # at once: other threads may be opening files


def current_options() -> dict[str, Any]:
    """Return the options as they were given, without the values of environment variables."""
    return dict(_options)


def parse_options(given: list[str]) -> dict[str, Any]:
    """Return the options of a command line, each KEY=VALUE; a value may be JSON, or else is text.

    >>> parse_options(["anon=true", "client_kwargs.region_name=eu-north-1", "config_kwargs={\\"max_pool_connections\\": 5}"])
    {'anon': True, 'client_kwargs.region_name': 'eu-north-1', 'config_kwargs': {'max_pool_connections': 5}}
    """
    options: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise ValueError("a storage option is KEY=VALUE, such as endpoint_url=http://127.0.0.1:9000 or key=env:NAME"
                             + ("" if equals else f"; {name!r} has no ="))
        if name in options:
            raise ValueError(f"the storage option {name!r} is given twice")
        try:
            options[name] = json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
        except ValueError as error:
            if text[:1] in ("{", "["):
                raise ValueError(f"the value of the storage option {name!r} begins as JSON, but is none: {error}") from None
            options[name] = text
    return options


def _check(name: str, path: list[str], value: Any) -> None:
    if isinstance(value, Mapping):
        for inner, one in value.items():
            _check(name, [*path, str(inner)], one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _check(name, path, one)
    elif isinstance(value, str) and value.startswith(ENVIRONMENT):
        if not re.fullmatch(r"\w+", value[len(ENVIRONMENT):]):
            raise ValueError(f"the storage option {name!r} is {value!r}: behind env: stands the name of a variable")
    elif value is not None and not isinstance(value, bool) and not (path[-1] == "token" and value in _METHODS):
        if any(map(_SECRET.search, path)) or isinstance(value, str) and redacted(value) != value:
            where = ".".join(path)
            raise ValueError(f"the storage option {where!r} is secret: put its value into an environment variable and "
                             f"give {where}=env:NAME")


def _options_of(protocol: str) -> dict[str, Any]:
    """Return the options of the stores of a protocol, as fsspec takes them."""
    found: dict[str, Any] = {}
    for name, value in _options.items():
        only, _, dotted = name.rpartition(":")
        if only not in ("", protocol):
            continue
        *outer, last = dotted.split(".")
        place = found
        for part in outer:
            place = place.setdefault(part, {})
        value = _resolved(name, value)
        if isinstance(value, dict) and isinstance(place.get(last), dict):
            place[last].update(value)
        else:
            place[last] = value
    return found


def _resolved(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: _resolved(name, one) for inner, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_resolved(name, one) for one in value]
    if not isinstance(value, str) or not value.startswith(ENVIRONMENT):
        return value
    variable = value[len(ENVIRONMENT):]
    if variable not in os.environ:
        raise OSError(f"the storage option {name}={value}: there is no environment variable {variable} here; set it "
                         "for the submitting process and for the workers")
    return os.environ[variable]


def redacted(text: str) -> str:
    """Return a text without the credentials of urls in it, and without the values of secret options.

    >>> redacted("no s3://key:secret@bucket/x, no https://host/x?sig=abc&part=1")
    'no s3://***@bucket/x, no https://host/x?sig=***&part=1'
    """
    for value in _values(list(_options.values())):
        text = text.replace(value, "***")
    if "@" in text:
        text = _USERINFO.sub("***@", text)
    if "://" in text and "=" in text:
        text = _QUERY.sub(lambda one: f"{one[1]}=***" if _SECRET.search(one[1]) else one[0], text)
    return text


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _values(one)
    elif isinstance(value, str) and value.startswith(ENVIRONMENT):
        found = os.environ.get(value[len(ENVIRONMENT):], "")
        if len(found) >= 4:  # shorter ones stand in any text
            yield found


def refuse_credentials(url: str) -> None:
    """Raise OSError for a url that holds credentials, before it is written anywhere.

    >>> refuse_credentials("s3://bucket/folder")
    """
    for link in url.split("::") if "://" in url else ():
        if _USERINFO.search(link) or link.startswith("http") and redacted(link) != link:
            raise OSError(f"{redacted(url)}: the URL holds credentials, which would be written into artifacts and logs: "
                          "give them by storage options, as --storage-option KEY=env:NAME")


def locate(url: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return (fsspec filesystem, path in it), or (None, absolute path) for local files.

    Raises:
        OSError: the url holds credentials, which would be written into artifacts and logs; or its store refuses the
            options, or an environment variable that they name is not there.
    """
    url = os.fspath(url)
    if not url:
        raise ValueError("an empty string is no path or URL")
    if "://" not in url:  # before fsspec sees it: "::" in a local name is no chain
        return None, os.path.abspath(os.path.expanduser(url))
    refuse_credentials(url)
    links = {link.partition("://")[0] for link in url.split("::") if "://" in link} - _WITHOUT
    options = {link: found for link in sorted(links) if (found := _options_of(link))}
    try:
        store, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as exc:
        extra = next((f": pip install 'beam_bpe[{_EXTRAS[link]}]'" for link in sorted(links) if link in _EXTRAS), "")
        raise ImportError(f"{url}: {exc}{extra}") from exc  # fsspec's text names the package to install
    except (TypeError, ValueError) as exc:
        if not _may_be_options(url, exc):
            raise
        raise _told(url, exc) from _cause(exc)
    if isinstance(store, LocalFileSystem):
        return None, path
    store.invalidate_cache()  # others write here too: never answer from an earlier listing, of a folder above neither
    return store, path


def _may_be_options(url: str, error: Exception) -> bool:
    """Tell whether options may be the cause of what a store says about its arguments."""
    return bool(_options) and "://" in url and url not in str(error)


def _cause(error: Exception) -> Exception | None:
    """Return an error that others may see, in a traceback."""
    return error if redacted(str(error)) == str(error) else None


def _told(url: str, error: Exception) -> OSError:
    return OSError(f"{url}: {redacted(str(error))} (storage options: {', '.join(sorted(_options))})")


@contextmanager
def naming(url: str) -> Iterator[None]:
    """Let an OSError, or a driver's own exception, leave the block as an OSError that names the url."""
    try:
        yield
    except OSError as exc:
        if url in str(exc) and redacted(str(exc)) == str(exc):
            raise
        text = redacted(exc.strerror or str(exc) or type(exc).__name__)
        code = exc.errno or next((code for kind, code in _CODES.items() if isinstance(exc, kind)), None)
        if code is None:
            raise OSError(f"{url}: {text}") from _cause(exc)
        alone = text.strip("'/") in url or code == errno.ENOENT and " " not in text  # often a path and nothing else
        text = os.strerror(code) if not text or alone else text
        raise OSError(code, text, url) from _cause(exc)
    except (TypeError, ValueError) as exc:
        if not _may_be_options(url, exc):
            raise
        raise _told(url, exc) from _cause(exc)
    except Exception as exc:
        if url in str(exc) or type(exc).__module__ == "builtins" and not isinstance(exc, NotImplementedError):
            raise
        said = str(exc).partition("\n")[0]  # Azure's goes on for a page
        raise OSError(f"{url}: {type(exc).__name__}: {redacted(said)}") from _cause(exc)
