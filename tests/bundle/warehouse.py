"""A SQL warehouse's end of the wire, and the app at the other: `python warehouse.py [COMMAND...]`.

An HTTPS server speaks the Thrift protocol of Databricks SQL, with the connector's own definition of it, and
answers statements with Arrow. It runs no SQL: what it is asked, and how, it writes down. Runs in the environment of
app/requirements.txt, in the directory with the app's folder; prints one JSON object. With the app's command it
starts that against a warehouse without tables, and fetches the page.
"""

from __future__ import annotations

import asyncio
import gc
import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from databricks.sql.thrift_api.TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

OK = ttypes.TStatus(statusCode=ttypes.TStatusCode.SUCCESS_STATUS)
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
SESSIONS = pa.table(
    {
        "session_id": pa.array(["s1", "s2"]),
        "start_time": pa.array([NOON, None], pa.timestamp("us", "UTC")),
        "pages": pa.array([3, 4], pa.int64()),
        "sketch": pa.array([b"\xff\x00", b""], pa.binary()),
        "reasons": pa.array([["a", "b"], []], pa.list_(pa.string())),
    }
)
HISTORY = pa.table(
    {"version": pa.array([7], pa.int64()), "timestamp": pa.array([NOON], pa.timestamp("us", "UTC"))}
)
_TYPES = {
    pa.string(): ttypes.TTypeId.STRING_TYPE,
    pa.int64(): ttypes.TTypeId.BIGINT_TYPE,
    pa.binary(): ttypes.TTypeId.BINARY_TYPE,
    pa.timestamp("us", "UTC"): ttypes.TTypeId.TIMESTAMP_TYPE,
    pa.list_(pa.string()): ttypes.TTypeId.ARRAY_TYPE,
}


@dataclass
class Warehouse(TCLIService.Iface):  # type: ignore[misc]
    """Answers calls; sessions end when told to, as they do after idle time. `empty`: it has no tables."""

    empty: bool = False
    sessions: list[bytes] = field(default_factory=list)
    opened: list[dict[str, str]] = field(default_factory=list)
    statements: list[dict[str, Any]] = field(default_factory=list)

    def OpenSession(self, req: Any) -> Any:  # noqa: N802
        self.opened.append(dict(req.configuration))
        self.sessions.append(os.urandom(16))
        return ttypes.TOpenSessionResp(
            status=OK,
            serverProtocolVersion=ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V7,
            sessionHandle=ttypes.TSessionHandle(
                _id(self.sessions[-1]), ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V7
            ),
        )

    def ExecuteStatement(self, req: Any) -> Any:  # noqa: N802
        if req.sessionHandle.sessionId.guid not in self.sessions:
            return ttypes.TExecuteStatementResp(
                status=_error("INVALID_HANDLE: the session is over", invalid=True)
            )
        values = {p.name: [p.type, p.value.stringValue] for p in req.parameters or []}
        self.statements.append({"sql": req.statement, "parameters": values})
        if self.empty or "no_such_table" in req.statement:
            return ttypes.TExecuteStatementResp(status=_error("[TABLE_OR_VIEW_NOT_FOUND] no such table"))
        rows = HISTORY if req.statement.startswith("DESCRIBE HISTORY") else SESSIONS
        operation = ttypes.TOperationHandle(
            operationId=_id(os.urandom(16)),
            operationType=ttypes.TOperationType.EXECUTE_STATEMENT,
            hasResultSet=True,
        )
        return ttypes.TExecuteStatementResp(status=OK, operationHandle=operation, directResults=_direct(rows))

    def CloseSession(self, req: Any) -> Any:  # noqa: N802
        return ttypes.TCloseSessionResp(status=OK)

    def CloseOperation(self, req: Any) -> Any:  # noqa: N802
        return ttypes.TCloseOperationResp(status=OK)


def _id(guid: bytes) -> Any:
    return ttypes.THandleIdentifier(guid=guid, secret=guid)


def _error(text: str, *, invalid: bool = False) -> Any:
    code = ttypes.TStatusCode.INVALID_HANDLE_STATUS if invalid else ttypes.TStatusCode.ERROR_STATUS
    return ttypes.TStatus(statusCode=code, errorMessage=text)


def _direct(rows: pa.Table) -> Any:
    columns = [
        ttypes.TColumnDesc(
            columnName=column.name,
            typeDesc=ttypes.TTypeDesc(
                types=[ttypes.TTypeEntry(primitiveEntry=ttypes.TPrimitiveTypeEntry(type=_TYPES[column.type]))]
            ),
            position=position,
        )
        for position, column in enumerate(rows.schema, start=1)
    ]
    batches = [
        ttypes.TSparkArrowBatch(batch=batch.serialize().to_pybytes(), rowCount=batch.num_rows)
        for batch in rows.to_batches()
    ]
    return ttypes.TSparkDirectResults(
        operationStatus=ttypes.TGetOperationStatusResp(
            status=OK, operationState=ttypes.TOperationState.FINISHED_STATE
        ),
        resultSetMetadata=ttypes.TGetResultSetMetadataResp(
            status=OK,
            schema=ttypes.TTableSchema(columns=columns),
            resultFormat=ttypes.TSparkRowSetType.ARROW_BASED_SET,
            lz4Compressed=False,
            arrowSchema=rows.schema.serialize().to_pybytes(),
        ),
        resultSet=ttypes.TFetchResultsResp(
            status=OK,
            hasMoreRows=False,
            results=ttypes.TRowSet(startRowOffset=0, rows=[], arrowBatches=batches),
        ),
        closeOperation=ttypes.TCloseOperationResp(status=OK),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if isinstance(value, str | int) else str(value)


def certificate(directory: Path) -> Path:
    """A file with a key and the certificate that it signed for localhost, which this process trusts from now on."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "certificate.pem"
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + signed.public_bytes(encoding))
    trusted = directory / "trusted.pem"
    trusted.write_bytes(signed.public_bytes(encoding))
    os.environ["SSL_CERT_FILE"] = str(trusted)
    return path


def serve(
    warehouse: Warehouse, identity: Path
) -> tuple[http.server.ThreadingHTTPServer, list[dict[str, str]]]:
    """The server on a free port of localhost, and what each request said of itself."""
    processor, requests = TCLIService.Processor(warehouse), []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            requests.append({"path": self.path, "authorization": self.headers.get("Authorization", "")})
            received = TMemoryBuffer(self.rfile.read(int(self.headers["Content-Length"])))
            answer = TMemoryBuffer()
            processor.process(TBinaryProtocol(received), TBinaryProtocol(answer))
            body = answer.getvalue()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-thrift")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, requests


def main() -> None:
    from tidemark.figures.open import open_reader
    from tidemark.figures.query import Where, query
    from tidemark.figures.reader import MissingTableError, ReadError
    from tidemark.figures.rows import Rows

    warehouse = Warehouse()
    server, requests = serve(warehouse, certificate(Path.cwd()))
    reader = open_reader(
        {
            "TIDEMARK_CATALOG": "main",
            "TIDEMARK_SCHEMA": "tidemark",
            "DATABRICKS_HOST": f"https://localhost:{server.server_port}",
            "DATABRICKS_WAREHOUSE_ID": "abc",
            "DATABRICKS_TOKEN": "a-token",
        }
    )
    rows = Rows(reader)
    columns = ["session_id", "start_time", "pages", "sketch", "reasons"]
    where = [Where("site", "=", "it's"), Where("start_time", ">=", NOON)]
    frame = rows(query("silver/sessions", columns, where))
    version = reader.version("silver/sessions")
    errors = []
    warehouse.sessions.clear()  # as after idle time
    try:
        rows(query("silver/sessions", ["pages"]))
    except ReadError as error:
        errors.append(str(error))
    again = rows(query("silver/sessions", ["pages"]))
    try:
        rows(query("no_such_table", ["x"]))
    except MissingTableError as error:
        errors.append(str(error))
    # A connection says goodbye when it goes: while there is still somebody to answer.
    del reader, rows
    gc.collect()
    print(
        json.dumps(
            {
                "rows": [
                    {name: _plain(value) for name, value in row.items()} for row in frame.to_dict("records")
                ],
                "kinds": {name: str(kind) for name, kind in frame.dtypes.items()},
                "version": [version.number, version.committed_at.isoformat()] if version else None,
                "errors": errors,
                "again": len(again),
                "opened": warehouse.opened,
                "statements": warehouse.statements,
                "requests": requests,
                "tools": asyncio.run(tools()),
            }
        )
    )


async def tools() -> list[str]:
    """The tools of MCP, as a client lists them."""
    from mcp import Client

    from tidemark.access.asking import OWNER
    from tidemark.api.answers import Answers
    from tidemark.api.tools import server

    async with Client(server(Answers(), lambda request: OWNER)) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


_DRAW = """
import json
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("app/main.py", default_timeout=120).run()
print(json.dumps({"titles": [e.value for e in app.title], "exceptions": [e.value for e in app.exception]}))
"""


def start_app(command: list[str]) -> None:
    warehouse = Warehouse(empty=True)
    server, requests = serve(warehouse, certificate(Path.cwd()))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ |= {
        "DATABRICKS_HOST": f"https://localhost:{server.server_port}",
        "DATABRICKS_TOKEN": "a-token",
        "STREAMLIT_SERVER_ADDRESS": "127.0.0.1",
        "STREAMLIT_SERVER_PORT": str(port),
        "STREAMLIT_SERVER_HEADLESS": "true",
    }
    program = str(Path(sys.executable).with_name(command[0]))
    with subprocess.Popen([program, *command[1:]], stdout=subprocess.DEVNULL) as process:
        try:
            page = _fetched(f"http://127.0.0.1:{port}/", process)
        finally:
            process.terminate()
    # In a process of its own: a connection that is collected in the server's thread would wait for itself.
    drawn = subprocess.run([sys.executable, "-c", _DRAW], check=True, stdout=subprocess.PIPE, text=True)
    actual = {
        "page": page,
        **json.loads(drawn.stdout),
        "statements": [statement["sql"] for statement in warehouse.statements],
        "paths": sorted({request["path"] for request in requests}),
    }
    print(json.dumps(actual))


def _fetched(url: str, process: subprocess.Popen[bytes]) -> str:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"the app ended with {process.returncode}")


if __name__ == "__main__":
    start_app(sys.argv[1:]) if sys.argv[1:] else main()
