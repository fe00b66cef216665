// The part of .ci/release-check that writes into the network, runs the program and compares: release-check.mjs PROGRAM FOLDER
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual, promisify } from 'node:util';
import { AtpAgent } from '@atproto/api';
import { TestNetwork } from '@atproto/dev-env';

const ACCOUNTS = 30;
const POSTS = 300;
const FOLLOWS = 250;
/// The time in which the network has to show what was written, and the program what the network shows.
const PATIENCE_MS = 600_000;
const HOUR_MS = 3_600_000;

const [program, folder] = process.argv.slice(2);
let stop = () => {};

function fail(what) {
  console.error(`release-check: ${what}`);
  stop();
  process.exit(1);
}
process.on('SIGTERM', () => fail('ended by a signal'));
process.on('uncaughtException', (error) => fail(error.stack));
process.on('unhandledRejection', (error) => fail(error?.stack ?? error));

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const chunks = (list, size) =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, n) => list.slice(n * size, (n + 1) * size));
const number = (text) => createHash('sha256').update(text).digest().readUInt32BE();
/// The same order in each run.
const shuffled = (list, key) => [...list].sort((a, b) => number(key(a)) - number(key(b)));

// --- the network, and what is written into it -----------------------------------------------------------------------------

const network = await TestNetwork.create({
  pds: { hostname: 'localhost' },
  bsky: { publicUrl: 'http://localhost' },
}).catch((error) => fail(`the network did not start: ${error.stack}`));
const view = new AtpAgent({ service: network.bsky.url });
console.log(`network: AppView at ${network.bsky.url}, data server at ${network.pds.url}`);

const NAMES = ['Ana', 'Łukasz 🦆', '', 'نور', '=SUM(A1)', '<b>Bo</b> & "Co"', '山田 太郎', 'a\u0301 combining', '👩‍👩‍👧‍👦', "O'Neil"];
const DESCRIPTIONS = ['Two\nlines', '', 'https://example.org/?a=1&b=2', '"quoted", with, commas', '🇵🇹 olá\tmundo', 'x'.repeat(256)];
const TEXTS = [
  (n) => `Post ${n}`,
  (n) => `Olá, mundo nº ${n}: ação, coração`,
  (n) => `Lines\n\nof ${n}\r\nand a tab\t.`,
  (n) => `🦆🇵🇹👩‍👩‍👧‍👦 ${n} نص عربي 山田`,
  (n) => `<p>no HTML &amp; ${n}</p> "quoted", 'single', back\\slash`,
  (n) => `=cmd|' /C calc'!A0 ${n}`,
  (n) => `${n} ${'long '.repeat(58)}`.slice(0, 300),
  () => '',
];
const LANGS = [['pt'], ['en'], ['pt', 'en'], undefined, ['zh-Hant']];

const people = [];
for (let n = 0; n < ACCOUNTS; n++) {
  const agent = new AtpAgent({ service: network.pds.url });
  const handle = `person${String(n).padStart(2, '0')}.test`;
  await agent.createAccount({ handle, email: `${handle}@example.org`, password: `password of ${n}` });
  people.push({ agent, handle, did: agent.assertDid });
}
const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
/// Of every sixth person there is no profile.
for (const [n, { agent }] of people.entries()) {
  if (n % 6 === 5) continue;
  const picture = n % 5 === 0 ? (await agent.uploadBlob(PICTURE, { encoding: 'image/png' })).data.blob : undefined;
  await agent.upsertProfile(() => ({
    displayName: NAMES[n % NAMES.length],
    description: DESCRIPTIONS[n % DESCRIPTIONS.length],
    ...(picture && { avatar: picture }),
  }));
}

const start = Date.now();
/// Clients write any date: with and without a zone's offset, also one that is yet to come.
function date(n) {
  const ms = start - ((n * 7919) % (20 * 24 * 60)) * 60_000 - n;
  if (n % 50 === 49) return new Date(start + 5 * HOUR_MS).toISOString();
  if (n % 7 === 3) return new Date(ms + 2 * HOUR_MS).toISOString().replace('Z', '+02:00');
  if (n % 7 === 5) return new Date(ms).toISOString().replace('Z', '456Z');
  return new Date(ms).toISOString();
}
const posts = [];
const reference = ({ uri, cid }) => ({ uri, cid });
for (let n = 0; n < POSTS; n++) {
  const author = people[n % ACCOUNTS];
  const other = posts[number(`to ${n}`) % Math.max(posts.length, 1)];
  const record = { text: TEXTS[n % TEXTS.length](n), createdAt: date(n), langs: LANGS[n % LANGS.length] };
  if (other && n % 4 === 1) record.reply = { root: other.root ?? reference(other), parent: reference(other) };
  if (other && n % 9 === 2) record.embed = { $type: 'app.bsky.embed.record', record: reference(other) };
  if (other && n % 9 === 4) {
    const external = { uri: 'https://example.org/', title: 'A page', description: 'of nobody' };
    record.embed = {
      $type: 'app.bsky.embed.recordWithMedia',
      record: { record: reference(other) },
      media: { $type: 'app.bsky.embed.external', external },
    };
  }
  posts.push({ ...(await author.agent.post(record)), n, author, root: record.reply?.root, record });
}

const likes = new Map();
const reposts = new Map();
async function like(person, post) {
  await person.agent.like(post.uri, post.cid);
  likes.set(post.uri, (likes.get(post.uri) ?? 0) + 1);
}
for (const post of posts) {
  for (let k = 0; k < post.n % 4; k++) await like(people[(post.n + 3 * k + 1) % ACCOUNTS], post);
  if (post.n % 5 === 0) {
    const person = people[(post.n + 11) % ACCOUNTS];
    await person.agent.repost(post.uri, post.cid);
    reposts.set(post.uri, 1);
  }
}

const pairs = people.flatMap((from) => people.filter((to) => to !== from).map((to) => ({ from, to })));
const order = shuffled(pairs, ({ from, to }) => `${from.handle} ${to.handle}`);
const name = ({ from, to }) => `${from.did} ${to.did}`;
const follows = new Map();
async function follow(pair) {
  follows.set(name(pair), (await pair.from.agent.follow(pair.to.did)).uri);
}
for (const pair of order.slice(0, FOLLOWS)) await follow(pair);

// --- what the network says -------------------------------------------------------------------------------------------------

async function every(read, key) {
  const all = [];
  for (let cursor; ; ) {
    const { data } = await read(cursor);
    all.push(...data[key]);
    cursor = data.cursor;
    if (!cursor) return all;
  }
}

async function network_says() {
  const said = { posts: new Map(), accounts: new Map(), followers: new Set(), friends: new Set() };
  for (const uris of chunks(posts.map(({ uri }) => uri), 25)) {
    for (const post of (await view.app.bsky.feed.getPosts({ uris })).data.posts) said.posts.set(post.uri, post);
  }
  for (const actors of chunks(people.map(({ did }) => did), 25)) {
    for (const profile of (await view.app.bsky.actor.getProfiles({ actors })).data.profiles)
      said.accounts.set(profile.did, profile);
  }
  for (const { did: actor } of people) {
    const { graph } = view.app.bsky;
    for (const { did } of await every((cursor) => graph.getFollowers({ actor, limit: 50, cursor }), 'followers'))
      said.followers.add(`${did} ${actor}`);
    for (const { did } of await every((cursor) => graph.getFollows({ actor, limit: 50, cursor }), 'follows'))
      said.friends.add(`${actor} ${did}`);
  }
  return said;
}

const written_posts = () => posts.filter(({ is_deleted }) => !is_deleted);

/// Where what the network says is not yet what was written.
function unlike_written(said) {
  const wrong = [];
  const same = (what, is, expected) =>
    isDeepStrictEqual(is, expected) || wrong.push(`${what}: ${JSON.stringify(is)} instead of ${JSON.stringify(expected)}`);
  same('posts', [...said.posts.keys()].sort(), written_posts().map(({ uri }) => uri).sort());
  for (const post of written_posts()) {
    const is = said.posts.get(post.uri);
    const replies = written_posts().filter(({ record }) => record.reply?.parent.uri === post.uri).length;
    same(`text of ${post.uri}`, is?.record.text, post.record.text);
    same(`likes of ${post.uri}`, is?.likeCount, likes.get(post.uri) ?? 0);
    same(`reposts of ${post.uri}`, is?.repostCount, reposts.get(post.uri) ?? 0);
    same(`replies of ${post.uri}`, is?.replyCount, replies);
  }
  const edges = [...follows.keys()].sort();
  same('followers', [...said.followers].sort(), edges);
  same('friends', [...said.friends].sort(), edges);
  for (const { did, handle, changed } of people) {
    const is = said.accounts.get(did);
    same(`handle of ${did}`, is?.handle, handle);
    same(`followers of ${did}`, is?.followersCount, edges.filter((edge) => edge.endsWith(` ${did}`)).length);
    same(`friends of ${did}`, is?.followsCount, edges.filter((edge) => edge.startsWith(`${did} `)).length);
    same(`posts of ${did}`, is?.postsCount, written_posts().filter(({ author }) => author.did === did).length);
    if (changed) same(`profile of ${did}`, [is?.displayName, is?.description], changed);
  }
  return wrong;
}

async function written() {
  let wrong = [];
  for (const begun = Date.now(); Date.now() - begun < PATIENCE_MS; await pause(500)) {
    await network.processAll(60_000);
    const said = await network_says();
    wrong = unlike_written(said);
    if (wrong.length === 0) return said;
  }
  fail(`the network does not show what was written, ${wrong.length} times:\n${wrong.slice(0, 20).join('\n')}`);
}

// --- the program -----------------------------------------------------------------------------------------------------------

const COLLECTED = settings(
  'collected',
  // A slow machine has to keep up with all of it: posts that are late go before those that were never looked up.
  `tweet_age = "30d: 15s"
[bluesky]
api = "${network.bsky.url}"
[updater]
buffer_ttl = "200ms"
concurrency = 2
unavailable_after = "2s"
unavailable_every = "5s"
[accounts]
collect = true
active = "15s"
idle = "15s"
frozen = "15s"
[relations]
collect = "followers, friends"
from_posts = false
revisit = "20s"
complete_every = "1s"
[visits]
collect = true
every = "20s"
shortest = "1s"
longest = "40s"
`,
);
/// A data server has the records of follows, with their moments.
const RECORDS = settings(
  'records',
  `[bluesky]
api = "${network.pds.url}"
[relations]
collect = "friends"
from_posts = false
`,
);

/// Writes a file of settings, with a database of that name.
function settings(name, text) {
  const file = `${folder}/${name}.toml`;
  const database = `path = "${folder}/${name}.db"`;
  const common = `providers = "bluesky"\n${text}[queue.embedded]\n${database}\n[store.sqlite]\n${database}\n`;
  writeFileSync(file, common);
  return file;
}
let config = COLLECTED;
let updater;
let updater_ended;
function start_updater() {
  const log = openSync(`${folder}/updater.log`, 'a');
  updater = spawn(program, ['updater', '--config', config], { stdio: ['ignore', log, log] });
  closeSync(log);
  updater_ended = new Promise((done) => updater.on('exit', (code, signal) => done(code ?? signal)));
  stop = () => updater.kill();
}
async function stop_updater() {
  updater.kill();
  const how = await updater_ended;
  if (how !== 0) fail(`the updater ended with ${how} after SIGTERM:\n${log_end()}`);
}

/// What the command prints. The network is in this process, so nothing here may wait without letting it answer.
async function run(...words) {
  const { stdout } = await promisify(execFile)(program, [...words, '--config', config], { maxBuffer: 1 << 30 });
  return stdout;
}
function list(file, lines) {
  writeFileSync(`${folder}/${file}`, lines.map((line) => `${line}\n`).join(''));
  return `${folder}/${file}`;
}
const rows = async (table, ...words) =>
  (await run('export', table, '--format', 'ndjson', ...words))
    .split('\n')
    .filter((line) => line)
    .map((line) => JSON.parse(line));

const tables = async () => ({
  posts: await rows('posts'),
  changes: await rows('changes'),
  accounts: await rows('accounts', '--pipeline', 'profiles:bluesky'),
  account_changes: await rows('account_changes', '--pipeline', 'profiles:bluesky'),
  followers: await rows('edges', '--pipeline', 'followers:bluesky'),
  friends: await rows('edges', '--pipeline', 'friends:bluesky'),
});

// --- comparison ------------------------------------------------------------------------------------------------------------

const ms = (text) => (text === null || text === undefined ? null : new Date(text).getTime());
const embedded = (embed) => embed?.record?.record?.uri ?? embed?.record?.uri ?? null;

/// A post view in the words of the export.
function post_row({ uri, author, record, indexedAt, ...counts }) {
  return {
    id: uri,
    state: 'live',
    created_at: Math.min(ms(record.createdAt), ms(indexedAt)),
    text: record.text,
    lang: record.langs?.join(',') ?? null,
    author_id: author.did,
    author_name: author.handle,
    favorite_count: counts.likeCount,
    retweet_count: counts.repostCount,
    reply_count: counts.replyCount,
    quote_count: counts.quoteCount,
    bookmark_count: counts.bookmarkCount ?? null,
    reply_to: record.reply?.parent.uri ?? null,
    quote_of: embedded(record.embed),
    conversation_id: record.reply?.root.uri ?? uri,
    missing_since: null,
  };
}

/// A profile view in the words of the export. A text that is not set and an empty one are the same to a reader.
function account_row(view) {
  return {
    id: view.did,
    state: 'live',
    handle: view.handle,
    display_name: view.displayName ?? '',
    description: view.description ?? '',
    picture: view.avatar ?? '',
    banner: view.banner ?? '',
    followers: view.followersCount,
    following: view.followsCount,
    posts: view.postsCount,
    created_at: ms(view.createdAt),
    missing_since: null,
  };
}
const TEXT_FIELDS = ['display_name', 'description', 'picture', 'banner'];
const TIME_FIELDS = ['created_at', 'missing_since'];

/// The differences between exported rows and those expected by their ids, in each expected field.
function differences(kind, exported, expected) {
  const found = [];
  const by_id = new Map(exported.map((row) => [row.id, row]));
  if (by_id.size !== exported.length) found.push(`${kind}: ${exported.length} rows, ${by_id.size} ids`);
  for (const id of by_id.keys()) if (!expected.has(id)) found.push(`${kind}: ${id} is not expected`);
  for (const [id, row] of expected) {
    const is = by_id.get(id);
    if (!is) found.push(`${kind}: ${id} is missing`);
    for (const [field, value] of Object.entries(is ? row : {})) {
      let shown = is[field];
      if (TEXT_FIELDS.includes(field)) shown ??= '';
      if (TIME_FIELDS.includes(field)) shown = ms(shown);
      if (!isDeepStrictEqual(shown, value))
        found.push(`${kind}: ${field} of ${id}: exported ${JSON.stringify(shown)}, the network says ${JSON.stringify(value)}`);
    }
  }
  return found;
}

/// The differences of one side's intervals: each follow has one that lasts, each removed one one that ended, for the cause given.
function edge_differences(side, exported, current, removed, added) {
  const found = [];
  const intervals = new Map();
  for (const row of exported) {
    const edge = side === 'followers' ? `${row.member} ${row.owner}` : `${row.owner} ${row.member}`;
    intervals.set(edge, [...(intervals.get(edge) ?? []), row]);
    if (row.direction !== (side === 'followers' ? 'follower' : 'friend')) found.push(`${side}: direction of ${edge}`);
  }
  for (const edge of new Set([...intervals.keys(), ...current, ...removed])) {
    const all = intervals.get(edge) ?? [];
    const [row] = all;
    if (!current.has(edge) && !removed.has(edge)) found.push(`${side}: ${edge} is not expected`);
    else if (all.length !== 1) found.push(`${side}: ${edge} has ${all.length} intervals instead of 1`);
    else if (current.has(edge) && (row.vanished_by || row.vanished_after || row.cause))
      found.push(`${side}: ${edge} lasts, and is exported as ended: ${JSON.stringify(row)}`);
    else if (!row.appeared_by || (added.has(edge) && !row.appeared_after))
      found.push(`${side}: ${edge} has no bound of its beginning: ${JSON.stringify(row)}`);
    else if (removed.has(edge) && !(row.vanished_by && row.vanished_after))
      found.push(`${side}: ${edge} ended, and is exported as lasting: ${JSON.stringify(row)}`);
    else if (removed.has(edge) && row.cause !== 'unfollowed')
      found.push(`${side}: cause of ${edge}: exported ${JSON.stringify(row.cause)} instead of "unfollowed"`);
  }
  return found;
}

/// Compares until nothing differs. Ends the check with the differences if that does not come.
async function settled(compare, read = tables) {
  let found = [];
  for (const begun = Date.now(); Date.now() - begun < PATIENCE_MS; await pause(1_000)) {
    found = compare(await read());
    if (found.length === 0) return;
    const how = updater.exitCode ?? updater.signalCode;
    if (how !== null) fail(`the updater ended with ${how}:\n${log_end()}`);
  }
  fail(`${found.length} differences after ${PATIENCE_MS / 1000} s:\n${found.slice(0, 100).join('\n')}\n\n${log_end()}`);
}
const log_end = () => readFileSync(`${folder}/updater.log`, 'utf8').split('\n').slice(-20).join('\n');

// --- the first look --------------------------------------------------------------------------------------------------------

let said = await written();
console.log(`network: ${said.posts.size} posts of ${said.accounts.size} accounts, ${said.followers.size} follows`);

/// The posts of the first half of people are put in, by uris and by addresses. Visits find those of the others.
const half = ACCOUNTS / 2;
const address = ({ uri, author }) => `https://bsky.app/profile/${author.did}/post/${uri.split('/').at(-1)}`;
const put_in = posts.filter(({ author }) => people.indexOf(author) < half);
await run('enqueue', list('posts.txt', put_in.map((post, n) => (n % 3 === 0 ? address(post) : post.uri))));
start_updater();
const named = ({ did, handle }, n) => (n % 2 === 0 ? did : `@${handle}`);
await run('enqueue', '--accounts', list('accounts.txt', people.map(named)));
await run('accounts', 'follow', list('visited.txt', people.slice(half).map(named)));
const owners = list('owners.txt', people.map(({ did }) => did));
for (const side of ['followers', 'friends']) await run('enqueue', '--pipeline', `${side}:bluesky`, owners);

const expected_posts = () => new Map([...said.posts].map(([uri, post]) => [uri, post_row(post)]));
const expected_accounts = () => new Map([...said.accounts].map(([did, account]) => [did, account_row(account)]));
const none = new Set();
await settled((exported) => [
  ...differences('posts', exported.posts, expected_posts()),
  ...differences('accounts', exported.accounts, expected_accounts()),
  ...edge_differences('followers', exported.followers, said.followers, none, none),
  ...edge_differences('friends', exported.friends, said.friends, none, none),
]);
const fields = (rows) => Object.keys(rows.values().next().value).length;
function report(look) {
  const [posts, accounts] = [expected_posts(), expected_accounts()];
  console.log(`${look}: posts: ${posts.size} compared, ${fields(posts)} fields each: the same`);
  console.log(`${look}: accounts: ${accounts.size} compared, ${fields(accounts)} fields each: the same`);
  for (const side of ['followers', 'friends']) console.log(`${look}: ${side}: ${said[side].size} edges compared: the same`);
}
report('first look');

// --- changes, and the second look ------------------------------------------------------------------------------------------

const before = expected_posts();
const mixed = shuffled(posts, ({ n }) => `change ${n}`);
const deleted = mixed.slice(0, 20);
for (const post of deleted) {
  await post.author.agent.deletePost(post.uri);
  post.is_deleted = true;
}
for (const post of mixed.slice(20, 50)) await like(people[(post.n + 20) % ACCOUNTS], post);
const renamed = shuffled(people, ({ handle }) => `rename ${handle}`).slice(0, 5);
for (const [n, person] of renamed.entries()) {
  person.changed = [`Renamed ${n} 🦢`, `Another description\nof ${n}`];
  const [displayName, description] = person.changed;
  await person.agent.upsertProfile((existing) => ({ ...existing, displayName, description }));
}
const removed = order.slice(0, 25);
for (const pair of removed) {
  await pair.from.agent.deleteFollow(follows.get(name(pair)));
  follows.delete(name(pair));
}
const added = order.slice(FOLLOWS, FOLLOWS + 25);
for (const pair of added) await follow(pair);

const profiles_before = said.accounts;
said = await written();
const [ended, begun] = [removed, added].map((pairs) => new Set(pairs.map(name)));
/// A deleted post keeps what was last known of it, and is marked.
function deletions(exported) {
  const found = [];
  for (const { uri } of deleted) {
    const row = exported.posts.find(({ id }) => id === uri);
    const change = exported.changes.find(({ id, field }) => id === uri && field === 'state');
    if (row?.state !== 'unavailable' || !row.missing_since)
      found.push(`posts: ${uri} is deleted, and is exported as ${row?.state}, missing since ${row?.missing_since}`);
    else if (row.text !== before.get(uri).text || row.author_id !== before.get(uri).author_id)
      found.push(`posts: ${uri} is deleted, and its text or author changed`);
    else if (change?.new_value !== 'unavailable') found.push(`changes: the deletion of ${uri} is not there`);
  }
  return found;
}
function renamings(exported) {
  const found = [];
  for (const { did, changed } of renamed) {
    const old = profiles_before.get(did);
    for (const [field, old_value, new_value] of [
      ['display_name', old.displayName, changed[0]],
      ['description', old.description, changed[1]],
    ]) {
      const changes = exported.account_changes.filter((row) => row.id === did && row.field === field);
      const [row] = changes;
      if (changes.length !== 1 || (row.old_value ?? '') !== (old_value ?? '') || row.new_value !== new_value)
        found.push(`account_changes: ${field} of ${did}: exported ${JSON.stringify(changes)}, expected one to "${new_value}"`);
    }
  }
  return found;
}
const gone = new Set(deleted.map(({ uri }) => uri));
await settled((exported) => [
  ...differences('posts', exported.posts.filter(({ id }) => !gone.has(id)), expected_posts()),
  ...deletions(exported),
  ...differences('accounts', exported.accounts, expected_accounts()),
  ...renamings(exported),
  ...edge_differences('followers', exported.followers, said.followers, ended, begun),
  ...edge_differences('friends', exported.friends, said.friends, ended, begun),
]);
report('second look');
console.log(`second look: deleted posts: ${deleted.length} compared: marked`);
console.log(`second look: changed profiles: ${renamed.length} compared, with their former values: the same`);
console.log(`second look: ended edges: ${ended.size} compared on both sides: ended`);

await stop_updater();

// --- the moments of follows ------------------------------------------------------------------------------------------------

config = RECORDS;
await run('enqueue', '--pipeline', 'friends:bluesky', owners);
start_updater();
const moments = new Map();
for (const { agent, did: repo } of people) {
  const collection = 'app.bsky.graph.follow';
  for (const { value } of await every(
    (cursor) => agent.com.atproto.repo.listRecords({ repo, collection, limit: 100, cursor }),
    'records',
  ))
    moments.set(`${repo} ${value.subject}`, ms(value.createdAt));
}
if (moments.size !== FOLLOWS) fail(`the data server has ${moments.size} records of follows`);
await settled(
  ({ friends }) => {
    const found = edge_differences('friends', friends, new Set(moments.keys()), none, none);
    for (const { owner, member, followed_at } of friends) {
      const edge = `${owner} ${member}`;
      if (ms(followed_at) !== moments.get(edge))
        found.push(`friends: followed_at of ${edge}: exported ${followed_at}, the record says ${moments.get(edge)}`);
    }
    return found;
  },
  async () => ({ friends: await rows('edges', '--pipeline', 'friends:bluesky') }),
);
console.log(`data server: friends: ${moments.size} edges compared, with the moments of the follows: the same`);
await stop_updater();

// The servers end with the process: nothing of theirs is to stay.
process.exit(0);
