"""Hydrates a file of ids through twarc or twarc2, as `twarc hydrate` and `twarc2 hydrate` do, but at the simulator: their
commands know Twitter's own address alone. Prints what it cost as JSON.

    hydrate.py twarc|twarc2 API IDS OUT
"""

import json
import os
import resource
import sys
import time

STARTED = time.monotonic()
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # the simulator speaks plain HTTP, on this machine alone

import requests  # noqa: E402
from twarc import Twarc, Twarc2  # noqa: E402

CLIENT, API, IDS, OUT = sys.argv[1:]
ASK = requests.Session.request
requests.Session.request = lambda session, method, url, *args, **kwargs: ASK(
    session, method, url.replace("https://api.twitter.com", API), *args, **kwargs)

POSTS = 0
with open(IDS) as ids, open(OUT, "w") as out:
    if CLIENT == "twarc":
        keys = {"consumer_key": "ck", "consumer_secret": "cs", "access_token": "7-t", "access_token_secret": "ts"}
        for post in Twarc(**keys, validate_keys=False).hydrate(line.strip() for line in ids):
            POSTS += 1
            out.write(json.dumps(post) + "\n")
    else:
        for page in Twarc2(bearer_token="a-bearer-token").tweet_lookup(line.strip() for line in ids):
            POSTS += len(page["data"])
            out.write(json.dumps(page) + "\n")

USED = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"posts": POSTS, "wall": time.monotonic() - STARTED, "processor": USED.ru_utime + USED.ru_stime}))
