"""Other people's clients at the simulator: signed calls, paging, errors, limits. Started by .ci/clients."""

import datetime
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings

import atproto
import mastodon
import requests
import requests_oauthlib
import tweepy
import twitter
from atproto_client import exceptions
from twarc import Twarc, Twarc2
from twarc.expansions import ensure_flattened

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
# The simulator speaks plain HTTP, on this machine alone.
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"

KEYS = {"consumer_key": "ck", "consumer_secret": "cs", "token": "7-t", "token_secret": "ts"}
BEARER = "a-bearer-token"
# An author of the simulated world, and one that is not there.
USER, HANDLE, NOBODY = 49602, "tiny_heron0", "missing"
# The account that most others follow.
FOLLOWED = 10007
FAILED = []
WHERE = {"api": ""}


class Simulator:
    """The binary, by settings; where it listens is what the clients ask."""

    def __init__(self, binary, **settings):
        settings = {"latency": "0s", "jitter": "0s", "missing_share": 0, "withheld_share": 0, "retweet_share": 0.3,
                    "check_credentials": "true", **settings}
        variables = {f"SIMULATOR__{name.upper()}": str(value) for name, value in settings.items()}
        for section in ("TWITTER", "X"):
            for name, value in {**KEYS, "kind": "both"}.items():
                variables[f"{section}__CREDENTIALS__MAIN__{name.upper()}"] = value
        variables["X__BEARER_TOKEN"] = BEARER
        variables["MASTODON__INSTANCES__SOCIAL__API"] = "http://127.0.0.1"
        variables["MASTODON__INSTANCES__SOCIAL__BEARER_TOKEN"] = BEARER
        self.folder = tempfile.TemporaryDirectory()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TWITTER_UPDATER__")}
        environment |= {f"TWITTER_UPDATER__{name}": value for name, value in variables.items()}
        self.process = subprocess.Popen([binary, "simulator", "--listen", "127.0.0.1:0"], env=environment,
                                        cwd=self.folder.name, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        said, _, api = line.strip().partition("simulated API at ")
        assert said == "" and api, f"the simulator said {line!r}"
        WHERE["api"] = api
        return api

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(10) == 0, "the simulator did not end well"
        self.folder.cleanup()


def led_to_the_simulator():
    """Clients that know one address alone ask the simulator there. The address that they sign is the simulator's."""
    ask = requests.Session.request

    def asked(session, method, url, *args, **kwargs):
        return ask(session, method, url.replace("https://api.twitter.com", WHERE["api"]), *args, **kwargs)

    requests.Session.request = asked


def call(client, name, does):
    """Makes a call, and prints what came of it."""
    try:
        said = does()
        print(f"ok      {client:<15} {name:<58} {'' if said is None else said}", flush=True)
    except Exception as error:  # whatever it is, it is not what was expected
        FAILED.append(f"{client} {name}")
        print(f"FAILED  {client:<15} {name:<58} {type(error).__name__}: {error}"[:500], flush=True)


def refused(does, error, holds=lambda error: True):
    """What a call that has to fail says; anything else is a failure."""
    try:
        answer = does()
    except error as said:
        assert holds(said), f"{type(said).__name__}: {said}"
        return f"{type(said).__name__}: {said}".replace("\n", " ")[:80]
    raise AssertionError(f"no {error.__name__}, but {answer!r}"[:300])


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"[:400]


def ago(hours):
    return int((time.time() - 3600 * hours) * 1000)


def tweet_ids(count, hours=24):
    return [str(((ago(hours) - 1288834974657) << 22) | n) for n in range(count)]


def utc(hours):
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) - datetime.timedelta(hours=hours)


UNKNOWN = tweet_ids(1, hours=-24)[0]


def falling(ids, least):
    """Ids of pages in a row: each once, and from new to old."""
    ids = [int(one) for one in ids]
    assert len(ids) >= least and ids == sorted(set(ids), reverse=True), f"{len(ids)} ids, not from new to old"
    return f"{len(ids)} posts"


def codes(*expected):
    return lambda error: list(error.api_codes) == list(expected)


def tweepy_v1():
    keys = (KEYS["consumer_key"], KEYS["consumer_secret"], KEYS["token"], KEYS["token_secret"])
    api = tweepy.API(tweepy.OAuth1UserHandler(*keys))
    raw = tweepy.API(tweepy.OAuth1UserHandler(*keys), parser=tweepy.parsers.JSONParser())
    wrong = tweepy.API(tweepy.OAuth1UserHandler(*keys[:3], "other"))
    stranger = tweepy.API(tweepy.OAuth1UserHandler(*keys[:2], "8-t", "ts"))
    app = tweepy.API(tweepy.OAuth2AppHandler(*keys[:2]))
    ids = tweet_ids(100)

    def looked_up():
        equal(sorted(post.id_str for post in api.lookup_statuses(ids)), sorted(ids))

    def mapped():
        found = raw.lookup_statuses(ids[:3] + [UNKNOWN], map=True)["id"]
        equal({name: post is not None for name, post in found.items()}, {**dict.fromkeys(ids[:3], True), UNKNOWN: False})

    def trimmed():
        for posts in (raw.lookup_statuses(ids[:1], trim_user=True), raw.user_timeline(user_id=USER, trim_user=True)):
            equal(sorted(posts[0]["user"]), ["id", "id_str"])

    def timeline():
        posts = list(tweepy.Cursor(api.user_timeline, screen_name=HANDLE, count=200).items(500))
        equal({(post.user.screen_name, post.user.id) for post in posts}, {(HANDLE, USER)})
        again = api.user_timeline(user_id=USER, max_id=posts[0].id, count=200)
        equal([post.id for post in again], [post.id for post in posts[:200]])
        # By its id, too, a post is that author's.
        equal({post.user.id for post in api.lookup_statuses([post.id for post in posts[:100]])}, {USER})
        return falling([post.id for post in posts], 500)

    def searched():
        posts = list(tweepy.Cursor(api.search_tweets, q="rust lang", count=100).items(250))
        assert len({post.user.id for post in posts}) > 100, "a search has many authors"
        return falling([post.id for post in posts], 250)

    def until():
        day = utc(48).strftime("%Y-%m-%d")
        posts = api.search_tweets(q="rust lang", until=day, count=100)
        assert posts and all(post.created_at.strftime("%Y-%m-%d") < day for post in posts)
        days = api.search_tweets(q=f"rust lang since:{utc(72):%Y-%m-%d} until:{day}", count=100)
        equal([post.id for post in days], [post.id for post in posts])

    def access():
        seen = {}
        heard = lambda response, *_, **__: seen.update(response.headers)
        api.session.hooks["response"].append(heard)
        api.get_status(ids[0])
        api.session.hooks["response"].remove(heard)
        equal((seen["x-access-level"], seen["content-encoding"]), ("read", "gzip"))

    calls = {
        "account/verify_credentials": lambda: f"@{api.verify_credentials().screen_name}",
        "account/verify_credentials, of an application": lambda: refused(app.verify_credentials, tweepy.Forbidden, codes(220)),
        "statuses/lookup of 100": looked_up,
        "statuses/lookup, map=True": mapped,
        "statuses/lookup, user_timeline, trim_user": trimmed,
        "statuses/lookup of 101": lambda: refused(lambda: api.lookup_statuses(tweet_ids(101)), tweepy.Forbidden, codes(18)),
        "statuses/show": lambda: equal(api.get_status(ids[0]).id_str, ids[0]),
        "statuses/show, unknown id": lambda: refused(
            lambda: api.get_status(UNKNOWN), (tweepy.NotFound, tweepy.Forbidden), lambda said: said.api_codes[0] in (144, 179)),
        "statuses/show: x-access-level and gzip": access,
        "statuses/user_timeline, 3 pages by handle and by id": timeline,
        "statuses/user_timeline, no such user": lambda: refused(
            lambda: api.user_timeline(screen_name=NOBODY), tweepy.NotFound, codes(34)),
        "search/tweets, 3 pages": searched,
        "search/tweets, until and since": until,
        "lists/statuses by slug": lambda: falling(
            [post.id for post in api.list_timeline(slug="news", owner_screen_name=HANDLE, count=50)], 50),
        "lists/statuses without an owner": lambda: refused(
            lambda: api.list_timeline(slug="news"), tweepy.BadRequest, codes(112)),
        "users/show": lambda: equal(api.get_user(screen_name=HANDLE).id, USER),
        "users/lookup": lambda: equal([user.id for user in api.lookup_users(user_id=[USER])], [USER]),
        "users/lookup, none there": lambda: refused(
            lambda: api.lookup_users(screen_name=[NOBODY]), tweepy.NotFound, codes(17)),
        "application/rate_limit_status": lambda: equal(
            api.rate_limit_status(resources="search")["resources"]["search"]["/search/tweets"]["limit"], 180),
        "wrong signature": lambda: refused(lambda: wrong.get_status(ids[0]), tweepy.Unauthorized, codes(32)),
        "unknown token": lambda: refused(lambda: stranger.get_status(ids[0]), tweepy.Unauthorized, codes(89)),
        "wrong keys for oauth2/token": lambda: refused(
            lambda: tweepy.OAuth2AppHandler("ck", "other"), tweepy.TweepyException),
        "unknown path": lambda: refused(lambda: api.request("GET", "nowhere/at_all"), tweepy.NotFound, codes(34)),
    }
    for name, does in calls.items():
        call("tweepy.API", name, does)


def signed_elsewhere():
    """Signatures in the query and in the form."""
    ids = ",".join(tweet_ids(3))
    address = "https://api.twitter.com/1.1/statuses/lookup.json"

    def asked(method, kind, secret=KEYS["token_secret"]):
        auth = requests_oauthlib.OAuth1(KEYS["consumer_key"], KEYS["consumer_secret"], KEYS["token"], secret,
                                        signature_type=kind)
        given = {"params": {"id": ids}} if method == "GET" else {"data": {"id": ids}}
        answer = requests.request(method, address, auth=auth, **given)
        if answer.status_code == 200:
            return 200, len(answer.json())
        return answer.status_code, [error["code"] for error in answer.json()["errors"]]

    def bare():
        answer = requests.get(address, params={"id": ids})
        equal((answer.status_code, answer.json()["errors"][0]["code"]), (400, 215))

    call("requests", "no credential", bare)
    for method, kind in (("GET", "query"), ("POST", "body"), ("POST", "auth_header")):
        call("requests", f"OAuth 1.0a, {method}, {kind.lower()}", lambda: equal(asked(method, kind), (200, 3)))
        call("requests", f"OAuth 1.0a, {method}, {kind.lower()}, wrong", lambda: equal(asked(method, kind, "other"), (401, [32])))


def tweepy_v2():
    keys = {"consumer_key": "ck", "consumer_secret": "cs", "access_token": "7-t", "access_token_secret": "ts"}
    client, user = tweepy.Client(BEARER), tweepy.Client(**keys)
    wrong = tweepy.Client(**{**keys, "access_token_secret": "other"})
    ids = tweet_ids(100)

    def bare():
        found = client.get_tweets(ids)
        equal(sorted(str(post.id) for post in found.data), sorted(ids))
        equal(sorted(found.data[0].data), ["edit_history_tweet_ids", "id", "text"])
        equal(found.includes, {})

    def full():
        found = client.get_tweets(ids, tweet_fields=["created_at", "public_metrics"], user_fields=["created_at"],
                                  expansions=["author_id", "referenced_tweets.id"])
        equal({user.id for user in found.includes["users"]}, {post.author_id for post in found.data})
        equal(set(found.includes["users"][0].data), {"id", "name", "username", "created_at"})
        retweets = {post.referenced_tweets[0].id for post in found.data if post.referenced_tweets}
        assert len(retweets) > 10 and {post.id for post in found.includes["tweets"]} == retweets
        assert found.data[0].public_metrics and found.includes["tweets"][0].created_at
        return f"{len(retweets)} are retweets"

    def by_post():
        answer = client.request("GET", "/2/tweets", {"ids": ids[0], "post.fields": "public_metrics,edit_history_post_ids"})
        post = answer.json()["data"][0]
        assert "repost_count" in post["public_metrics"] and "edit_history_post_ids" in post, post

    def one():
        equal(str(client.get_tweet(ids[0]).data.id), ids[0])
        missing = client.get_tweet(UNKNOWN)
        equal((missing.data, missing.errors[0]["parameter"]), (None, "id"))

    def users():
        for found in (client.get_users(ids=[USER, 404]), client.get_users(usernames=[HANDLE, NOBODY])):
            equal([(user.id, user.username) for user in found.data], [(USER, HANDLE)])
            equal((found.errors[0]["title"], sorted(found.data[0].data)), ("Not Found Error", ["id", "name", "username"]))
        equal(client.get_user(username=HANDLE, user_fields=["public_metrics"]).data.id, USER)
        equal(client.get_user(id=USER).data.username, HANDLE)

    def timeline():
        pages = tweepy.Paginator(client.get_users_tweets, USER, max_results=100, tweet_fields=["author_id"])
        posts = list(pages.flatten(limit=250))
        equal({post.author_id for post in posts}, {USER})
        return falling([post.id for post in posts], 250)

    def spans():
        start = utc(0.5)
        end = start + datetime.timedelta(seconds=90)
        found = client.get_users_tweets(USER, start_time=start, end_time=end, max_results=100, exclude=["retweets"],
                                        tweet_fields=["created_at", "referenced_tweets"])
        assert 30 < len(found.data) < 90 and all(start <= post.created_at < end for post in found.data)
        equal([post.referenced_tweets for post in found.data if post.referenced_tweets], [])
        return f"{len(found.data)} of a page"

    def searched():
        pages = tweepy.Paginator(client.search_recent_tweets, "rust lang", max_results=100)
        return falling([post.id for post in pages.flatten(limit=250)], 250)

    def parameter(name):
        return lambda said: name in said.response.json()["errors"][0]["parameters"]

    def detail(text):
        return lambda said: said.response.json()["title"] == text

    calls = {
        "GET /2/tweets, nothing asked for": bare,
        "GET /2/tweets, fields and expansions": full,
        "GET /2/tweets, post.fields": by_post,
        "GET /2/tweets, signed": lambda: equal(len(user.get_tweets(ids, user_auth=True).data), 100),
        "GET /2/tweets/:id, known and unknown": one,
        "GET /2/tweets, unknown field": lambda: refused(
            lambda: client.get_tweets(ids, tweet_fields=["colour"]), tweepy.BadRequest, parameter("tweet.fields")),
        "GET /2/tweets, unknown user field": lambda: refused(
            lambda: client.get_tweets(ids, user_fields=["colour"]), tweepy.BadRequest, parameter("user.fields")),
        "GET /2/tweets, unknown expansion": lambda: refused(
            lambda: client.get_tweets(ids, expansions=["colour"]), tweepy.BadRequest, parameter("expansions")),
        "GET /2/tweets, unknown parameter": lambda: refused(
            lambda: client.request("GET", "/2/tweets", {"ids": ids[0], "colour": "red"}), tweepy.BadRequest, parameter("colour")),
        "GET /2/tweets, an id that is none": lambda: refused(
            lambda: client.get_tweets(["x"]), tweepy.BadRequest, parameter("ids")),
        "GET /2/users, /by, /:id, /by/username/:username": users,
        "GET /2/users/me": lambda: equal(user.get_me().data.username is not None, True),
        "GET /2/users/me, of an application": lambda: refused(
            lambda: client.get_me(user_auth=False), tweepy.Forbidden, detail("Unsupported Authentication")),
        "GET /2/users/:id/tweets, 3 pages": timeline,
        "GET /2/users/:id/tweets, a span, without retweets": spans,
        "GET /2/tweets/search/recent, 3 pages": searched,
        "GET /2/tweets/search/recent, a start too long ago": lambda: refused(
            lambda: client.search_recent_tweets("rust", start_time=utc(24 * 8)), tweepy.BadRequest, parameter("start_time")),
        "wrong signature": lambda: refused(
            lambda: wrong.get_tweets(ids, user_auth=True), tweepy.Unauthorized, detail("Unauthorized")),
        "wrong bearer token": lambda: refused(
            lambda: tweepy.Client("other").get_tweets(ids), tweepy.Unauthorized, detail("Unauthorized")),
        "unknown path": lambda: refused(lambda: client.request("GET", "/2/nowhere"), tweepy.NotFound, detail("Not Found")),
    }
    for name, does in calls.items():
        call("tweepy.Client", name, does)


def twarc1():
    keys = {"consumer_key": "ck", "consumer_secret": "cs", "access_token": "7-t", "access_token_secret": "ts"}
    client = Twarc(**keys, validate_keys=False)
    ids = tweet_ids(150)

    def status(code):
        return lambda said: said.response.status_code == code

    def hydrated():
        posts = list(client.hydrate(iter(ids + [UNKNOWN])))
        equal(sorted(post["id_str"] for post in posts), sorted(ids))
        assert all("full_text" in post for post in posts)

    def first(posts, count):
        return falling([post["id_str"] for _, post in zip(range(count), posts)], count)

    calls = {
        "validate_keys": lambda: equal(client.validate_keys(), True),
        "hydrate, 2 calls, an unknown id": hydrated,
        "timeline, 3 pages": lambda: first(client.timeline(screen_name=HANDLE), 500),
        "search, 3 pages": lambda: first(client.search("rust lang"), 250),
        "app auth, timeline by user_id": lambda: first(
            Twarc(consumer_key="ck", consumer_secret="cs", access_token="x", access_token_secret="x", app_auth=True,
                  validate_keys=False).timeline(user_id=str(USER)), 200),
        "wrong signature": lambda: refused(
            lambda: list(Twarc(**{**keys, "access_token_secret": "other"}, validate_keys=False).hydrate(iter(ids))),
            requests.HTTPError, status(401)),
        "unknown path": lambda: refused(
            lambda: client.get("https://api.twitter.com/1.1/nowhere.json", allow_404=True), requests.HTTPError, status(404)),
    }
    for name, does in calls.items():
        call("twarc", name, does)


def twarc2():
    client = Twarc2(bearer_token=BEARER)
    keys = {"consumer_key": "ck", "consumer_secret": "cs", "access_token": "7-t", "access_token_secret": "ts"}
    ids = tweet_ids(150)

    def looked_up():
        pages = list(client.tweet_lookup(iter(ids + [UNKNOWN])))
        posts = [post for page in pages for post in ensure_flattened(page)]
        equal(sorted(post["id"] for post in posts), sorted(ids))
        assert all(post["author"]["username"] and "public_metrics" in post["author"] for post in posts)
        retweets = [post["referenced_tweets"][0] for post in posts if "referenced_tweets" in post]
        assert len(retweets) > 15 and all("text" in one for one in retweets)
        equal([error["value"] for page in pages for error in page.get("errors", [])], [UNKNOWN])

    def first(pages, count):
        posts = [post for _, page in zip(range(count // 100), pages) for post in page["data"]]
        return falling([post["id"] for post in posts], count - 10)

    def users():
        for asked, by_name in (([str(USER)], False), ([HANDLE], True)):
            equal([user["username"] for page in client.user_lookup(asked, usernames=by_name) for user in page["data"]], [HANDLE])

    def status(code):
        return lambda said: said.response.status_code == code

    calls = {
        "tweet_lookup, 2 calls, an unknown id": looked_up,
        "tweet_lookup, signed": lambda: equal(
            len(list(Twarc2(**keys).tweet_lookup(iter(ids[:100])))[0]["data"]), 100),
        "tweet_lookup, by an application's keys": lambda: equal(
            len(list(Twarc2("ck", "cs").tweet_lookup(iter(ids[:100])))[0]["data"]), 100),
        "user_lookup by id and by name": users,
        "timeline, 3 pages": lambda: first(client.timeline(str(USER)), 300),
        "search_recent, 3 pages": lambda: first(client.search_recent("rust lang", max_results=100), 300),
        "wrong signature": lambda: refused(
            lambda: list(Twarc2(**{**keys, "access_token_secret": "other"}).tweet_lookup(iter(ids))),
            requests.HTTPError, status(401)),
        "unknown field": lambda: refused(
            lambda: list(client.tweet_lookup(iter(ids), tweet_fields="colour")), (requests.HTTPError, ValueError)),
    }
    for name, does in calls.items():
        call("twarc2", name, does)


def python_twitter():
    keys = (KEYS["consumer_key"], KEYS["consumer_secret"], KEYS["token"])
    here = {"base_url": f"{WHERE['api']}/1.1", "tweet_mode": "extended"}
    api = twitter.Api(*keys, KEYS["token_secret"], **here)
    wrong = twitter.Api(*keys, "other", **here)
    app = twitter.Api(*keys[:2], application_only_auth=True, **here)
    ids = [int(one) for one in tweet_ids(100)]

    def code(expected):
        return lambda said: said.message[0]["code"] == expected

    def timeline():
        posts, below = [], None
        for _ in range(3):
            posts += api.GetUserTimeline(user_id=USER, max_id=below, count=200)
            below = posts[-1].id - 1
        equal({post.user.screen_name for post in posts}, {HANDLE})
        return falling([post.id for post in posts], 600)

    calls = {
        "VerifyCredentials": lambda: f"@{api.VerifyCredentials().screen_name}",
        "GetStatuses": lambda: equal(sorted(post.id for post in api.GetStatuses(ids)), ids),
        "GetStatuses, map": lambda: equal(
            {int(name): post is not None for name, post in api.GetStatuses(ids[:2] + [int(UNKNOWN)], map=True).items()},
            {ids[0]: True, ids[1]: True, int(UNKNOWN): False}),
        "GetStatuses, by an application's keys": lambda: equal(len(app.GetStatuses(ids)), 100),
        "GetStatus": lambda: equal(api.GetStatus(ids[0]).id, ids[0]),
        "GetStatus, unknown id": lambda: refused(
            lambda: api.GetStatus(UNKNOWN), twitter.TwitterError, lambda said: said.message[0]["code"] in (144, 179)),
        "GetUserTimeline, 3 pages": timeline,
        "GetUserTimeline, trim_user": lambda: equal(
            {post.user.screen_name for post in api.GetUserTimeline(user_id=USER, trim_user=True)}, {None}),
        "GetSearch": lambda: falling([post.id for post in api.GetSearch(term="rust lang", count=100)], 100),
        "GetListTimeline by slug": lambda: falling(
            [post.id for post in api.GetListTimeline(slug="news", owner_screen_name=HANDLE, count=50)], 50),
        "GetUser": lambda: equal(api.GetUser(screen_name=HANDLE).id, USER),
        "InitializeRateLimit": lambda: (api.InitializeRateLimit(), equal(
            api.rate_limit.get_limit(f"{here['base_url']}/statuses/user_timeline.json").limit, 900))[1],
        "wrong signature": lambda: refused(lambda: wrong.GetStatus(ids[0]), twitter.TwitterError, code(32)),
    }
    for name, does in calls.items():
        call("python-twitter", name, does)


def of_mastodon():
    client = mastodon.Mastodon(access_token=BEARER, api_base_url=WHERE["api"], ratelimit_method="throw")
    public = mastodon.Mastodon(api_base_url=WHERE["api"], ratelimit_method="throw")
    wrong = mastodon.Mastodon(access_token="other", api_base_url=WHERE["api"], ratelimit_method="throw")
    ids = [str((ago(24) << 16) | n) for n in range(20)]
    unknown = str((ago(-24) << 16) | 1)

    def paged(page, following):
        posts = list(page)
        for _ in range(2):
            page = following(page)
            posts += page
        return posts

    def account():
        posts = paged(client.account_statuses(USER, limit=40), client.fetch_next)
        equal({(str(post.account.id), post.account.username) for post in posts}, {(str(USER), HANDLE)})
        return falling([post.id for post in posts], 100)

    def by_token_in(place):
        given = {place: {"access_token": BEARER}}
        method = "GET"
        answer = requests.request(method, f"{WHERE['api']}/api/v1/accounts/verify_credentials/", **given)
        equal(answer.status_code, 200)
        bad = requests.request(method, f"{WHERE['api']}/api/v1/statuses/{ids[0]}", **{place: {"access_token": "other"}})
        equal((bad.status_code, bad.json()), (401, {"error": "The access token is invalid"}))

    calls = {
        "instance": lambda: f"version {client.instance().version}",
        "account_verify_credentials": lambda: f"@{client.account_verify_credentials().username}",
        "account_verify_credentials without a token": lambda: refused(
            public.account_verify_credentials, mastodon.MastodonUnauthorizedError),
        "status": lambda: equal(str(client.status(ids[0]).id), ids[0]),
        "statuses of 20": lambda: equal(sorted(str(post.id) for post in client.statuses(ids)), sorted(ids)),
        "status without a token": lambda: equal(str(public.status(ids[0]).id), ids[0]),
        "status, unknown id": lambda: refused(lambda: client.status(unknown), mastodon.MastodonNotFoundError),
        "account_statuses, 3 pages": account,
        "timeline_hashtag, 3 pages": lambda: falling(
            [post.id for post in paged(client.timeline_hashtag("rust", limit=40), client.fetch_next)], 100),
        "timeline_public": lambda: falling([post.id for post in public.timeline_public(limit=40)], 40),
        "wrong token": lambda: refused(lambda: wrong.status(ids[0]), mastodon.MastodonUnauthorizedError),
        "token in the query, trailing slash": lambda: by_token_in("params"),
        "token in the form": lambda: by_token_in("data"),
        "unknown path": lambda: refused(
            lambda: client._Mastodon__api_request("GET", "/api/v1/nowhere"), mastodon.MastodonNotFoundError),
    }
    for name, does in calls.items():
        call("Mastodon.py", name, does)


def uri(hours, sequence):
    digits = "234567abcdefghijklmnopqrstuvwxyz"
    tid = ((ago(hours) * 1000) << 10) | sequence
    key = "".join(digits[(tid >> (5 * place)) & 31] for place in reversed(range(13)))
    return f"at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/{key}"


def of_bluesky():
    client = atproto.Client(base_url=f"{WHERE['api']}/xrpc")
    uris = [uri(24, n) for n in range(25)]

    def said(text):
        return lambda error: error.response.content.error == text

    def posts(asked):
        return client.app.bsky.feed.get_posts({"uris": asked}).posts

    calls = {
        "getPosts of 25": lambda: equal([post.uri for post in posts(uris)], uris),
        "getPosts, an unknown one": lambda: equal([post.uri for post in posts([uri(-24, 1), uris[0]])], uris[:1]),
        "getPosts, no uri": lambda: refused(
            lambda: posts(["https://example.org"]), exceptions.BadRequestError, said("InvalidRequest")),
        "login, wrong password": lambda: refused(
            lambda: client.login("a.example.org", "other"), exceptions.UnauthorizedError, said("AuthenticationRequired")),
        "unknown path": lambda: refused(
            lambda: client.app.bsky.feed.get_timeline(), exceptions.AtProtocolError, said("XRPCNotSupported")),
    }
    for name, does in calls.items():
        call("atproto", name, does)


def lists():
    """Followers and friends of one account by the clients of all networks, which have the same ones."""
    keys = (KEYS["consumer_key"], KEYS["consumer_secret"], KEYS["token"], KEYS["token_secret"])
    v1, v2 = tweepy.API(tweepy.OAuth1UserHandler(*keys)), tweepy.Client(BEARER)
    other = twitter.Api(*keys, base_url=f"{WHERE['api']}/1.1")
    social = mastodon.Mastodon(access_token=BEARER, api_base_url=WHERE["api"], ratelimit_method="throw")
    graph = atproto.Client(base_url=f"{WHERE['api']}/xrpc").app.bsky.graph
    domain = ".bsky.example.org"
    known = {}

    def followers():
        pages = list(tweepy.Cursor(v1.get_follower_ids, user_id=FOLLOWED, count=5000).pages())
        known["ids"] = list(dict.fromkeys(one for page in pages for one in page))
        assert len(pages) > 3 and len(known["ids"]) > 15000, f"{len(pages)} pages, {len(known['ids'])} ids"
        equal(other.GetFollowerIDs(user_id=FOLLOWED, total_count=5000), pages[0])
        return f"{len(known['ids'])} on {len(pages)} pages"

    def friends():
        follower = known["ids"][0]
        assert FOLLOWED in v1.get_friend_ids(user_id=follower)
        assert FOLLOWED in [user.id for user in v2.get_users_following(follower, max_results=1000).data]
        assert str(FOLLOWED) in [str(account.id) for account in social.account_following(follower, limit=80)]

    def users():
        pages = list(tweepy.Paginator(v2.get_users_followers, FOLLOWED, max_results=1000, limit=3))
        equal([user.id for page in pages for user in page.data], known["ids"][:3000])
        known["names"] = [user.username for page in pages for user in page.data]
        missing = v2.get_users_followers(404)
        equal((missing.data, missing.errors[0]["title"]), (None, "Not Found Error"))

    def accounts():
        page = social.account_followers(FOLLOWED, limit=80)
        found = [account.username for account in page]
        for _ in range(3):
            page = social.fetch_next(page)
            found += [account.username for account in page]
        once = list(dict.fromkeys(found))
        assert len(found) == 320 and len(once) >= 317, f"{len(once)} of {len(found)}"
        equal(once, known["names"][:len(once)])

    def views():
        actor, found, cursor = known["names"][0] + domain, [], None
        owner = graph.get_follows({"actor": actor, "limit": 100})
        equal(owner.subject.handle, actor)
        followed = [view.did for view in owner.follows if view.handle == "quiet_heron0" + domain]
        for _ in range(3):
            page = graph.get_followers({"actor": followed[0], "limit": 100, "cursor": cursor})
            found, cursor = found + [view.handle.removesuffix(domain) for view in page.followers], page.cursor
        equal(found, known["names"][:300])

    def records():
        owner = graph.get_follows({"actor": known["names"][0] + domain, "limit": 100})
        client = atproto.Client(base_url=f"{WHERE['api']}/xrpc").com.atproto.repo
        asked = {"repo": owner.subject.did, "collection": "app.bsky.graph.follow", "limit": 100}
        found = client.list_records(asked).records
        equal([record.value.subject for record in found], [view.did for view in owner.follows])
        dates = [record.value.created_at for record in found]
        equal(dates, sorted(dates, reverse=True))

    for client, name, does in [
        ("tweepy.API", "followers/ids, all pages; python-twitter's too", followers),
        ("tweepy, Mastodon", "friends of a follower, at three networks", friends),
        ("tweepy.API", "followers/ids, no such user", lambda: refused(
            lambda: v1.get_follower_ids(user_id=404), tweepy.NotFound, codes(34))),
        ("tweepy.Client", "GET /2/users/:id/followers, 3 pages", users),
        ("Mastodon.py", "account_followers, 4 pages", accounts),
        ("atproto", "getFollows, getFollowers, 3 pages", views),
        ("atproto", "listRecords of follows", records),
    ]:
        call(client, name, does)


def limits():
    """Two calls a window everywhere: the third is refused, and the next window takes calls again."""
    keys = {"consumer_key": "ck", "consumer_secret": "cs", "access_token": "7-t", "access_token_secret": "ts"}
    v1 = (KEYS["consumer_key"], KEYS["consumer_secret"], KEYS["token"], KEYS["token_secret"])
    ids, statuses, uris = tweet_ids(3), [str((ago(24) << 16) | 1)], [uri(24, 1)]
    api, client = tweepy.API(tweepy.OAuth1UserHandler(*v1)), tweepy.Client(BEARER)
    waiting = tweepy.API(tweepy.OAuth1UserHandler(*v1), wait_on_rate_limit=True)
    waiting_v2 = tweepy.Client(BEARER, wait_on_rate_limit=True)
    other = twitter.Api(*v1, base_url=f"{WHERE['api']}/1.1")
    social = mastodon.Mastodon(access_token=BEARER, api_base_url=WHERE["api"], ratelimit_method="throw")
    patient = mastodon.Mastodon(access_token=BEARER, api_base_url=WHERE["api"], ratelimit_method="wait")
    sky = atproto.Client(base_url=f"{WHERE['api']}/xrpc")

    def used_up(does, error, holds=lambda said: True):
        """Calls until one is refused: no later than the third of a window, so not after the fifth."""
        for _ in range(5):
            try:
                does()
            except error as said:
                assert holds(said), f"{said}"
                return f"{type(said).__name__}: {said}".replace("\n", " ")[:80]
        raise AssertionError("five calls, and none was refused")

    def is_soon(said):
        left = int(said.response.headers["x-rate-limit-reset"]) - time.time()
        return said.response.headers["x-rate-limit-remaining"] == "0" and -1 < left <= 7

    def waits(does, count=5):
        begun = time.time()
        for _ in range(count):
            does()
        assert time.time() - begun > 1, "it never waited"
        return f"{count} calls in {time.time() - begun:.0f} s"

    calls = {
        "tweepy.API": ("statuses/lookup", lambda: used_up(lambda: api.lookup_statuses(ids), tweepy.TooManyRequests, is_soon)),
        "tweepy.API ": ("user_timeline, waits for the reset", lambda: waits(lambda: waiting.user_timeline(screen_name=HANDLE))),
        "tweepy.Client": ("GET /2/tweets", lambda: used_up(lambda: client.get_tweets(ids), tweepy.TooManyRequests, is_soon)),
        "tweepy.Client ": ("search/recent, waits for the reset", lambda: waits(lambda: waiting_v2.search_recent_tweets("rust lang"))),
        "twarc": ("hydrate, waits for the reset", lambda: waits(lambda: list(Twarc(**keys, validate_keys=False).hydrate(ids)), 3)),
        "twarc2": ("user_lookup, waits for the reset", lambda: waits(lambda: list(Twarc2(bearer_token=BEARER).user_lookup([str(USER)])), 3)),
        "python-twitter": ("GetStatus", lambda: used_up(
            lambda: other.GetStatus(ids[0]), twitter.TwitterError, lambda said: said.message[0]["code"] == 88)),
        "Mastodon.py": ("status", lambda: used_up(lambda: social.status(statuses[0]), mastodon.MastodonRatelimitError)),
        "Mastodon.py ": ("status, waits for the reset", lambda: waits(lambda: patient.status(statuses[0]))),
        "atproto": ("getPosts", lambda: used_up(
            lambda: sky.app.bsky.feed.get_posts({"uris": uris}), exceptions.AtProtocolError,
            lambda said: said.response.status_code == 429 and said.response.content.error == "RateLimitExceeded")),
    }
    for name, (what, does) in calls.items():
        call(name.strip(), f"limit: {what}", does)


def main(binary):
    led_to_the_simulator()
    with Simulator(binary):
        for part in (tweepy_v1, signed_elsewhere, tweepy_v2, twarc1, twarc2, python_twitter, of_mastodon, of_bluesky, lists):
            part()
    names = ("calls", "app_calls", "x_calls", "x_app_calls", "mastodon_calls", "bluesky_calls")
    with Simulator(binary, window="4s", **{f"{name}_per_window": 2 for name in names}):
        limits()
    if FAILED:
        sys.exit(f"{len(FAILED)} calls were not answered as a real API would: {', '.join(FAILED)}")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
