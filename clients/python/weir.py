"""Weir for Python: count hits in rolling windows, and limit rates.

One file, standard library only, Python 3.9 or newer. Copy it beside your program.

    import weir

    w = weir.Client("http://127.0.0.1:8080")    # several nodes: "http://a:8080,http://b:8080"
    w.hit("url:/home")                          # no request: sums are sent every 100 ms
    w.count("url:/home", "5m").estimate
    if w.allow("signin:bob", limit=weir.Limit(5, "1m", name="signin")):
        ...                                     # may pass; so it may when no server answers: fail_open=False denies then

Each hit counts once: a batch that got no answer is repeated under the same Idempotency-Key at the same
node, while new hits go to the others. docs/clients.md has what is promised, and what may be lost.
"""

from __future__ import annotations

import atexit
import http.client
import json
import logging
import os
import random
import select
import ssl
import threading
import time
import uuid
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

__all__ = ["Ban", "Client", "Count", "Decision", "Error", "Limit", "PerSecond", "Permit", "Refund", "Reservation", "Settled", "Stats", "Top", "TopKey", "Unavailable"]

log = logging.getLogger("weir")  # what keeps hits from being counted is logged here

MAX_KEY_BYTES = 512
MAX_HITS = 1 << 40
LINE_BYTES = 400  # what a line that waits takes at most beside its key
_BATCH_LINES, _BATCH_BYTES = 50_000, 4 << 20  # of a request; half and a quarter of what servers take by default
_MAX_ANSWER = 64 << 20

Window = Union[str, int]  # "5m", or seconds


class Error(Exception):
    """A request that the server refused, as its problem document says. Branch on code."""

    def __init__(self, status: int, code: str, detail: str, field: str = "", after: float = 0):
        super().__init__(f"{detail} ({code})" if code else f"the server answered {status}: {detail}")
        self.status, self.code, self.detail, self.field = status, code, detail, field
        self.after = after  # seconds that the server asks to wait
        self.body = b""

    @property
    def _temporary(self) -> bool:
        return self.code != "not_fresh" and self.status in (429, 502, 503, 504)

    @property
    def _took_nothing(self) -> bool:
        """A Weir server says that it counted or took nothing; or something before it did not forward."""
        if not self.code:
            return self.status < 500
        return self.code not in ("not_durable", "closed", "internal", "stopping", "client_gone")


class Unavailable(Exception):
    """No server answered. With unsent nothing of the request left this machine."""

    def __init__(self, message: str, unsent: bool):
        super().__init__(message)
        self.unsent = unsent


@dataclass(frozen=True)
class Count:
    """Hits of a key in (at - window, at]: lower <= the true number <= upper."""

    key: str
    window: int  # seconds
    at: float  # Unix seconds
    lower: int
    estimate: int
    upper: Optional[int]  # None: not known
    exact: bool
    raw: Dict[str, Any] = field(repr=False, compare=False)  # the answer as it is, with as_of and late


@dataclass(frozen=True)
class PerSecond(Count):
    """A count with its mean rate: hits per second, with bounds."""

    lower_rate: float
    rate: float
    upper_rate: Optional[float]


@dataclass(frozen=True)
class TopKey:
    key: str
    lower: int
    estimate: int
    upper: Optional[int]
    exact: bool


@dataclass(frozen=True)
class Top:
    """The keys with the most hits in a window, most first."""

    window: int
    at: float
    keys: List[TopKey]
    raw: Dict[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Limit:
    """At most n per period, burst of them at once (default n). The server keeps what keys used of it by its name."""

    n: int
    per: Window
    burst: Optional[int] = None
    algorithm: Optional[str] = None  # window (default), fixed, gcra
    name: Optional[str] = None

    def _json(self) -> Dict[str, Any]:
        asked = {"n": self.n, "per": self.per, "burst": self.burst, "algorithm": self.algorithm, "name": self.name}
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True)
class Decision:
    """Whether a request may pass. It is true when it may."""

    allowed: bool
    decided: bool  # False: no server decided, and allowed is what fail_open says
    retry_after: float = 0  # seconds until it would be allowed
    limits: List[Dict[str, Any]] = field(default_factory=list)  # what each limit says
    error: Optional[Exception] = None  # why nobody decided

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True)
class Reservation:
    """Admissions that were taken for what a request may need: settle them by id. It is true when the request may pass."""

    allowed: bool
    id: str = ""  # empty of a denial, and where no limit is for the key
    retry_after: float = 0  # seconds until it would be allowed
    limits: List[Dict[str, Any]] = field(default_factory=list)  # what each limit says; none where a lost answer was asked for again

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True)
class Settled:
    """What came of settling a reservation."""

    again: bool  # it had been settled before, and nothing has changed now
    over: int  # used beyond the reservation, and not counted
    limits: List[Dict[str, Any]]


@dataclass(frozen=True)
class Refund:
    """What came of giving admissions back."""

    refunded: int  # by how many more would be allowed
    limits: List[Dict[str, Any]]


@dataclass
class Ban:
    """A key, as it is counted, that is denied under a limit until a Unix time."""

    limit: str
    key: str
    until: float


class Permit:
    """One of so many that work for a key at once: a policy with max. In a `with` it is released at the end.

    until is when it may be another's, by time.monotonic(): ttl after the last heartbeat was sent that was answered. Call heartbeat() every
    third of ttl; once it raises an Error with the code permit_lost, or until is over, stop."""

    def __init__(self, client: "Client", sent: float, answer: Dict[str, Any]):
        self._client = client
        self._note(sent, answer)

    def _note(self, sent: float, answer: Dict[str, Any]) -> None:
        self.id: str = answer["id"]
        self.ttl: float = answer["ttl_s"]
        self.unmatched: bool = answer.get("unmatched", False)  # no policy with max is for the key
        self.until = sent + self.ttl

    def heartbeat(self) -> None:
        """Keeps the permit for ttl more. An answer that comes when until is over is too late: that is permit_lost as well."""
        sent = time.monotonic()
        answer = self._client._again("POST", "/v1/permits/" + quote(self.id, safe="") + "/heartbeat")
        if time.monotonic() >= self.until:
            raise Error(409, "permit_lost", "the answer to the heartbeat came when the permit's time was over: another may have it")
        self._note(sent, answer)

    def release(self) -> bool:
        """Gives the permit back. It may be called again: False then."""
        return self._client._again("DELETE", "/v1/permits/" + quote(self.id, safe=""))["released"]

    def __enter__(self) -> "Permit":
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self.release()
        except (Error, Unavailable):
            pass  # it is free after its ttl


@dataclass(frozen=True)
class Stats:
    """What became of hits: taken = counted + too_late + rejected + in_doubt + waiting."""

    taken: int = 0  # hits that hit() took
    refused: int = 0  # hits that it did not, at the bound
    counted: int = 0
    too_late: int = 0  # not counted: older than the server's retention
    rejected: int = 0  # not counted by a server for what they are; the log says why
    in_doubt: int = 0  # given up, and counted or not
    waiting: int = 0  # not sent, or not answered
    lines: int = 0  # that wait: a key in a second
    bytes: int = 0


class Client:
    """Talks to one server, or to the nodes of one cluster. Threads may share it, and it survives a fork.

    addresses   http://127.0.0.1:8080, or several, comma-separated
    token       weir_<id>_<secret>, of 'weir token create'
    ca_file     PEM file of the authority of https servers (default: those of this machine)
    cert_file, key_file  PEM files of a client certificate
    fail_open   what allow() says while no server decides: True, the default, lets pass; False denies. A wrong token or
                limit is an Error in both cases
    timeout     seconds for one attempt of a question or a batch
    allow_timeout  seconds for a decision: somebody waits for it
    every       seconds between two batches; less, when hits fill a half of the bound
    max_lines, max_bytes  bound the hits that wait; beyond it hit() is False
    give_up     seconds (at most 540) for which a batch without an answer is repeated at its node. Then it is dropped, or
                with at_least_once sent to any node, where it may count a second time
    durable     servers answer once hits are on disk
    """

    def __init__(
        self, addresses: str, *, token: str = "", ca_file: str = "", cert_file: str = "", key_file: str = "",
        fail_open: bool = True, timeout: float = 5, allow_timeout: float = 0.25, every: float = 0.1,
        max_lines: int = 100_000, max_bytes: int = 32 << 20, give_up: float = 300, at_least_once: bool = False,
        durable: bool = False, user_agent: str = "weir-python",
    ):
        if not 0.001 <= every <= 3600:
            raise ValueError(f"every is {every}: it must be 0.001 to 3600 seconds")
        if max_lines < 1 or max_bytes < MAX_KEY_BYTES + LINE_BYTES:
            raise ValueError(f"max_lines is {max_lines}, max_bytes {max_bytes}: there must be room for a line, of {MAX_KEY_BYTES + LINE_BYTES} bytes")
        if timeout <= 0 or allow_timeout <= 0 or not 0 < give_up <= 540:
            raise ValueError("timeouts must be more than 0, give_up at most 540 seconds")
        context = None
        if ca_file or cert_file:
            context = ssl.create_default_context(cafile=ca_file or None)
            if cert_file:
                context.load_cert_chain(cert_file, key_file or None)
        headers = {"User-Agent": user_agent, "Accept": "application/json"}
        if token:
            headers["Authorization"] = "Bearer " + token
        self._nodes = [_Node(address.strip(), context, headers) for address in addresses.split(",")]
        self._good = 0  # the node that answered last is asked first
        self._timeout, self._allow_timeout, self._fail_open = timeout, allow_timeout, fail_open
        self._breaker = _Breaker()
        self._hits = _Sender(self, every, max_lines, max_bytes, give_up, at_least_once, durable)
        _senders.add(self._hits)

    # Counting

    def hit(self, key: str, n: int = 1, at: Optional[float] = None, distinct: Optional[str] = None) -> bool:
        """Counts n hits of a key, now or at Unix second at. It makes no request. False: the bound of what waits is
        reached, and the hits are not taken. What no server would count is a ValueError. distinct is an id that the hits
        carry, such as a visitor's: count(key, distinct=True) says how many different ones there were."""
        return self._hits.add(key, n, int(time.time() if at is None else at), distinct)

    def flush(self, timeout: Optional[float] = 10) -> bool:
        """Sends what was hit before, and waits until it is known what became of it: True. False: not within timeout seconds
        (None: wait for ever); the log says why, and stats().waiting how many hits wait."""
        return self._hits.flush(timeout)

    def close(self, timeout: Optional[float] = 5) -> bool:
        """Takes no further hits, flushes for timeout seconds at most, and stops. False: some hits were not sent; the log says
        why, and stats().waiting how many. At the program's end it is done with a timeout of 2 s."""
        return self._hits.close(timeout)

    def stats(self) -> Stats:
        """What became of the hits so far."""
        return self._hits.stats()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Asking

    def count(self, key: str, window: Window = "5m", *, at: Optional[float] = None, fresh: Optional[str] = None, distinct: bool = False) -> Count:
        """Hits of a key in a window. fresh="2s" waits so long for all hits that any node took before. With distinct,
        raw["distinct"] is how many different ids they carried, if any did."""
        a = self._ask("/v1/count", {"key": key, "window": window, "at": at, "fresh": fresh, "distinct": "true" if distinct else None})
        return Count(a["key"], a["window_s"], a["at"], a["lower"], a["estimate"], a["upper"], a["exact"], a)

    def rate(self, key: str, window: Window = "5m", *, at: Optional[float] = None, fresh: Optional[str] = None) -> PerSecond:
        """Hits of a key per second, the mean of a window."""
        a = self._ask("/v1/rate", {"key": key, "window": window, "at": at, "fresh": fresh})
        r = a["per_second"]
        return PerSecond(a["key"], a["window_s"], a["at"], a["lower"], a["estimate"], a["upper"], a["exact"], a, r["lower"], r["estimate"], r["upper"])

    def top(self, window: Window = "5m", n: int = 10, prefix: str = "", *, at: Optional[float] = None, fresh: Optional[str] = None) -> Top:
        """The n keys with the most hits in a window, of those that begin with prefix."""
        a = self._ask("/v1/top", {"window": window, "n": n, "prefix": prefix or None, "at": at, "fresh": fresh})
        return Top(a["window_s"], a["at"], [TopKey(k["key"], k["lower"], k["estimate"], k["upper"], k["exact"]) for k in a["keys"]], a)

    def _ask(self, path: str, query: Dict[str, Any]) -> Dict[str, Any]:
        wait = 10 if query.get("fresh") else 0  # the most that a server waits for it
        return self._again("GET", _target(path, query), self._timeout + wait)

    def _again(self, method: str, target: str, timeout: Optional[float] = None, body: Optional[bytes] = None) -> Dict[str, Any]:
        """A request that may be sent again, to one node after the other."""
        for round in range(3):
            error: Exception
            after = 0.0
            for at in self._order():
                try:
                    return _object(self._attempt(at, method, target, body, _JSON if body else None, timeout or self._timeout))
                except Error as refused:
                    error, after = refused, refused.after
                    if not refused._temporary:
                        raise
                except Unavailable as away:
                    error = away
            if round < 2:
                time.sleep(min(max(_pause(round), after), 1))
        raise error

    # Limiting

    def allow(
        self, key: str, limit: Union[None, str, Limit] = None, n: int = 1, *, peek: bool = False, fail_open: Optional[bool] = None,
        costs: Optional[Dict[str, int]] = None,
    ) -> Decision:
        """Asks whether n requests of a key may pass, and takes them: the policies that are for the key, the one that limit
        names, or a Limit of your own. peek takes nothing. costs are what policies with a cost take in place of n, such as {"tokens": 812}.

        It is asked once, since another attempt could take twice; another node is asked only if the first took nothing.
        While nobody decides, fail_open says what the answer is (None: as of the Client, where the default is True, let pass), and
        after three failures nobody waits for a second. A request that is wrong, of an unknown limit or without a token, is an
        Error."""
        instead = self._fail_open if fail_open is None else fail_open
        if not self._breaker.closed():
            return Decision(instead, False, error=Unavailable("servers did not answer a moment ago", True))
        body = _asked(key, limit, n, peek, costs)
        error: Optional[Exception] = None
        deadline = time.monotonic() + self._allow_timeout
        for at in self._order():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                answer = _object(self._attempt(at, "POST", "/v1/allow", body, _JSON, left, denials=True))
                if "limits" not in answer:
                    raise Unavailable("the answer has no verdicts: is a Weir server at this address?", False)
                self._breaker.worked()
                return Decision(answer["allowed"], True, answer.get("retry_after_s", 0), answer["limits"])
            except Error as refused:
                error = refused
                if refused.code and refused.status < 500 and refused.status != 429:
                    self._breaker.worked()
                    raise
                if not (peek or refused._took_nothing and refused.status >= 500):
                    break
            except Unavailable as away:
                error = away
                if not (peek or away.unsent):
                    break
        self._breaker.failed()
        return Decision(instead, False, error=error)

    def reserve(
        self, key: str, limit: Union[None, str, Limit] = None, n: int = 1, *, ttl: Window = "1m", give_back: bool = False,
        costs: Optional[Dict[str, int]] = None,
    ) -> Reservation:
        """Takes n admissions, or costs, for what a request may need, as allow does; settle says how many it did need. What is not settled within
        ttl stays used, or with give_back is given back. A request whose answer was lost is sent again to the same node, which takes once.
        It does not fail open: where nobody decides it is Unavailable, and something may have been taken."""
        query = {"id": uuid.uuid4().hex, "ttl": ttl, "unsettled": "returned" if give_back else None}
        body, error = _asked(key, limit, n, costs=costs), Exception()
        order = self._order()
        for round in range(3):
            try:
                answer = _object(self._attempt(order[0], "POST", _target("/v1/reserve", query), body, _JSON, self._timeout, denials=True))
                return Reservation(answer["allowed"], answer.get("id", ""), answer.get("retry_after_s", 0), answer["limits"])
            except Error as refused:
                error = refused
                if refused.status < 500:
                    raise
            except Unavailable as away:
                error = away
                if away.unsent and len(order) > 1:
                    order = order[1:]  # nothing of it left: another may as well
                    continue
            if round < 2:
                time.sleep(_pause(round))
        raise error

    def settle(self, id: str, used: Union[int, Dict[str, int]], *, debt: bool = False) -> Settled:
        """Says how many of each limit of a reservation were used: the rest is given back. What was used beyond it counts with debt, whatever the
        limits say, and else only if they have room for it. It may be sent again. A reservation that is not known is an Error
        with the code unknown_reservation. For limits with different costs, used has a number for each cost, such as {"tokens": 200, "requests": 1}."""
        body = {"id": id, "used": used, "over": "debt" if debt else "deny"}
        answer = self._again("POST", "/v1/settle", body=json.dumps(body).encode())
        return Settled(answer.get("again", False), answer.get("over", 0), answer["limits"])

    def refund(self, key: str, limit: Union[None, str, Limit] = None, n: int = 1, *, taken: Optional[float] = None) -> Refund:
        """Gives back what allow took for the same arguments, at the Unix time taken, or without it the newest admissions. It is asked once:
        sent again it would give back twice."""
        target = _target("/v1/refund", {"taken": taken})
        answer = _object(self._attempt(self._order()[0], "POST", target, _asked(key, limit, n), _JSON, self._timeout))
        return Refund(answer["refunded"], answer["limits"])

    def ban(self, limit: str, key: str, length: Window) -> float:
        """Has a key, as it is counted, denied under a policy for so long, whatever it has used, in place of an earlier ban: it may be sent again. It returns
        until when, in Unix time."""
        return self._again("POST", _target("/v1/bans", {"limit": limit, "key": key, "for": length}))["until"]

    def unban(self, limit: str, key: str) -> bool:
        """Lifts the ban of a key; False: there was none. It may be sent again: False then."""
        return self._again("DELETE", _target("/v1/bans", {"limit": limit, "key": key}))["was"]

    def bans(self, n: int = 100) -> List[Ban]:
        """The keys that are banned, as the node that is asked knows them: at most n, 1 to 1000, those whose ban ends last first."""
        return [Ban(b["name"], b["key"], b["until"]) for b in self._again("GET", _target("/v1/bans", {"n": n}))["bans"]]

    def acquire(self, key: str, limit: Optional[str] = None) -> Permit:
        """Takes a permit of all policies with max that are for a key, or of the one that limit names. When as many are held as may be it is an Error with
        the code at_once, whose after says when the first is free if its holder is silent. It is asked once: a permit whose answer was lost is free
        after its ttl."""
        sent = time.monotonic()
        return Permit(self, sent, _object(self._attempt(self._order()[0], "POST", _target("/v1/permits", {"key": key, "limit": limit}), timeout=self._timeout)))

    # Nodes

    def _order(self) -> List[int]:
        first = self._good
        return [(first + i) % len(self._nodes) for i in range(len(self._nodes))]

    def _attempt(
        self, at: int, method: str, target: str, body: Optional[bytes] = None, headers: Optional[Dict[str, str]] = None,
        timeout: float = 5, denials: bool = False,
    ) -> bytes:
        """One request to a node. A node that fails is not asked first again."""
        try:
            status, fields, text = self._nodes[at].request(method, target, body, headers or {}, timeout)
        except Unavailable:
            self._failed(at)
            raise
        refused = None if 200 <= status < 300 else _error(status, fields, text)
        if refused and denials and status == 429 and not refused.code:
            refused = None  # a decision
        if refused and refused._temporary:
            self._failed(at)
        else:
            self._good = at
        if refused:
            refused.body = text
            raise refused
        return text

    def _failed(self, at: int) -> None:
        if self._good == at:
            self._good = (at + 1) % len(self._nodes)


_JSON = {"Content-Type": "application/json"}


def _target(path: str, query: Dict[str, Any]) -> str:
    asked = urlencode({name: value for name, value in query.items() if value is not None}, quote_via=quote)
    return path + "?" + asked if asked else path


def _asked(key: str, limit: Union[None, str, Limit], n: int, peek: bool = False, costs: Optional[Dict[str, int]] = None) -> bytes:
    """What is asked of limits, as the body of a request."""
    asked: Dict[str, Any] = {"key": key, "n": n}
    if limit is not None:
        asked["limit"] = limit._json() if isinstance(limit, Limit) else limit
    if peek:
        asked["peek"] = True
    if costs:
        asked["costs"] = costs
    return json.dumps(asked).encode()


def _object(text: bytes) -> Dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unavailable("the answer is not that of a Weir server", False)
    return answer


def _error(status: int, fields: Any, text: bytes) -> Error:
    problem: Dict[str, Any] = {}
    if (fields.get("Content-Type") or "").startswith("application/problem+json"):
        try:
            problem = json.loads(text)
        except ValueError:
            pass
    try:
        after = float(fields.get("Retry-After") or 0)
    except ValueError:
        after = 0
    return Error(status, problem.get("code", ""), problem.get("detail") or http.client.responses.get(status, "").lower(), problem.get("field", ""), after)


def _pause(failures: int) -> float:
    """Seconds before the next attempt: 0.1 s, doubled each time up to 5 s, up to a half of it taken off at random."""
    return min(5.0, 0.1 * 2 ** min(failures, 10)) * random.uniform(0.5, 1)


class _Node:
    """The connections to a server."""

    def __init__(self, address: str, context: Optional[ssl.SSLContext], headers: Dict[str, str]):
        url = urlsplit(address if "://" in address else "http://" + address)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
            raise ValueError(f"{address!r} is not the address of a server: write for example http://127.0.0.1:8080")
        self.address = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        self._tls, self._host, self._port, self._path = url.scheme == "https", url.hostname, url.port, url.path.rstrip("/")
        self._context, self._headers = context, headers
        if self._tls and context is None:
            self._context = ssl.create_default_context()
        self.forget()

    def forget(self) -> None:
        """Leaves the connections to whoever else has them, after a fork."""
        self._lock, self._idle = threading.Lock(), []  # type: Tuple[threading.Lock, List[http.client.HTTPConnection]]

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()  # the server has closed it
        if self._tls:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except (OSError, ValueError) as e:
            connection.close()
            raise Unavailable(f"{self.address}: {e}", True) from e
        return connection

    def request(self, method: str, target: str, body: Optional[bytes], headers: Dict[str, str], timeout: float) -> Tuple[int, Any, bytes]:
        deadline = time.monotonic() + timeout
        connection = self._connect(timeout)
        try:
            connection.sock.settimeout(max(deadline - time.monotonic(), 0.001))
            connection.request(method, self._path + target, body, {**self._headers, **headers})
            answer = connection.getresponse()
            text = answer.read(_MAX_ANSWER)
        except (OSError, ValueError, http.client.HTTPException) as e:
            connection.close()
            raise Unavailable(f"{self.address}: {e or type(e).__name__}", False) from e
        if answer.will_close or not answer.isclosed():
            connection.close()
        else:
            with self._lock:
                if len(self._idle) < 16:
                    self._idle.append(connection)
                    connection = None  # type: ignore[assignment]
            if connection is not None:
                connection.close()
        return answer.status, answer.headers, text


class _Breaker:
    """After three failures in a row nobody waits for a second; then each failure costs another second."""

    def __init__(self) -> None:
        self._failures, self._until = 0, 0.0

    def closed(self) -> bool:
        return self._failures < 3 or time.monotonic() >= self._until

    def worked(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        self._until = time.monotonic() + 1


_Place = Tuple[str, int, Optional[str]]  # key, second and id of hits that are one line


def _line(place: _Place, n: int) -> Dict[str, Any]:
    key, second, distinct = place
    line: Dict[str, Any] = {"key": key, "n": n, "at": second}
    if distinct is not None:
        line["distinct"] = distinct
    return line


class _Batch:
    """Lines that are sent together. Its body and its key are the same in every attempt."""

    def __init__(self, lines: List[Tuple[_Place, int]], generation: int):
        self.lines, self.generation, self.key = lines, generation, uuid.uuid4().hex
        self.doubtful = 0.0  # monotonic time of the first attempt that got no answer

    def body(self) -> bytes:
        return "".join(json.dumps(_line(place, n), ensure_ascii=False) + "\n" for place, n in self.lines).encode()

    def hits(self) -> int:
        return sum(n for _, n in self.lines)


class _Sender:
    """Sums up hits by key and second, and sends them from a thread of its own."""

    def __init__(self, client: Client, every: float, max_lines: int, max_bytes: int, give_up: float, at_least_once: bool, durable: bool):
        self._nodes, self._attempt, self._order, self._timeout = client._nodes, client._attempt, client._order, client._timeout
        self._every, self._max_lines, self._max_bytes = every, max_lines, max_bytes
        self._give_up, self._at_least_once = give_up, at_least_once
        self._target = "/v1/hits?durable=true" if durable else "/v1/hits"
        self._failed = client._failed
        self.start()

    def start(self) -> None:
        """Begins empty: after a fork the parent sends what was there."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # something was settled, or there is something to do
        self._sums: Dict[_Place, int] = {}
        self._queue: List[_Batch] = []  # to be sent, in this order
        self._sending: Optional[_Batch] = None
        self._doubts: Dict[int, _Batch] = {}  # by node: repeated there, and no other batch is sent there
        self._failures, self._not_until = [0] * len(self._nodes), [0.0] * len(self._nodes)
        self._generation = 0  # of the next lines that are taken
        self._wanted = False  # somebody waits: do not wait for the interval
        self._closed = self._stopped = False
        self._thread: Optional[threading.Thread] = None
        self._taken = self._refused = self._counted = self._too_late = self._rejected = self._in_doubt = self._lines = self._bytes = 0
        for node in self._nodes:
            node.forget()

    def add(self, key: str, n: int, second: int, distinct: Optional[str] = None) -> bool:
        if not isinstance(n, int):
            raise TypeError(f"n is {n!r}: hit(key, n, at) takes a whole number of hits, 1 to {MAX_HITS}")
        if not 1 <= n <= MAX_HITS:
            raise ValueError(f"{n} hits: n must be 1 to {MAX_HITS}")
        place = (key, second, distinct)
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed: this hit was not taken")
            held = self._sums.get(place)
            if held is not None and held + n <= MAX_HITS:
                self._sums[place] = held + n
                self._taken += n
                return True
            size = LINE_BYTES + _check(key, second) + _check_id(distinct)
            if held is not None or self._lines >= self._max_lines or self._bytes + size > self._max_bytes:
                self._refused += n
                return False
            self._sums[place] = n
            self._taken += n
            self._lines += 1
            self._bytes += size
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="weir", daemon=True)
                self._thread.start()
            if self._lines * 2 > self._max_lines or self._bytes * 2 > self._max_bytes:
                self._wanted = True
                self._changed.notify_all()
            return True

    def stats(self) -> Stats:
        with self._lock:
            done = self._counted + self._too_late + self._rejected + self._in_doubt
            return Stats(self._taken, self._refused, self._counted, self._too_late, self._rejected, self._in_doubt, self._taken - done, self._lines, self._bytes)

    def flush(self, timeout: Optional[float]) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            if not self._sums:
                up_to = self._generation - 1
            else:
                up_to = self._generation
            self._wanted = True
            self._changed.notify_all()
            while not self._settled(up_to):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0 or self._stopped:
                    return False
                self._changed.wait(left)
            return True

    def _settled(self, up_to: int) -> bool:
        open = self._queue + list(self._doubts.values()) + ([self._sending] if self._sending else [])
        return self._generation > up_to and all(b.generation > up_to for b in open)

    def close(self, timeout: Optional[float]) -> bool:
        with self._lock:
            self._closed = True
        done = self.flush(timeout)
        with self._lock:
            self._stopped = True
            self._changed.notify_all()
            waiting = self._taken - self._counted - self._too_late - self._rejected - self._in_doubt
        if waiting:
            log.error("%d hits were not sent, or not answered, before the end", waiting)
        return done

    # The thread

    def _run(self) -> None:
        next_cut = time.monotonic() + self._every
        while True:
            with self._lock:
                while not self._stopped and not self._wanted and time.monotonic() < next_cut:
                    self._changed.wait(max(next_cut - time.monotonic(), 0))
                if self._stopped:
                    return
                self._wanted = False
            try:
                wait = self._send_all()
            except Exception:  # a fault here must not end the counting of a process
                log.exception("hits wait: a fault of this client")
                wait = 5.0
            next_cut = time.monotonic() + min(wait, self._every)

    def _send_all(self) -> float:
        """Sends until nothing is left or no node is to be asked now, and says when to come back."""
        while not self._stopped:
            for at in self._due():
                self._repeat(at)
            at, wait = self._node()
            if at is None:
                return wait
            batch = self._next()
            if batch is None:
                return min(wait, self._every)
            self._send(at, batch)
        return self._every

    def _due(self) -> List[int]:
        now = time.monotonic()
        return [at for at, batch in self._doubts.items() if now >= self._not_until[at]]

    def _node(self) -> Tuple[Optional[int], float]:
        now, wait = time.monotonic(), self._every
        free = None
        for at in self._order():
            if self._not_until[at] > now:
                wait = min(wait, max(self._not_until[at] - now, 0.001))
            elif at not in self._doubts and free is None:
                free = at
        return free, wait

    def _next(self) -> Optional[_Batch]:
        """The batch to send. While some wait, none is made, so that hits go on adding up."""
        with self._lock:
            if not self._queue:
                lines, self._sums = list(self._sums.items()), {}
                generation, self._generation = self._generation, self._generation + 1
                self._queue = [_Batch(part, generation) for part in _parts(lines)]
            self._sending = self._queue.pop(0) if self._queue else None
            if self._sending is None:
                self._changed.notify_all()
            return self._sending

    def _post(self, at: int, batch: _Batch) -> Tuple[str, Dict[str, Any], Optional[Exception]]:
        """One attempt: ("settled", answer), ("split"), ("later") when it counted nothing, or ("doubt")."""
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": batch.key}
        try:
            answer = json.loads(self._attempt(at, "POST", self._target, batch.body(), headers, self._timeout))
            return ("settled", answer, None) if isinstance(answer, dict) and "counted" in answer else ("doubt", {}, Unavailable("the answer is not that of a Weir server", False))
        except ValueError:
            return "doubt", {}, Unavailable("the answer is not that of a Weir server", False)
        except Unavailable as away:
            return ("later" if away.unsent else "doubt"), {}, away
        except Error as refused:
            too_large = refused.code in ("too_many_lines", "body_too_large")
            if too_large and len(batch.lines) > 1:
                return "split", {}, refused
            if not refused._took_nothing:
                return "doubt", {}, refused
            try:
                answer = json.loads(refused.body)
            except ValueError:
                answer = {}
            # Who may send hits, and what a server is set to, may change; what hits are does not.
            if not refused._temporary and (too_large or refused.code in ("nothing_counted", "too_late") or answer.get("rejected_lines")):
                return "settled", answer, refused
            return "later", {}, refused

    def _send(self, at: int, batch: _Batch) -> None:
        what, answer, error = self._post(at, batch)
        with self._lock:
            self._sending = None
            if what == "settled":
                self._settle(at, batch, answer, error)
            elif what == "split":
                half = len(batch.lines) // 2
                self._queue[:0] = [_Batch(batch.lines[:half], batch.generation), _Batch(batch.lines[half:], batch.generation)]
            else:
                if what == "later":
                    self._queue.insert(0, batch)
                else:
                    batch.doubtful = time.monotonic()
                    self._doubts[at] = batch
                self._rest(at, error)
        if what == "later":
            self._failed(at)
            log.warning("%s: hits wait: %s", self._nodes[at].address, error)
        elif what == "doubt":
            log.warning("%s: a batch of %d hits got no answer, and is sent there again: %s", self._nodes[at].address, batch.hits(), error)

    def _repeat(self, at: int) -> None:
        """Sends the batch that is in doubt at a node to it again. That an attempt is refused says nothing about those before."""
        batch = self._doubts[at]
        what, answer, error = "doubt", {}, None  # type: Tuple[str, Dict[str, Any], Optional[Exception]]
        late = time.monotonic() - batch.doubtful >= self._give_up
        if not late:
            what, answer, error = self._post(at, batch)
        with self._lock:
            if what == "settled":
                del self._doubts[at]
                self._settle(at, batch, answer, error)
                return
            if not late:
                self._rest(at, error)
                left = batch.doubtful + self._give_up
                self._not_until[at] = min(self._not_until[at], left)
                return
            del self._doubts[at]
            if self._at_least_once:
                self._queue.insert(0, batch)
            else:
                self._in_doubt += batch.hits()
                self._release(batch.lines)
        log.error("%s: of %d hits that it did not answer nobody knows whether they count: they are %s", self._nodes[at].address, batch.hits(),
                  "sent again, also to other nodes" if self._at_least_once else "dropped")

    def _rest(self, at: int, error: Optional[Exception]) -> None:
        pause = max(_pause(self._failures[at]), min(getattr(error, "after", 0), 5))
        self._failures[at] += 1
        self._not_until[at] = time.monotonic() + pause

    def _settle(self, at: int, batch: _Batch, answer: Dict[str, Any], error: Optional[Exception]) -> None:
        self._failures[at] = 0
        done, start = batch.lines, answer.get("retry_from", 0)
        if 1 < start <= len(batch.lines):  # the server took none of these: another key for them
            done = batch.lines[:start - 1]
            self._queue[:0] = [_Batch(batch.lines[start - 1:], batch.generation)]
            self._not_until[at] = time.monotonic() + 1
        sent = sum(n for _, n in done)
        counted = min(answer.get("counted", 0), sent)
        late = min(answer.get("too_late", 0), sent - counted)
        self._counted += counted
        self._too_late += late
        self._rejected += sent - counted - late
        self._release(done)
        if sent > counted + late:
            why = (answer.get("rejected") or [{}])[0].get("message") or error
            log.error("%d hits were rejected, the first because %s", sent - counted - late, why)

    def _release(self, lines: List[Tuple[Tuple[str, int], int]]) -> None:
        self._lines -= len(lines)
        self._bytes -= sum(LINE_BYTES + len(key.encode()) + _check_id(distinct) for (key, _, distinct), _ in lines)
        self._changed.notify_all()


def _check_id(distinct: Optional[str]) -> int:
    """The bytes of an id that a server would take."""
    if distinct is None:
        return 0
    if not isinstance(distinct, str):
        raise TypeError(f"distinct is {distinct!r}: it must be a str")
    size = len(distinct.encode())
    if not 1 <= size <= MAX_KEY_BYTES:
        raise ValueError(f"distinct of {size} bytes: it must have 1 to {MAX_KEY_BYTES}")
    return size


def _check(key: str, second: int) -> int:
    """The bytes of a key that a server would count."""
    if not isinstance(key, str):
        raise TypeError(f"key is {key!r}: it must be a str")
    size = len(key.encode())  # a lone surrogate is a ValueError
    if not 1 <= size <= MAX_KEY_BYTES:
        raise ValueError(f"a key of {size} bytes: it must have 1 to {MAX_KEY_BYTES}")
    if key == "*" or key.startswith("limit:"):
        raise ValueError(f"key {key!r}: the server counts it by itself, and takes no hits of it")
    if second < 0:
        raise ValueError(f"a hit of {-second} s before 1970: is the clock set?")
    return size


def _parts(lines: List[Tuple[Tuple[str, int], int]]) -> List[List[Tuple[Tuple[str, int], int]]]:
    parts, part, size = [], [], 0
    for line in lines:
        if len(part) >= _BATCH_LINES or size >= _BATCH_BYTES:
            parts.append(part)
            part, size = [], 0
        part.append(line)
        size += len(line[0][0]) * 2 + 64
    if part:
        parts.append(part)
    return parts


_senders: "weakref.WeakSet[_Sender]" = weakref.WeakSet()


def _at_exit() -> None:
    for sender in list(_senders):
        if not sender._closed and sender._thread is not None:
            sender.close(2)


def _after_fork() -> None:
    for sender in list(_senders):
        if not sender._stopped:
            sender.start()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
