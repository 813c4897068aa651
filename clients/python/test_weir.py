"""Tests of weir.py against real servers, which clients_test.go starts and names in the environment."""

import inspect
import logging
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
import uuid

import weir

HERE = os.path.dirname(os.path.abspath(__file__))
A, B, LOSING, SILENT, DOWN = (os.environ["WEIR_TEST_" + name] for name in ("A", "B", "LOSING", "SILENT", "DOWN"))
LOCKED, TOKEN, CA, CERT, KEY = (os.environ["WEIR_TEST_" + name] for name in ("LOCKED", "TOKEN", "CA", "CERT", "KEY"))

logging.getLogger("weir").setLevel(logging.CRITICAL)


def unique(name):
    return f"py:{name}:{uuid.uuid4().hex[:8]}"


def total(key, *addresses):
    """What independent servers have counted of a key."""
    return sum(weir.Client(address).count(key).estimate for address in addresses or (A,))


def until(done, what):
    deadline = time.monotonic() + 20
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within 20 s")
        time.sleep(0.01)


class Counting(unittest.TestCase):
    def test_distinct(self):
        key = unique("visitors")
        with weir.Client(A) as w:
            for i in range(20):
                self.assertTrue(w.hit(key, distinct=f"ann {i % 3} \""))
            self.assertTrue(w.hit(key, 2))
            for bad in ("", "x" * 513):
                self.assertRaises(ValueError, w.hit, key, distinct=bad)
            self.assertTrue(w.flush(10))
            count = w.count(key, distinct=True)
            self.assertEqual((count.estimate, count.raw["distinct"]), (22, {"estimate": 3, "error": 0, "lower": 3, "upper": 3}))

    def test_hits_are_summed_and_asked_for(self):
        key = unique("é \"\\\n")
        with weir.Client(A) as w:
            for _ in range(1000):
                self.assertTrue(w.hit(key))
            self.assertTrue(w.hit(key, 5, at=time.time() - 100))
            self.assertEqual(w.stats().waiting + w.stats().counted, 1005)
            self.assertTrue(w.flush(10))
            count = w.count(key, "1h")
            self.assertEqual((count.key, count.window, count.lower, count.estimate, count.upper, count.exact), (key, 3600, 1005, 1005, 1005, True))
            self.assertEqual(w.count(key, 60).estimate, 1000)
            self.assertEqual(w.rate(key, "10m").rate, 1.675)
            top = w.top("1h", 1, prefix=key[:20])
            self.assertEqual([(k.key, k.estimate) for k in top.keys], [(key, 1005)])
            stats = w.stats()
            self.assertEqual((stats.counted, stats.waiting, stats.lines, stats.bytes), (1005, 0, 0, 0))
        with self.assertRaises(RuntimeError):
            w.hit(key)

    def test_sent_by_itself(self):
        key, w = unique("by itself"), weir.Client(A)
        w.hit(key)
        until(lambda: w.stats().counted == 1, "sent without a flush")
        w.close()

    def test_lost_answers_count_once(self):
        key = unique("lost")
        with weir.Client(LOSING, every=0.001) as w:
            for _ in range(20):
                for _ in range(10):
                    w.hit(key)
                self.assertTrue(w.flush(20))
            self.assertEqual(w.stats().counted, 200)
        self.assertEqual(total(key), 200)

    def test_another_node_takes_over(self):
        key = unique("over")
        with weir.Client(f"{DOWN},{A}") as w:
            w.hit(key, 3)
            self.assertTrue(w.flush(10))
            self.assertEqual(w.count(key).estimate, 3)

    def test_what_is_in_doubt_is_given_up(self):
        for at_least_once in False, True:
            old, new = unique("doubt"), unique("new")
            with weir.Client(f"{SILENT},{A}", timeout=1, give_up=2.5, at_least_once=at_least_once, every=0.01) as w:
                w.hit(old, 7)
                until(lambda: w._hits._doubts, "the silent node has a batch in doubt")
                w.hit(new)
                until(lambda: total(new) == 1, "new hits go to the other node")
                self.assertTrue(w.flush(20))
                stats = w.stats()
            self.assertEqual((stats.in_doubt, stats.counted, total(old)), (0, 8, 7) if at_least_once else (7, 1, 0))

    def test_bound(self):
        for bound in {"max_lines": 2}, {"max_bytes": 2 * (weir.LINE_BYTES + 1) + 600}:
            w = weir.Client(DOWN, **bound)
            now = time.time()
            self.assertTrue(w.hit("a", at=now) and w.hit("b", at=now))
            again = w.hit("a", at=now)  # adds to the line of the first, if that is not being sent yet
            taken = sum(w.hit(str(i) * 300, at=now) for i in range(9))
            stats = w.stats()
            self.assertEqual((stats.taken, stats.refused), (2 + again + taken, 10 - again - taken))
            self.assertLess(taken, 3)
            self.assertFalse(w.close(0.01))

    def test_a_burst_is_sent_at_once(self):
        with weir.Client(A, every=600, max_lines=10) as w:
            for i in range(6):
                w.hit(unique("burst"))
            until(lambda: w.stats().counted >= 6, "half of the bound is sent")

    def test_waits_for_a_server(self):
        key = unique("later")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        with weir.Client(f"127.0.0.1:{port}") as w:
            w.hit(key, 4)
            self.assertFalse(w.flush(0.3))
            with forward(port):
                self.assertTrue(w.flush(20))
        self.assertEqual(total(key), 4)

    def test_wrong_hits(self):
        with weir.Client(A) as w:
            for key, n, at in ("", 1, 0), ("k" * 513, 1, 0), ("*", 1, 0), ("limit:x", 1, 0), ("\ud800", 1, 0), ("k", 0, 0), ("k", 1 << 41, 0), ("k", 1, -1):
                with self.assertRaises(ValueError):
                    w.hit(key, n, at)
            for args in ("k", "x"), ("k", 1.5), (b"k",), (None,):
                with self.assertRaisesRegex(TypeError, "whole number of hits|must be a str"):
                    w.hit(*args)
            w.hit("k", at=time.time() + 1000)
            w.hit("k", at=0)
            self.assertTrue(w.flush(10))
            self.assertEqual((w.stats().rejected, w.stats().too_late), (1, 1))

    def test_sent_at_the_end_of_a_program(self):
        key = unique("end")
        subprocess.run([sys.executable, "-c", f"import weir; weir.Client({A!r}, every=600).hit({key!r}, 6)"], cwd=HERE, check=True)
        self.assertEqual(total(key), 6)

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork here")
    def test_fork(self):
        key, program = unique("fork"), """
import os, sys, weir
w = weir.Client(sys.argv[1], every=600)
w.hit(sys.argv[2], 1)
if os.fork() == 0:
    w.hit(sys.argv[2], 10)
else:
    os.wait()
"""
        subprocess.run([sys.executable, "-W", "ignore", "-c", program, A, key], cwd=HERE, check=True)
        self.assertEqual(total(key), 11)

    def test_threads(self):
        key = unique("threads")
        with weir.Client(A, every=0.001) as w:
            threads = [threading.Thread(target=lambda: [w.hit(key) for _ in range(2000)]) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertTrue(w.flush(20))
        self.assertEqual(total(key), 8000)

    def test_settings(self):
        for wrong in {"every": 0}, {"max_lines": 0}, {"max_bytes": 9}, {"give_up": 600}, {"timeout": 0}:
            with self.assertRaises(ValueError):
                weir.Client(A, **wrong)
        for address in "", "ftp://x", "http://", "http://x?y":
            with self.assertRaises(ValueError):
                weir.Client(address)


class Deciding(unittest.TestCase):
    def test_allow(self):
        key, limit = unique("allow"), weir.Limit(2, "1m", name="py")
        with weir.Client(A, allow_timeout=10) as w:
            self.assertTrue(w.allow(key, limit, peek=True))
            self.assertTrue(w.allow(key, limit, 2))
            self.assertEqual(w.allow("llm:" + key, costs={"tokens": 70}).limits[0]["remaining"], 30)
            d = w.allow(key, limit)
            self.assertTrue(not d and d.decided and d.retry_after > 50 and d.limits[0]["name"] == "py")
            for wrong in lambda: w.allow(key, "no such limit"), lambda: w.allow(key, limit, 3):
                with self.assertRaises(weir.Error) as e:
                    wrong()
                self.assertIn(e.exception.code, ("unknown_limit", "invalid_count"))

    def test_reserve_settle_refund(self):
        for address in A, LOSING:
            key, limit = unique("reserve"), weir.Limit(10, "1m", name="py-reserve")
            w = weir.Client(address)
            r = w.reserve(key, limit, 8, ttl="5m")
            self.assertTrue(r and r.id)
            denied = w.reserve(key, limit, 3)
            self.assertTrue(not denied and not denied.id and denied.retry_after > 0)
            self.assertEqual(w.settle(r.id, 3).limits[0]["used"], 3)
            again = w.settle(r.id, 3)
            self.assertTrue(again.again and again.limits[0]["used"] == 3)
            with self.assertRaises(weir.Error) as e:
                w.settle(r.id, 5)
            self.assertEqual(e.exception.code, "key_reused")
            more = w.reserve(key, limit, 7, give_back=True)
            self.assertTrue(more)
            self.assertEqual(w.settle(more.id, 8).over, 1)
            with self.assertRaises(weir.Error) as e:
                w.settle("no such id", 1)
            self.assertEqual(e.exception.code, "unknown_reservation")
        w = weir.Client(A, allow_timeout=10)
        r = w.reserve("llm:" + key, costs={"tokens": 70, "requests": 2})
        used = {l["name"]: l["used"] for l in w.settle(r.id, {"tokens": 60, "requests": 1}).limits}
        self.assertEqual(used, {"tpm": 60, "rpm": 1})
        self.assertFalse(w.allow(key, limit))
        self.assertEqual(w.refund(key, limit, 2).refunded, 2)
        self.assertTrue(w.allow(key, limit, 2))
        with self.assertRaises(weir.Unavailable):
            weir.Client(DOWN).reserve(key, limit)
        self.assertTrue(weir.Client(f"{DOWN},{A}").reserve(unique("over"), limit))

    def test_bans(self):
        w, key = weir.Client(A, allow_timeout=10), "llm:" + unique("ban")
        self.assertTrue(w.allow(key, costs={"tokens": 1}))
        self.assertGreater(w.ban("tpm", key, "2h"), time.time() + 7000)
        self.assertFalse(w.allow(key, costs={"tokens": 1}))
        self.assertIn(("tpm", key), [(b.limit, b.key) for b in w.bans(1000)])
        self.assertTrue(w.unban("tpm", key))
        self.assertFalse(w.unban("tpm", key))
        self.assertTrue(w.allow(key, costs={"tokens": 1}))
        with self.assertRaises(weir.Error) as e:
            w.ban("nobody", key, "2h")
        self.assertEqual(e.exception.code, "unknown_limit")

    def test_permits(self):
        w, key = weir.Client(A), "jobs:" + unique("permit")

        def acquire():
            try:
                return w.acquire(key)
            except weir.Error as e:
                self.assertTrue(e.code == "at_once" and e.after > 0)  # of a server that has just started, too

        held = []
        until(lambda: held.append(acquire()) or held[-1], "the server knows who holds permits")
        permit = held[-1]
        self.assertTrue(not permit.unmatched and permit.ttl == 1 and permit.until <= time.monotonic() + 1)
        self.assertTrue(weir.Client(A).acquire("none:" + key).unmatched)
        try:
            permit.heartbeat()
        except weir.Error as lost:
            self.assertEqual(lost.code, "permit_lost")
            self.assertGreater(time.monotonic(), permit.until)
        other = acquire()
        if other:
            self.assertGreater(time.monotonic(), permit.until)
            other.release()
        permit.release()
        self.assertFalse(permit.release())
        with w.acquire(key) as other:
            pass
        with self.assertRaises(weir.Error) as e:
            other.heartbeat()
        self.assertEqual(e.exception.code, "permit_lost")

    def test_fails_open_or_closed(self):
        for address in DOWN, SILENT:
            for fail_open in True, False:
                w = weir.Client(address, fail_open=fail_open, allow_timeout=0.1)
                began = time.monotonic()
                for _ in range(50):
                    d = w.allow("k")
                    self.assertEqual((bool(d), d.decided, d.error is None), (fail_open, False, False))
                self.assertLess(time.monotonic() - began, 4)  # after three failures nobody waits; else it is 5 of the silent one
                self.assertEqual(bool(w.allow("k", fail_open=not fail_open)), not fail_open)

    def test_another_node_decides_if_the_first_took_nothing(self):
        limit = weir.Limit(1, "1m")
        self.assertTrue(weir.Client(f"{DOWN},{A}", allow_timeout=10).allow(unique("over"), limit).decided)
        d = weir.Client(f"{SILENT},{A}", allow_timeout=0.2).allow(unique("over"), limit)
        self.assertFalse(d.decided or d.error.unsent)


class Locked(unittest.TestCase):
    def test_token_and_certificate(self):
        key = unique("locked")
        with weir.Client(LOCKED, ca_file=CA, token=TOKEN) as w:
            w.hit(key, 2)
            self.assertTrue(w.flush(10))
            self.assertEqual(w.count(key).estimate, 2)
        with weir.Client(LOCKED, ca_file=CA, cert_file=CERT, key_file=KEY) as w:
            self.assertEqual(w.count(key).estimate, 2)

    def test_strangers(self):
        with self.assertRaises(weir.Unavailable) as away:
            weir.Client(LOCKED).count("k")
        self.assertIn("certificate", str(away.exception))
        with self.assertRaises(weir.Error) as refused:
            weir.Client(LOCKED, ca_file=CA).count("k")
        self.assertEqual((refused.exception.status, refused.exception.code), (401, "unauthorized"))
        w = weir.Client(LOCKED, ca_file=CA)
        w.hit("k")
        self.assertIsNotNone(inspect.signature(w.flush).parameters["timeout"].default)  # a program without a token does not hang
        self.assertFalse(w.flush(0.1))
        self.assertFalse(w.close(0.3))
        self.assertEqual(w.stats().waiting, 1)  # until it has a token


class forward:
    """Forwards a port to server A."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", port))

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        host, _, port = A.rpartition("//")[2].rpartition(":")
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection((host, int(port)))
            for a, b in (near, far), (far, near):
                threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    @staticmethod
    def copy(a, b):
        try:
            while True:
                data = a.recv(65536)
                if not data:
                    break
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass


if __name__ == "__main__":
    unittest.main()
