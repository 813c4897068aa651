"""limits_compare.py WEIR REDIS: Python's limits decides the same on both, at times of this program's choice."""
import random
import sys
import time

import limits
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

now = 1_800_000_000.25
time.time = lambda: now
storages = [limits.storage.storage_from_string("redis://" + address) for address in sys.argv[1:3]]
rng = random.Random(1)
compared = 0


def same(what, call):
    global compared
    replies = [call(i) for i in range(2)]
    if replies[0] != replies[1]:
        sys.exit(f"{what}: weir {replies[0]}, redis {replies[1]}")
    compared += 1


for kind in FixedWindowRateLimiter, MovingWindowRateLimiter:
    limiters = [kind(storage) for storage in storages]
    for item in limits.parse("5/hour"), limits.parse("1/hour"), limits.parse("40/2 hours"):
        for step in range(250):
            now += rng.choice([0, 1, 60, 700]) + rng.random()
            key, cost = f"{kind.__name__}{rng.randrange(3)}", rng.choice([1, 1, 1, 2, 5])
            if kind is MovingWindowRateLimiter:
                cost = min(cost, item.amount)  # limits 2 lets more than that pass at times, and Weir does not
            what = f"{item} {key} {cost}, step {step}"
            ask = rng.randrange(8)
            if ask < 5:
                same("hit " + what, lambda i: limiters[i].hit(item, key, cost=cost))
            elif ask == 5:
                same("test " + what, lambda i: limiters[i].test(item, key))
            elif ask == 6:
                same("stats " + what, lambda i: limiters[i].get_window_stats(item, key)[1])
            elif rng.randrange(5) == 0:
                same("clear " + what, lambda i: limiters[i].clear(item, key))
same("reset", lambda i: storages[i].reset())
print(f"limits {limits.__version__}: compared {compared} calls")
