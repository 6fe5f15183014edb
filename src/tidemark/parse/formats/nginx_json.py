"""JSON as people configure it in nginx and other servers: keys by a table of synonyms."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_of, matches, where
from tidemark.parse.formats.caddy_json import NO_ERRORS
from tidemark.parse.objects import JsonFormat, spellings
from tidemark.parse.values import each_distinct
from tidemark.parse.w3c import decoded, utc
from tidemark.parse.wrappers import ENVELOPE_TIME

# Names within names have dots in between. Other names are known in every usual spelling: `remote_addr` stands for
# `remoteAddr`, `RemoteAddr`, `remote-addr` and so on, too.
_NAMES = {
    "client_ip": """
        client_ip client_addr client_address clientip real_ip remote_ip remote_addr remote_address remoteip remoteaddr
        remote_host x_real_ip cf_connecting_ip downstream_remote_address downstream_remote client.ip client.address
        source.ip source.address client.addr network.client.ip network.client_ip http.client_ip identity_source_ip
        identity_sourceIp identity.sourceIp request.remote_ip request.client_ip req.remoteAddress src_ip source_ip
        client_host client remote ip ip_address addr address peer host_ip user_ip visitor_ip c_ip proxy.clientIp lan_ip
        request.ip http.request.ip http.request.remoteaddr http_request.remote httpRequest.remoteIP request.client.ip
        protoPayload.ip Properties.ClientIp event.request.headers.cf-connecting-ip context.ip
    """,
    "remote_user": "remote_user auth_user user.name username user_name user user_id userid",
    "time": f"""
        time_iso8601 time_local @timestamp timestamp start_time date_time datetime time_utc time_stamp
        request_time_epoch event_time event_datetime log_time
        timestamp(ms) local_time started_at start_utc msec time ts date when _time start
        event_timestamp event_timestamp_ms request_received_at written_at @t t
        request_time {ENVELOPE_TIME}
    """,
    "outer_time": ENVELOPE_TIME,
    "date": "date request_date",
    "clock": "time",
    "timezone": "request_timezone",
    "request": "request request_line http_request http.request.line first_line requested_url user_req req",
    "route": "route_key",
    "method": """
        request_method http_method http.request.method http.method request.method req.method method verb cs_method
        proxy.method request_verb meta.req.method span.method Properties.RequestMethod State.Method payload.method
        context.method protoPayload.method http_request.method httpRequest.method request.connection.method
        event.request.method Event.Request.Method
    """,
    "target": """
        proxy.path request_uri request_url original_uri original_url url.original url.full http.url_details.path
        http.url http.target request.uri request.url req.originalUrl req.url url request_path uri uri_path url_path
        url.path http.path http_path path resource_path endpoint span.uri span.path target cs_uri_stem
        x_envoy_origin_path x_envoy_original_path requested_uri request.path http.request.path http.request.uri
        meta.req.originalUrl meta.req.url Properties.RequestPath State.Path payload.path context.uri context.url
        context.path protoPayload.resource http_request.path httpRequest.url httpRequest.path request.connection.path
        event.request.url Event.Request.URL
    """,
    "query": """
        query_string request_query url.query http.query args query querystring request_args uri_query cs_uri_query
        request.query http.request.query http_request.query State.QueryString
    """,
    "protocol": """
        server_protocol request_protocol http_protocol http_version http.version http.flavor request_proto protocol
        proto request.protocol cs_protocol_version cs_version req.httpVersion meta.req.httpVersion span.version
        State.Protocol protoPayload.httpVersion httpRequest.proto request.connection.protocol
    """,
    "status": """
        status status_code http_status http_status_code response_status response_code http.response.status_code
        http.status_code http.response.body.status_code http_code
        response.status response.status_code res.statusCode response_status_code return_code
        downstream_status sc_status response code proxy.statusCode elb_status_code lb_status_code http.response.status
        meta.res.statusCode fields.status Properties.StatusCode State.StatusCode payload.status context.status
        context.status_code protoPayload.status http_response.status httpResponse.status request.connection.status
        api.statusCode event.response.status Event.Response.Status
    """,
    "bytes": """
        body_bytes_sent bytes_sent body_sent bytes response_size response_body_size resp_body_size response_length
        response_bytes http.response.body.bytes http.response.bytes http_response_content_length network.bytes_written
        body_sent.bytes response.size response.bytes res.contentLength content_length size length body_bytes body_size
        bytes_out bytes_written sent_bytes resp_size sc_bytes tx_bytes written_bytes http_bytes_sent response_size_b
        response.length http.response.length http.response.written http.response.body.size res.headers.content-length
        res._headers.content-length State.ContentLength protoPayload.responseSize http_response.size httpResponse.bytes
        api.tx proxy.responseByteSize
    """,
    "referrer": """
        http_referer http_referrer referer referrer request_referer http.request.referrer http.referer
        request.headers.referer req.headers.referer headers.referer header_referer cs_referer cs(Referer) proxy.referer
        request.referer http.request.referer meta.req.headers.referer requestHeaders.Referer protoPayload.referrer
        http_request.headers.referer httpRequest.header.referer event.request.headers.referer
    """,
    "user_agent": """
        http_user_agent user_agent.original user_agent useragent request_user_agent http.useragent http.user_agent
        request.headers.user-agent req.headers.user-agent headers.user-agent identity_userAgent identity.userAgent
        header_user_agent agent browser ua user_ua cs_user_agent cs(User-Agent) proxy.userAgent
        request.headers.User-Agent headers.User-Agent client_ua request.user-agent http.request.user-agent
        http.request.useragent meta.req.headers.user-agent requestHeaders.User-Agent Properties.UserAgent
        protoPayload.userAgent http_request.headers.user-agent httpRequest.header.user-agent request.client.user_agent
        event.request.headers.user-agent context.user_agent
    """,
    "host": """
        proxy.host http_host vhost virtual_host authority :authority request_host url.domain http.host request.host
        domain_name
        x_host_header request.headers.host req.headers.host headers.host domain server_name servername site_name
        host_header cs_host cs(Host) host http.request.host meta.req.headers.host Properties.RequestHost State.Host
        protoPayload.host http_request.host
    """,
    "machine": "hostname",
    "duration_s": """
        request_time request_time_s request_time_sec request_duration_seconds duration_seconds duration_s duration_sec
        http.server.request.duration time_taken_s response_time_s elapsed_seconds latency_seconds reqtime
        protoPayload.latency
    """,
    "duration_ms": """
        request_time_ms duration_ms response_time_ms latency_ms elapsed_ms time_ms time_taken_ms took_ms
        request_duration_ms response_latency durationmillis duration_millis latencies.request duration_in_ms
        elapsed_milliseconds res.responseTime meta.responseTime fields.latency Properties.Elapsed
        State.ElapsedMilliseconds State.Duration context.duration_ms httpResponse.elapsed http.response.duration
        api.timeToResponse
    """,
    "duration_us": """
        duration_us request_time_us response_time_us time_us elapsed_us microseconds duration_micros duration_usec
        time_elapsed time_taken_us request_time_micros reqtime_microsec
    """,
    "duration_ns": """
        event.duration duration_ns duration_nanos latency_ns elapsed_ns total_ns response.latency http.response.latency
        http_response.took
    """,
    "duration": "latency_human duration latency elapsed elapsed_time took request_duration",
    "responded": "resp_time response_time responsetime",
    "taken": "time_taken",
    "edge_country": """
        geoip_country_code geoip2_country_code geoip2_data_country_code country_code geo_country_code http_cf_ipcountry
        cf_ipcountry geoip.country_code geo.country_iso_code country c_country event.request.headers.cf-ipcountry
    """,
    "forwarded": """
        http_x_forwarded_for x_forwarded_for xforwardedfor forwarded_for http.x_forwarded_for headers.x-forwarded-for
        request.headers.x-forwarded-for req.headers.x-forwarded-for proxy_add_x_forwarded_for xff
        meta.req.headers.x-forwarded-for http_request.headers.x-forwarded-for
    """,
}
# Durations whose spelling tells the unit: those of Node's loggers, Serilog and Railway; of Dropwizard, if it is whole.
_SPELLED = {
    "duration_ms": "responseTime ResponseTime response-time Response-Time Elapsed totalDuration",
    "whole_ms": "requestTime",
}
DURATIONS = (*(name for name in _NAMES if name.startswith("duration")), "responded", "taken", "whole_ms")
# Names by which other values are read in another way.
_MARKS = {
    "milliseconds": """
        response_flags upstream_cluster controller apisix_latency res.statusCode meta.res.statusCode requested_uri
        req_id
    """,
    "nanoseconds": "network.client.ip",
    "w3c": "cs_uri_stem",
    "process": "pid res.statusCode",
    "of_machine": "payload.status",
    "of_client": "logicalUserName",
}


def _keys() -> dict[str, tuple[str, ...]]:
    keys = {field: list(spellings(names.split())) for field, names in (_NAMES | _MARKS).items()}
    for names in map(str.split, _SPELLED.values()):
        for field in keys.keys() & DURATIONS:
            keys[field] = [name for name in keys[field] if name not in names]
    for field, text in _SPELLED.items():
        keys[field] = [*keys.get(field, ()), *text.split()]
    return {field: tuple(names) for field, names in keys.items()}


KEYS = _keys()
MARKS = tuple(_MARKS)
_ROUTE = r"^[A-Z]+ /[^{}]*$"
_CLOCK = r"^\d{1,2}:\d\d:\d\d"
_NO_TIME = r"^\d{1,6}(?:\.\d+)?$"  # the duration of a request
# Seconds, and durations with their unit.
_SECONDS = r"\.|[a-zµ]$"
_WHOLE = r"^\d+$"


def refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    """A duration without a unit in its name is in milliseconds in the JSON of Envoy, Rails, APISIX and Node's loggers,
    in whole nanoseconds in Datadog's, and otherwise in seconds if it has decimals, or in the unit that it names. Others
    could be in any unit, and are left out. A time of day belongs to the date beside it. Columns of the W3C's format are
    as in logs of that format."""
    marked = {name: flags_of(pc.is_valid(texts[name])) for name in MARKS}
    w3c, milli, agent = marked["w3c"], marked["milliseconds"], texts["user_agent"]
    if w3c.any():
        agent = where(~w3c, agent, each_distinct(where(w3c, agent, None), decoded))
    decimal = flags_of(pc.match_substring(texts["taken"], "."))
    time, outer = texts["time"], texts["outer_time"]
    if (inner := flags_of(pc.is_valid(outer))).any():
        time = where(~(inner & matches(time, _NO_TIME)), time, outer)
    seconds = ~milli & matches(texts["duration"], _SECONDS)
    responded = ~milli & matches(texts["responded"], rf"{_SECONDS}|^0$")
    nano = marked["nanoseconds"] & matches(texts["duration"], _WHOLE)
    whole = matches(texts["whole_ms"], _WHOLE)
    # API Gateway's route is a request, unless it stands for several paths.
    routed = matches(texts["route"], _ROUTE) & flags_of(pc.is_null(texts["target"]))
    return texts | {
        "request": pc.coalesce(texts["request"], where(routed, texts["route"], None)),
        "time": _time(time, texts["date"], texts["clock"], texts["timezone"], w3c),
        "user_agent": agent,
        **_client_and_host(texts, marked),
        "duration_s": pc.coalesce(
            texts["duration_s"],
            where(~whole, texts["whole_ms"], None),
            where(responded, texts["responded"], None),
            where(seconds, texts["duration"], None),
            where(w3c & decimal, texts["taken"], None),
        ),
        "duration_ms": pc.coalesce(
            texts["duration_ms"],
            where(whole, texts["whole_ms"], None),
            where(milli, texts["responded"], None),
            where(milli, texts["duration"], None),
            where(~w3c | ~decimal, texts["taken"], None),
        ),
        "duration_ns": pc.coalesce(texts["duration_ns"], where(nano, texts["duration"], None)),
    }


def _client_and_host(texts: Mapping[str, pa.Array], marked: Mapping[str, Flags]) -> dict[str, pa.Array]:
    """Loggers of processes write the machine's name as `hostname`, or with Rails as `host`. Tomcat's `host` is the
    client's."""
    host, client = texts["host"], texts["client_ip"]
    of_client = marked["of_client"] & flags_of(pc.is_null(client))
    if of_client.any():
        client = where(~of_client, client, host)
    if (other := of_client | marked["of_machine"]).any():
        host = where(~other, host, None)
    return {"host": pc.coalesce(host, where(~marked["process"], texts["machine"], None)), "client_ip": client}


def _time(time: pa.Array, date: pa.Array, clock: pa.Array, zone: pa.Array, w3c: Flags) -> pa.Array:
    if date.null_count == len(date):
        return time
    clock = pc.coalesce(clock, time)
    parted = matches(clock, _CLOCK) & flags_of(pc.is_valid(date))
    if not parted.any():
        return time
    joined = pc.binary_join_element_wise(date, clock, zone, " ", null_handling="skip")
    return where(parted, where(w3c, utc(date, clock), joined), time)


FORMAT = JsonFormat(
    name="nginx_json",
    about="A JSON object per line, as `log_format ... escape=json` writes it, with any usual names.",
    docs="https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format",
    examples=(
        '{"time_iso8601": "2026-11-21T10:00:00+00:00", "remote_addr": "203.0.113.7", "remote_user": "", "request":'
        ' "GET /docs/?page=2 HTTP/1.1", "status": "200", "body_bytes_sent": "512", "request_time": "0.012",'
        ' "http_referer": "https://example.org/a", "http_user_agent": "curl/8.5.0", "host": "www.example.org"}',
        '{"msec": 1795255200.123, "remote_addr": "203.0.113.7", "request_method": "GET", "request_uri":'
        ' "/docs/?page=2",'
        ' "server_protocol": "HTTP/2.0", "status": 200, "bytes_sent": 512, "http_user_agent": "curl/8.5.0"}',
    ),
    marks=(),
    unless=NO_ERRORS,
    keys=KEYS,
    refine=refined,
)
