r"""Web-server log formats: from raw line to fields, in one pass of Spark's own expressions.

Formats (Apache's `mod_log_config` names; nginx writes the same):

- `common`          `address ident user [time] "request" status bytes`
- `combined`        common, then ` "referrer" "user agent"`
- `vhost_combined`  `host[:port] `, then combined

One more quoted field may follow a combined line: nginx's example format `main` ends with the header
X-Forwarded-For. It is not read, since any client can send it.

Fields are found by splitting at quotes rather than by regular expressions, which is three times
as fast. Servers escape a quote inside a quoted field as `\"` and a backslash as `\\`; both are hidden
behind control characters before the split and restored after it, which is safe because a line that
holds raw control characters is turned away (servers write those as `\xHH`). `\xHH` stays as logged:
the bytes behind it need not be text.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FORMATS = ("common", "combined", "vhost_combined")

# Apache refuses request lines and headers over 8 KiB each, so a real line is far shorter than this.
MOST_BYTES = 65_536

_HIDDEN_BACKSLASH, _HIDDEN_QUOTE = "\x02", "\x01"
# All but the tab. One by one, Java looks each character up in a table; of ranges it makes a chain of calls.
_CONTROL_CHARACTERS = "[" + "".join(rf"\x{code:02X}" for code in (*range(9), *range(10, 32), 127)) + "]"
_ADDRESS = r"^[0-9A-Fa-f.]*[.:][0-9A-Fa-f:.]+$"
_MONTHS = "Jan01 Feb02 Mar03 Apr04 May05 Jun06 Jul07 Aug08 Sep09 Oct10 Nov11 Dec12 "
_TIME = r"^\d\d/[A-Z][a-z][a-z]/(?!9999)(19[7-9]\d|[2-9]\d{3}):\d\d:\d\d:\d\d [+-]\d{4}\z"
_METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH")
_PROTOCOLS = ("HTTP/1.1", "HTTP/2.0", "HTTP/1.0", "HTTP/3.0", "HTTP/2", "HTTP/3")


def parse(lines: DataFrame) -> DataFrame:
    """Adds the fields of each raw log line; nothing raises, what cannot be read is NULL.

    Takes `value` (binary, one line) and `format` (string, NULL to detect per line); keeps all columns.
    Adds `fits` (at most MOST_BYTES long), `utf8_ok`, `text_ok` (both, and no control characters),
    `well_formed` (the fields of a format are there), `host`,
    `client_ip`, `remote_user`, `event_time` (UTC), `method`, `path`, `query`, `protocol`, `status`,
    `bytes` (0 for "-"), `referrer`, `user_agent`. `method`, `path`, `query` and `protocol` are NULL
    for a request that is not HTTP.
    """
    return _fields(_columns_of_head(_quoted_parts(lines)))


def _quoted_parts(lines: DataFrame) -> DataFrame:
    line = F.col("value").cast("string")
    return (
        lines.withColumns({"fits": F.octet_length("value") <= MOST_BYTES, "utf8_ok": F.is_valid_utf8(line)})
        .withColumn("text_ok", F.col("fits") & F.col("utf8_ok") & ~line.rlike(_CONTROL_CHARACTERS))
        .withColumn("_escaped", F.contains(line, F.lit("\\")))
        .withColumn("_parts", F.when(F.col("text_ok"), F.split(_hide_escapes(line), '"')))
    )


def _hide_escapes(line: Column) -> Column:
    hidden = F.replace(
        F.replace(line, F.lit("\\\\"), F.lit(_HIDDEN_BACKSLASH)), F.lit('\\"'), F.lit(_HIDDEN_QUOTE)
    )
    return F.when(F.col("_escaped"), hidden).otherwise(line)


def _bytes_of(text: Column, start: Column, length: Column) -> Column:
    """A part of `text` by the positions of its bytes, which Spark need not count as it must characters."""
    return F.substring(text.cast("binary"), start, F.greatest(length, F.lit(0))).cast("string")


def _restore(field: Column) -> Column:
    shown = F.replace(
        F.replace(field, F.lit(_HIDDEN_QUOTE), F.lit('"')), F.lit(_HIDDEN_BACKSLASH), F.lit("\\")
    )
    return F.when(F.col("_escaped"), shown).otherwise(field)


def _columns_of_head(frame: DataFrame) -> DataFrame:
    """Splits what stands before the request, `[host ]address ident user [time] `, and after it."""
    parts = F.col("_parts")
    head = F.get(parts, F.lit(0))
    bracketed = F.substring_index(head, " [", -1)  # the last one, for a user name may hold brackets
    return frame.withColumns(
        {
            "_count": F.size(parts),
            "_words": F.split(F.substring(head, F.lit(1), F.length(head) - F.length(bracketed) - 2), " "),
            "_time": F.substring(bracketed, F.lit(1), F.length(bracketed) - 2),
            "_request": F.get(parts, F.lit(1)),
            "_result": F.split(F.trim(F.get(parts, F.lit(2))), " "),
        }
    ).withColumn("_vhost", _has_host())


def _has_host() -> Column:
    named, second = F.col("format"), F.get(F.col("_words"), F.lit(1))
    looks_so = (second != "-") & second.rlike(_ADDRESS)
    return F.when(named.isNull(), looks_so).otherwise(named == "vhost_combined")


def _fields(frame: DataFrame) -> DataFrame:
    words, result, parts, request = F.col("_words"), F.col("_result"), F.col("_parts"), F.col("_request")
    skip = F.when(F.col("_vhost"), F.lit(1)).otherwise(F.lit(0))
    method, protocol = F.substring_index(request, " ", 1), F.substring_index(request, " ", -1)
    length = F.octet_length(request) - F.octet_length("_method") - F.octet_length("_protocol") - 2
    host, size = F.get(words, F.lit(0)), F.get(result, F.lit(1))
    return (
        frame.withColumn("well_formed", F.coalesce(_well_formed(skip), F.lit(False)))
        .withColumns({"_method": F.when(F.col("well_formed"), method), "_protocol": protocol})
        .withColumn(
            "_target", F.when(F.col("well_formed"), _bytes_of(request, F.octet_length("_method") + 2, length))
        )
        .withColumn("_http", F.coalesce(_is_http(), F.lit(False)))
        .withColumn("_target", F.when(F.col("_http"), _restore(F.col("_target"))))
        .withColumns(
            {
                "host": F.when(F.col("_vhost"), _restore(F.regexp_replace(host, r":\d*\z", ""))),
                "client_ip": F.when(F.col("well_formed"), F.get(words, skip)),
                "remote_user": _absent(F.when(F.col("well_formed"), _restore(_user(words, skip)))),
                "event_time": F.when(F.col("well_formed"), _event_time(F.col("_time"))),
                "method": F.when(F.col("_http"), F.col("_method")),
                "path": F.substring_index(F.col("_target"), "?", 1),
                "query": F.when(
                    F.contains(F.col("_target"), F.lit("?")),
                    F.substring(F.col("_target"), F.instr(F.col("_target"), "?") + 1, 1_000_000),
                ),
                "protocol": F.when(F.col("_http"), F.col("_protocol")),
                "status": F.when(F.col("well_formed"), _status(F.get(result, F.lit(0)))),
                "bytes": F.when(F.col("well_formed"), F.when(size == "-", F.lit(0)).otherwise(_size(size))),
                "referrer": _absent(F.when(F.col("_count") > 3, _restore(F.get(parts, F.lit(3))))),
                "user_agent": _absent(F.when(F.col("_count") > 3, _restore(F.get(parts, F.lit(5))))),
            }
        )
        .drop("_parts", "_count", "_words", "_time", "_request", "_result", "_vhost", "_escaped")
        .drop("_http", "_method", "_protocol", "_target")
    )


def _well_formed(skip: Column) -> Column:
    """Whether the parts between the quotes have the shape of a format."""
    words, result, parts = F.col("_words"), F.col("_result"), F.col("_parts")
    extra = F.col("_count") == 9
    quoted = (F.col("_count") == 7) | extra
    shape = F.when(F.col("format").isNull(), quoted | (F.col("_count") == 3)).otherwise(
        F.when(F.col("format") == "common", F.col("_count") == 3).otherwise(quoted)
    )
    return (
        shape
        & (F.size(words) >= skip + 3)
        & (F.size(result) == 2)
        & F.get(parts, F.lit(0)).endswith("] ")
        & F.get(parts, F.lit(2)).startswith(" ")
        & (~quoted | F.get(parts, F.lit(2)).endswith(" "))
        & (~quoted | ((F.get(parts, F.lit(4)) == " ") & (F.element_at(parts, -1) == "")))
        & (~extra | (F.get(parts, F.lit(6)) == " "))
    )


def _is_http() -> Column:
    """Whether a request is `METHOD target HTTP/n`."""
    method, protocol, target = F.col("_method"), F.col("_protocol"), F.col("_target")
    # The usual ones are looked up, for a regular expression costs more than all the rest.
    return (
        (method.isin(*_METHODS) | method.rlike(r"^[A-Z][A-Z_-]{1,31}\z"))
        & (protocol.isin(*_PROTOCOLS) | protocol.rlike(r"^HTTP/\d(\.\d)?\z"))
        & (target != "")
        & ~target.startswith(" ")
        & ~target.startswith("\t")
    )


def _user(words: Column, skip: Column) -> Column:
    """The user name, which may hold spaces, is all words after the address and the ident."""
    several = F.array_join(F.slice(words, skip + 3, F.greatest(F.size(words) - skip - 2, F.lit(0))), " ")
    return F.when(F.size(words) == skip + 3, F.get(words, skip + 2)).otherwise(several)


def _status(text: Column) -> Column:
    """Three digits; what else a cast takes in three characters is below 100."""
    return F.when(F.octet_length(text) == 3, text.try_cast("int"))


def _size(text: Column) -> Column:
    """Digits only: a cast alone would also take signs, fractions and tabs."""
    number = text.try_cast("long")
    return F.when((number.cast("string") == text) | text.rlike(r"^\d+\z"), number)


def _absent(field: Column) -> Column:
    """Servers write "-" (Apache, nginx) or nothing for a header that was not sent."""
    return F.when((field != "-") & (field != ""), field)


def _event_time(time: Column) -> Column:
    """`17/May/2015:10:05:03 +0000` to a timestamp; NULL for an impossible date, or one not in 1970 to 9998.

    Rewritten to ISO 8601 and cast, since the cast is several times as fast as a pattern. The zone is
    left out and subtracted, for Spark meets every zone with two regular expressions.
    """
    months = F.lit(_MONTHS)
    month = F.substring(months, F.instr(months, F.substring(time, 4, 3)) + 3, F.lit(2))
    local = F.concat(
        F.substring(time, 8, 4), F.lit("-"), month, F.lit("-"), F.substring(time, 1, 2), F.lit("T"),
        F.substring(time, 13, 8),
    )  # fmt: skip
    # The cast would also take a minute of one digit, or half a second.
    written = F.when(time.rlike(_TIME), local.try_cast("timestamp"))
    elsewhere = F.timestamp_micros(F.unix_micros(written) - _seconds_ahead(time).cast("long") * 1_000_000)
    return F.when(F.endswith(time, F.lit(" +0000")), written).otherwise(elsewhere)


def _seconds_ahead(time: Column) -> Column:
    """How far the zone at the end of `time`, such as -0330, is ahead of UTC; NULL beyond 18 hours."""
    hours, minutes = F.substring(time, 23, 2).try_cast("int"), F.substring(time, 25, 2).try_cast("int")
    sign = F.when(F.substring(time, 22, 1) == "-", -1).otherwise(1)
    return F.when((minutes < 60) & (hours * 60 + minutes <= 18 * 60), sign * (hours * 3600 + minutes * 60))
