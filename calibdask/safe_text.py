"""Texts of others, such as names of columns and addresses of files, as messages, tables and pages may show them."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# What stands in the place of a credential.
HIDDEN = "***"
# Names of parameters whose values give access: signed addresses of the object stores, tokens, keys, passwords.
_SECRET = (
    r"(?:[\w.%-]*(?:signature|credential|token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|account[_-]?key"
    r"|private[_-]?key|auth(?:orization)?|accesskeyid|accessid|jwt|session[_-]?id)|x-(?:amz|goog|oss|cos|ms)-[\w-]+"
    r"|sig|key|pass|pwd|code|apikey|bearer|policy|key-pair-id)"
)
# `user:password@` with whatever signs a password has; a port is no password.
_USER = re.compile(r"(?<=://)(?:[^\s/?#@:]*:(?!\d+(?:[/?#]|$))(?:(?!://)[^\s@\"'<>])*@(?:[^\s/?#@]*@)*)")
# A user alone is a token where a web server asks for one; elsewhere it is a bucket, a container or a login.
_WEB_USER = re.compile(r"(?<=http://|ttps://)[^\s/?#@]+@")
_PARAMETER = re.compile(rf"(?<=[?&;#/,]){_SECRET}=[^\s&;#/,'\"<>]+", re.IGNORECASE)
# In a query a slash is a sign of the value, as in Base64.
_QUERY = re.compile(rf"(?<=[?&]){_SECRET}=[^\s&;#,'\"<>]+", re.IGNORECASE)
# Addresses, and the parameters of their queries and fragments.
_ADDRESS = re.compile(r"[a-z][\w+.-]*://[^\s'\"<>]+", re.IGNORECASE)
# A comma is a sign of the value, unless a text goes on behind it.
_ANY_PARAMETER = re.compile(r"(?<=[?&;#])([^\s=&;#]+)=([^\s&;#]*[^\s&;#,])")
# A web server may take a query that is no parameter for a key; elsewhere it is a sign of a pattern.
_OF_WEB = re.compile(r"(?:^|::)https?://", re.IGNORECASE)
_BARE_QUERY = re.compile(r"(?<=[?&;])[^\s=&;#]*[^\s=&;#,](?=,?(?:[&;#]|$))")
# Parameters that say which data, and how they are read; whatever else may give access is called.
_HARMLESS = {
    *("alt", "branch", "columns", "comp", "compression", "date", "day", "delimiter", "dl", "download"),
    *("encoding", "end", "expires", "export", "format", "generation", "header", "hour", "lang", "language"),
    *("limit", "month", "offset", "page", "part", "partnumber", "raw", "ref", "region", "restype"),
    *("rev", "revision", "se", "sep", "sheet", "snapshot", "sp", "spr", "sr", "st"),
    *("start", "sv", "table", "timeout", "tz", "version", "versionid", "year"),
}
_DIGEST_DIGITS = 8
_SURROGATE = re.compile("[\ud800-\udfff]")
# Labels are columns of tables and entries of legends, where longer ones hide everything else.
_LONGEST_LABEL, _SHOWN_OF_LONG = 1000, 20
# Folders that announce what follows them, as in `/token/abc`.
_FOLDER = re.compile(
    r"(?<=/)(?:access[_-]?token|token|secret|api[_-]?key|apikey|bearer|sas)/[^\s/?#'\"<>]+", re.IGNORECASE
)
# Tokens that are known by their looks: of JSON (JWT), GitHub, GitLab, Slack, Hugging Face, AWS.
_TOKEN = re.compile(
    r"\b(?:eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|hf_[A-Za-z0-9]{20,}|A(?:KI|SI)A[A-Z0-9]{12,})"
)


def without_credentials(text: str) -> str:
    """A text with the addresses in it, without what gives access to them, or may.

    User names with passwords, values of all parameters but those that are known to be harmless, and tokens in paths;
    everything else is as it was, so that an address still says which file it means.

    Examples
    --------
    >>> without_credentials("https://me:abc@host:80/rows.csv?X-Amz-Signature=12&part=3 is missing")
    'https://***@host:80/rows.csv?X-Amz-Signature=***&part=3 is missing'
    >>> without_credentials("abfs://container@account/rows.zarr?sig=a%2Bb")
    'abfs://container@account/rows.zarr?sig=***'
    """
    return _without_credentials(text, lambda _: HIDDEN)


def _without_credentials(text: str, unknown: Callable[[str], str]) -> str:
    """Mask the values of unknown parameters of an address."""
    if "://" not in text:
        return text
    text = _WEB_USER.sub(f"{HIDDEN}@", _USER.sub(f"{HIDDEN}@", text))
    for parameter in (_QUERY, _PARAMETER):
        text = parameter.sub(lambda found: f"{found[0].partition('=')[0]}={HIDDEN}", text)

    def harmless(address: re.Match[str]) -> str:
        masked = _ANY_PARAMETER.sub(lambda one: _visible_parameter(one[1], one[2], unknown), address[0])
        if not _OF_WEB.search(masked):
            return masked
        return _BARE_QUERY.sub(lambda one: _visible_value(one[0], one[0], unknown), masked)

    text = _ADDRESS.sub(harmless, text)
    text = _FOLDER.sub(lambda found: f"{found[0].partition('/')[0]}/{HIDDEN}", text)
    return _TOKEN.sub(HIDDEN, text)


def _visible_parameter(name: str, value: str, unknown: Callable[[str], str]) -> str:
    return f"{name}={_visible_value(name, value, unknown)}"


def _visible_value(name: str, value: str, unknown: Callable[[str], str]) -> str:
    return value if name.lower() in _HARMLESS or value.startswith(HIDDEN) else unknown(value)


def _digest(value: str) -> str:
    return HIDDEN + hashlib.sha256(value.encode()).hexdigest()[:_DIGEST_DIGITS]


def data_without_credentials(data: Any) -> Any:
    """Mask the addresses in all texts of nested lists and mappings.

    Values of parameters that may be credentials, but may say which data too, become digests.

    Examples
    --------
    >>> data_without_credentials({"rows": ["s3://key:secret@bucket/rows.zarr", 3]})
    {'rows': ['s3://***@bucket/rows.zarr', 3]}
    >>> data_without_credentials("https://host/rows.csv?id=1")
    'https://host/rows.csv?id=***6b86b273'
    """
    if isinstance(data, str):
        return _without_credentials(data, _digest)
    if isinstance(data, Mapping):
        return {name: data_without_credentials(value) for name, value in data.items()}
    return [*map(data_without_credentials, data)] if isinstance(data, list) else data


def visible(text: object) -> str:
    r"""A text in one line whose signs all show: what moves the cursor, colours or turns the direction is written out.

    Examples
    --------
    >>> visible("caf\xe9 \x1b[31mred\u202e\n")
    'café \\x1b[31mred\\u202e\\n'
    """
    words = str(text)
    if words.isprintable():
        return words
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in words)


def check_unicode(what: str, texts: Iterable[object], place: Callable[[int], str] = lambda position: "") -> None:
    r"""Raise ValueError for a text with a lone surrogate, half of a character, which no file and no page can hold.

    Parameters
    ----------
    what : str
        What the texts are, as the message begins.
    texts : iterable
        Whatever is no text is passed over.
    place : function, optional
        Where the text of a position is, such as " in row 3".

    Examples
    --------
    >>> check_unicode("by 'country'", ["be", "caf\xe9"])
    >>> check_unicode("by 'country'", ["be", "\ud800b"])
    Traceback (most recent call last):
    ValueError: by 'country' expects texts of whole characters, got '\ud800b' with a lone surrogate, which cannot be
    written as UTF-8; read the texts again in the encoding in which they were written.
    """
    for position, text in enumerate(texts):
        if isinstance(text, str) and not text.isascii() and _SURROGATE.search(text):
            raise ValueError(
                f"{what} expects texts of whole characters, got '{visible(text)}'{place(position)} with a lone "
                "surrogate, which cannot be written as UTF-8; read the texts again in the encoding in which they were "
                "written."
            )


def check_labels(what: str, texts: Iterable[object], place: Callable[[int], str] = lambda position: "") -> None:
    r"""Raise ValueError for a text that cannot be a label: `check_unicode`, or one that is too long for any table.

    Examples
    --------
    >>> check_labels("by 'country'", ["be", "caf\xe9"])
    >>> check_labels("by 'remark'", ["be", "long" * 1000])
    Traceback (most recent call last):
    ValueError: by 'remark' expects texts of at most 1,000 characters, got one of 4,000, 'longlonglonglonglong ...'; it
    is compared and printed whole: give a column of short labels, or a part of these texts.
    """
    texts = list(texts)
    check_unicode(what, texts, place)
    for position, text in enumerate(texts):
        if isinstance(text, str) and len(text) > _LONGEST_LABEL:
            raise ValueError(
                f"{what} expects texts of at most {_LONGEST_LABEL:,} characters, got one of {len(text):,}, "
                f"'{visible(text[:_SHOWN_OF_LONG])} ...'{place(position)}; it is compared and printed whole: give a "
                "column of short labels, or a part of these texts."
            )


def visible_lines(text: object) -> str:
    r"""`visible` for a text of several lines, such as a traceback.

    Examples
    --------
    >>> visible_lines("one\r\n\ttwo")
    'one\n    two'
    """
    words = str(text)
    if words.isprintable():
        return words
    return "\n".join(visible(line.rstrip("\r").expandtabs(4)) for line in words.split("\n"))


def listed(names: Iterable[object]) -> str:
    r"""Names between commas.

    Examples
    --------
    >>> listed(["a", 1, "b\x07"])
    'a, 1, b\\x07'
    """
    return ", ".join(map(visible, names))


def visible_address(url: str) -> str:
    """A path or an address as it may be shown and stored."""
    return visible(without_credentials(url))


def message(text: object) -> str:
    """A message of any origin, in one line."""
    return visible_address(" ".join(str(text).split()))
