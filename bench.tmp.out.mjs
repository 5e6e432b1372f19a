// bench.tmp.mts
import { monitorEventLoopDelay as monitorEventLoopDelay2, performance as performance4, PerformanceObserver } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

// src/model/service.ts
var readyEndpoint = (address) => ({
  address,
  ready: true,
  serving: true,
  terminating: false,
  nodeName: "",
  zone: "",
  zoneHints: [],
  nodeHints: []
});

// src/page/format.ts
var count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

// src/observe/page/page-head.ts
var mostProblems = 50;
var pageHead = (input) => {
  const { draining, health, source, problems } = input;
  return {
    verdict: draining ? "Draining" : health.healthy ? "Healthy" : "Not healthy",
    why: health.reasons,
    about: about(input),
    source: {
      name: source.name,
      error: source.error,
      lastGoodAt: source.lastGoodAt ?? null
    },
    counted: countedOf(input),
    problems: problems.slice(0, mostProblems).map(
      ({ object, field, message }) => [`${object}${field === "" ? "" : ` ${field}`}`, message].join(": ")
    ),
    problemCount: problems.length
  };
};
var about = ({ mode, relay, node, version }) => {
  const by = relay === void 0 ? "" : ` by the ${relayText(relay)}`;
  const where = node === void 0 ? "" : `, on node ${node.name}`;
  return `In ${mode.name} mode${by}${where}: Usher ${version}`;
};
var relayText = ({ name, workers }) => `${name} relay${name === "portable" ? "" : ` with ${count(workers, "worker")}`}`;
var countedOf = ({ mode, relay }) => {
  if (mode.name === "userspace") return "all";
  return relay === void 0 ? "none" : "some";
};
var ms = (seconds) => Math.round((seconds ?? 0) * 1e4) / 10;
var pageTick = (input, figures, look) => {
  const { startedAt, stats, health } = input;
  const { fds, acceptPaused, workers = [], restarts = 0 } = stats;
  const delay = new Map(figures.delays);
  return {
    ...look,
    startedAt,
    appliedAt: health.lastUpdated ?? null,
    fds,
    acceptPaused,
    openFds: figures.openFds ?? null,
    delayMs: { p99: ms(delay.get(0.99)), worst: ms(delay.get(1)) },
    busy: Math.round(figures.utilization * 1e3) / 1e3,
    memory: figures.memory.rss,
    workers: workers.map(({ thread, restarts: again, hangs, heldBytes }) => ({
      thread,
      restarts: again,
      hangs,
      heldBytes
    })),
    restarts
  };
};

// src/observe/page/viewers.ts
import { once } from "node:events";
import { PassThrough } from "node:stream";

// src/util/usher-error.ts
var errorOf = (thrown) => thrown instanceof Error ? thrown : new Error(String(thrown));

// src/util/wait.ts
var wait = (clock, ms2, signal) => new Promise((resolve) => {
  if (signal.aborted) return resolve();
  const done = () => {
    clock.clearTimeout(timer);
    signal.removeEventListener("abort", done);
    resolve();
  };
  const timer = clock.setTimeout(done, ms2);
  signal.addEventListener("abort", done);
});
var orAborted = (promise, signal) => new Promise((resolve, reject) => {
  const aborted = () => reject(errorOf(signal.reason));
  if (signal.aborted) aborted();
  signal.addEventListener("abort", aborted);
  const settled = () => signal.removeEventListener("abort", aborted);
  promise.then(resolve, reject).finally(settled);
});

// src/util/within.ts
var within = async (clock, ms2, done) => {
  let timer;
  const timeout = new Promise((resolve) => {
    timer = clock.setTimeout(() => resolve(void 0), ms2);
  });
  try {
    return await Promise.race([done, timeout]);
  } finally {
    clock.clearTimeout(timer);
    done.catch(() => {
    });
  }
};

// src/util/yielding.ts
import { setImmediate as setImmediate2 } from "node:timers/promises";

// src/util/clock.ts
import { performance as performance2 } from "node:perf_hooks";
var systemClock = {
  now: () => performance2.now(),
  setTimeout: (callback, ms2) => setTimeout(callback, ms2),
  clearTimeout: (timer) => clearTimeout(timer)
};

// src/util/yielding.ts
var sliceMs = 3;
var restMs = 0.5;
var pacer = (clock = systemClock) => {
  let since = clock.now();
  const yields = async () => {
    await setImmediate2();
    since = clock.now();
  };
  return (ms2 = sliceMs) => clock.now() - since < ms2 ? void 0 : yields();
};
var forEachYielding = async (items, each, clock) => {
  const turn = pacer(clock);
  for (const item of items) {
    const done = each(item);
    if (done !== void 0) await done;
    const yields = turn();
    if (yields !== void 0) await yields;
  }
  await turn(restMs);
};

// src/util/deferred.ts
var Deferred = class {
  promise;
  resolve = () => {
  };
  reject = () => {
  };
  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.promise.catch(() => {
    });
  }
};

// src/observe/process-metrics.ts
import { readdir } from "node:fs/promises";
import { monitorEventLoopDelay, performance as performance3 } from "node:perf_hooks";

// src/observe/exposition.ts
var ofType = (type) => (name, help, labels, read) => ({ name, type, help, labels, read });
var counter = ofType("counter");
var gauge = ofType("gauge");
var histogram = ofType("histogram");
var pageChars = 64 * 1024;

// src/observe/process-metrics.ts
var delayResolutionMs = 100;
var ProcessWatch = class {
  #startedAt = Date.now() / 1e3 - process.uptime();
  #delay = monitorEventLoopDelay({ resolution: delayResolutionMs });
  #before = performance3.eventLoopUtilization();
  constructor() {
    this.#delay.enable();
  }
  async read() {
    const { user, system } = process.cpuUsage();
    const now = performance3.eventLoopUtilization();
    const { utilization } = performance3.eventLoopUtilization(now, this.#before);
    this.#before = now;
    const delays = [0.5, 0.99, 1].map(
      (quantile) => [quantile, this.#late(quantile)]
    );
    this.#delay.reset();
    return {
      cpuSeconds: (user + system) / 1e6,
      startedAt: this.#startedAt,
      memory: process.memoryUsage(),
      openFds: await countOpenFds(),
      utilization,
      delays
    };
  }
  close() {
    this.#delay.disable();
  }
  #late(quantile) {
    const late = this.#delay.percentile(quantile * 100) / 1e9 - delayResolutionMs / 1e3;
    return Math.max(0, late);
  }
};
var countOpenFds = async () => process.platform === "linux" ? (
  // One of them is the directory being read.
  (await readdir("/proc/self/fd")).length - 1
) : void 0;
var processTable = [
  counter(
    "process_cpu_seconds_total",
    "CPU time the process has used, in user and system mode together.",
    [],
    ({ cpuSeconds }) => cpuSeconds
  ),
  gauge(
    "process_start_time_seconds",
    "When the process started (Unix time).",
    [],
    ({ startedAt }) => startedAt
  ),
  gauge(
    "process_resident_memory_bytes",
    "Memory of the process that is in RAM.",
    [],
    ({ memory }) => memory.rss
  ),
  gauge(
    "nodejs_heap_size_total_bytes",
    "Memory V8 has reserved for JavaScript objects.",
    [],
    ({ memory }) => memory.heapTotal
  ),
  gauge(
    "nodejs_heap_size_used_bytes",
    "Memory JavaScript objects use.",
    [],
    ({ memory }) => memory.heapUsed
  ),
  gauge(
    "nodejs_external_memory_bytes",
    "Memory of buffers outside the JavaScript heap.",
    [],
    ({ memory }) => memory.external
  ),
  ...process.platform === "linux" ? [
    gauge(
      "process_open_fds",
      "File descriptors the whole process has open.",
      [],
      ({ openFds }) => openFds
    )
  ] : [],
  gauge(
    "usher_event_loop_utilization",
    "Share of the time since the last scrape in which the event loop was busy, 0 to 1.",
    [],
    ({ utilization }) => utilization
  ),
  gauge(
    "usher_event_loop_delay_seconds",
    "How late the event loop was since the last scrape: what it adds to the latency of connections. Quantile 1 is the worst.",
    ["quantile"],
    ({ delays }) => delays.map(([quantile, late]) => [[String(quantile)], late])
  )
];
var healthTable = [
  gauge(
    "usher_healthy",
    "1 while the wanted state is applied, 0 when it could not be for long; /status says why.",
    [],
    ({ healthy }) => Number(healthy)
  ),
  gauge(
    "usher_source_ok",
    "1 while the newest state of the source could be read, 0 while the last good one stands; /status says why.",
    [],
    ({ sourceOk }) => Number(sourceOk)
  ),
  gauge(
    "usher_build_info",
    "Always 1; the label is the version of Usher.",
    ["version"],
    ({ version }) => [[[version], 1]]
  )
];

// src/util/duration.ts
var longest = 2n ** 63n - 1n;

// src/mode/split-services.ts
var loopbackKey = ({ key }) => `${key} on loopback`;

// src/relay/cause.ts
var causeText = {
  "--": "finished",
  CC: "client left while dialling",
  SC: "no endpoint accepted",
  sC: "no endpoint answered in time",
  sQ: "no place at an endpoint in time",
  RC: "out of local resources while dialling",
  PR: "not allowed to connect",
  PL: "over a limit",
  PH: "malformed, too long or late first bytes",
  PN: "no endpoints for the server name",
  CD: "reset by the client",
  SD: "reset by the endpoint",
  cD: "client idle for too long",
  sD: "endpoint idle for too long",
  DD: "reset as the endpoint went down, left or was drained, or for a pause",
  LD: "lasted as long as it may",
  KD: "cut at the end of the drain time, or by an operator"
};

// src/relay/relay.ts
var dialBuckets = [
  5e-4,
  1e-3,
  5e-3,
  0.025,
  0.1,
  0.25,
  0.5,
  1,
  2.5,
  5
];
var holdBuckets = [0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300];

// src/relay/counters.ts
var newCounters = () => ({
  accepted: 0,
  active: 0,
  dialAttempts: 0,
  dialRetries: 0,
  held: 0,
  holdRefused: 0,
  queued: 0,
  queueRefused: 0,
  failed: {},
  bytesToBackend: 0,
  bytesToClient: 0,
  accessLines: 0,
  datagramsToBackend: 0,
  datagramsToClient: 0,
  datagramsDropped: {},
  dialSeconds: Array(dialBuckets.length + 1).fill(0),
  dialSecondsSum: 0,
  holdSeconds: Array(holdBuckets.length + 1).fill(0),
  holdSecondsSum: 0
});

// src/relay/counter-cells.ts
var keysOf = (all) => Object.keys(all);
var plain = keysOf({
  accepted: 0,
  active: 0,
  dialAttempts: 0,
  dialRetries: 0,
  held: 0,
  holdRefused: 0,
  queued: 0,
  queueRefused: 0,
  bytesToBackend: 0,
  bytesToClient: 0,
  accessLines: 0,
  datagramsToBackend: 0,
  datagramsToClient: 0,
  dialSecondsSum: 0,
  holdSecondsSum: 0
});
var causes = keysOf(causeText);
var dropReasons = keysOf({
  "no-endpoint": 0,
  refused: 0,
  "no-fd": 0,
  "send-failed": 0,
  draining: 0,
  loop: 0,
  "not-allowed": 0
});
var places = (names, first) => Object.fromEntries(names.map((name, i) => [name, first + i]));
var firstCause = plain.length;
var firstDrop = firstCause + causes.length;
var firstBucket = firstDrop + dropReasons.length;
var firstHoldBucket = firstBucket + dialBuckets.length + 1;
var counterCell = {
  plain: places(plain, 0),
  failed: places(causes, firstCause),
  dropped: places(dropReasons, firstDrop),
  dialSeconds: firstBucket,
  holdSeconds: firstHoldBucket,
  count: firstHoldBucket + holdBuckets.length + 1
};
var countersOf = (read) => {
  const counters = newCounters();
  for (const name of plain) counters[name] = read(counterCell.plain[name]);
  counters.failed = tally(causes, firstCause, read);
  counters.datagramsDropped = tally(dropReasons, firstDrop, read);
  for (const i of counters.dialSeconds.keys())
    counters.dialSeconds[i] = read(firstBucket + i);
  for (const i of counters.holdSeconds.keys())
    counters.holdSeconds[i] = read(firstHoldBucket + i);
  return counters;
};
var cellsOf = (counters) => {
  const { failed, datagramsDropped, dialSeconds, holdSeconds } = counters;
  const cells = [
    ...plain.map((name) => counters[name]),
    ...causes.map((cause) => failed[cause] ?? 0),
    ...dropReasons.map((reason) => datagramsDropped[reason] ?? 0),
    ...dialSeconds,
    ...holdSeconds
  ];
  return cells.slice(0, 1 + cells.findLastIndex((count2) => count2 !== 0));
};
var tally = (names, first, read) => {
  const counts = {};
  for (const [i, name] of names.entries()) {
    const count2 = read(first + i);
    if (count2 > 0) counts[name] = count2;
  }
  return counts;
};

// src/observe/joined-listeners.ts
var addCounters = (a, b) => {
  const [some, more] = [cellsOf(a), cellsOf(b)];
  return countersOf((cell) => (some[cell] ?? 0) + (more[cell] ?? 0));
};
var joinListeners = (listeners) => {
  const [first, ...others] = listeners;
  return first && others.reduce(join, first);
};
var join = (a, b) => ({
  ...a,
  binds: [...a.binds, ...b.binds],
  endpoints: joinEndpoints([...a.endpoints, ...b.endpoints]),
  counters: addCounters(a.counters, b.counters),
  lastError: a.lastError || b.lastError,
  wanted: a.wanted || b.wanted
});
var joinEndpoints = (all) => {
  const joined = /* @__PURE__ */ new Map();
  for (const one of all) {
    const before = joined.get(one.key);
    joined.set(one.key, before === void 0 ? one : addEndpoints(before, one));
  }
  return [...joined.values()];
};
var addEndpoints = (a, b) => ({
  key: a.key,
  active: a.active + b.active,
  failures: a.failures + b.failures,
  resting: a.resting || b.resting,
  rttMs: Math.max(a.rttMs ?? 0, b.rttMs ?? 0),
  retransmits: (a.retransmits ?? 0) + (b.retransmits ?? 0)
});

// src/observe/json-pages.ts
var pageChars2 = 128 * 1024;

// src/util/unix-address.ts
var prefix = "unix:";
var isUnix = (address) => address.startsWith(prefix);
var unixPlace = (address) => isUnix(address) ? address.replace(/\?.*$/s, "") : address;

// src/util/ip.ts
var joinHostPort = (host, port) => {
  if (!host.includes(":")) return `${host}:${port}`;
  return isUnix(host) ? unixPlace(host) : `[${host}]:${port}`;
};

// src/observe/status-service-port.ts
var endpointState = ({
  ready,
  serving,
  terminating
}) => ready ? "ready" : serving && terminating ? "terminating" : "not ready";
var clientsOf = (port) => {
  const internal = new Set(port.internal.endpoints);
  const targets = port.vips.every(
    ({ kind }) => kind === "ClusterIP"
  ) ? [["internal", internal]] : [
    ["internal", internal],
    ["external", new Set(port.external.endpoints)],
    ["node", new Set(port.externalFromNode.endpoints)]
  ];
  return (endpoint) => {
    const who = targets.filter(([, endpoints]) => endpoints.has(endpoint));
    if (who.length === targets.length) return "all";
    return who.map(([name]) => name).join("+") || "none";
  };
};
var checkStatus = (health) => {
  if (health === void 0) return null;
  const { up, isKnown, forMs, why, host } = health;
  const since = isKnown ? new Date(Date.now() - forMs).toISOString() : null;
  return { up, since, why, host };
};
var endpointStatuses = (servicePort2, listener, orders, checkOf) => {
  const ordered = new Map(orders.map((order) => [`${order.kind} ${order.endpoint}`, order]));
  const living = new Map(listener?.endpoints.map((stats) => [stats.key, stats]));
  const reachable = new Set(servicePort2.reachable);
  const clients = clientsOf(servicePort2);
  return servicePort2.endpoints.map((endpoint) => {
    const key = bindText(endpoint);
    const stats = living.get(key);
    return {
      endpoint: key,
      state: endpointState(endpoint),
      eligible: reachable.has(endpoint),
      clients: clients(endpoint),
      active: stats?.active ?? 0,
      failures: stats?.failures ?? 0,
      ...pathStatus(stats),
      resting: stats?.resting ?? false,
      check: checkStatus(checkOf(servicePort2, key)),
      ...orderStatus(
        ordered.get(`drain ${key}`),
        ordered.get(`weight ${key}`),
        endpoint.weight
      )
    };
  });
};
var pathStatus = ({ rttMs, retransmits } = {}) => ({
  ...rttMs !== void 0 && { rttMs },
  ...retransmits !== void 0 && { retransmits }
});
var orderStatus = (drain, weight, usual = 1) => ({
  drained: drain?.kind === "drain" ? { ...timesOf(drain), close: drain.close } : null,
  weight: weight?.kind === "weight" ? weight.weight : usual,
  weightSince: weight === void 0 ? null : timeText(weight.since)
});
var timeText = (epochMs) => new Date(epochMs).toISOString();
var timesOf = ({
  since,
  until
}) => ({
  since: timeText(since),
  until: until === void 0 ? null : timeText(until)
});
var bindText = ({ address, port }) => joinHostPort(address, port);
var unplaced = ({ vips }) => vips.map((vip) => ({
  vip,
  capture: "not captured",
  binds: [],
  reason: "not applied yet"
}));

// src/observe/status-document.ts
var notByClient = (failed = {}) => Object.fromEntries(
  Object.entries(failed).filter(([cause, times]) => times > 0 && !/^c/i.test(cause))
);
var identity = ({ family, key }) => `${family} ${key}`;
var placementsOf = (input) => new Map(input.placements.map((each) => [identity(each.servicePort), each]));
function* entriesOf({ snapshots, orders, checkOf }, { placements, listeners }) {
  const ordered = byName(orders);
  for (const { servicePorts } of snapshots)
    for (const servicePort2 of servicePorts.values()) {
      const { family } = servicePort2;
      const placed = [servicePort2, { family, key: loopbackKey(servicePort2) }].flatMap(
        (one) => placements.get(identity(one)) ?? []
      );
      const vips = placed.length === 0 ? unplaced(servicePort2) : placed.flatMap(vipsOf);
      const listener = joinListeners(
        placed.flatMap(({ listenerId }) => listeners.get(listenerId) ?? [])
      );
      const own = ordered.get(servicePort2.name) ?? noOrders;
      yield [servicePort2, vips, listener, own, checkOf];
    }
}
var vipsOf = ({ vips }) => vips;
var noOrders = [];
var byName = (orders) => {
  const found = /* @__PURE__ */ new Map();
  for (const order of orders) {
    const own = found.get(order.name) ?? [];
    own.push(order);
    found.set(order.name, own);
  }
  return found;
};
var entriesInTurn = async (input) => {
  const listeners = /* @__PURE__ */ new Map();
  await forEachYielding(input.stats.listeners, (listener) => {
    listeners.set(listener.id, listener);
  });
  return entriesOf(input, { placements: placementsOf(input), listeners });
};

// src/page/wire.ts
var countsPerRow = 7;

// src/observe/page/live-rows.ts
var pieceChars = 48 * 1024;
var LiveRows = class {
  #slots = [];
  #places = /* @__PURE__ */ new Map();
  #free = [];
  /** `text` and `counts` of a row, at this look. */
  see(look, identity2, text, counts) {
    const slot = this.#slotOf(identity2);
    slot.seenAt = look;
    if (slot.text !== text) [slot.text, slot.textAt] = [text, look];
    if (slot.countsAt > 0 && counts.every((count2, i) => count2 === slot.counts[i])) return;
    slot.counts = counts;
    slot.countsAt = look;
  }
  /** The look is over: what it has not seen is gone. */
  seen(look) {
    for (const [place, slot] of this.#slots.entries()) {
      if (slot.seenAt === look || slot.identity === "") continue;
      this.#places.delete(slot.identity);
      this.#slots[place] = { ...nobody, textAt: look };
      this.#free.push(place);
    }
  }
  /** Events, in pieces, that tell of the looks after `since` up to `look`. */
  *changes(since, look) {
    const isNew = (at) => at > since && at <= look;
    yield* events("gone", this.#gone(isNew));
    yield* events("rows", this.#texts(isNew));
    yield* events("counts", this.#counts(isNew));
  }
  #slotOf(identity2) {
    const known = this.#places.get(identity2);
    if (known !== void 0) return this.#slots[known];
    const place = this.#free.pop() ?? this.#slots.length;
    const slot = { ...nobody, identity: identity2 };
    this.#slots[place] = slot;
    this.#places.set(identity2, place);
    return slot;
  }
  *#gone(isNew) {
    for (const [place, { identity: identity2, textAt }] of this.#slots.entries())
      if (identity2 === "" && isNew(textAt)) yield String(place);
  }
  *#texts(isNew) {
    for (const [place, { identity: identity2, text, textAt }] of this.#slots.entries())
      if (identity2 !== "" && isNew(textAt)) yield `[${place},${text}]`;
  }
  *#counts(isNew) {
    for (const [place, { identity: identity2, counts, countsAt }] of this.#slots.entries())
      if (identity2 !== "" && isNew(countsAt)) yield `${place},${counts.join(",")}`;
  }
};
var nobody = {
  identity: "",
  text: "",
  counts: Array.from({ length: countsPerRow - 1 }, () => 0),
  textAt: 0,
  countsAt: 0,
  seenAt: 0
};
var event = (name, json) => `event: ${name}
data: ${json}

`;
function* events(name, items) {
  let piece = "";
  for (const item of items) {
    piece += piece === "" ? item : `,${item}`;
    if (piece.length < pieceChars) continue;
    yield event(name, `[${piece}]`);
    piece = "";
  }
  if (piece !== "") yield event(name, `[${piece}]`);
}

// src/page/endpoint-words.ts
var isUsable = ({ eligible, drained }) => eligible && drained === null;
var endpointState2 = (endpoint) => {
  const { drained, check, state, eligible, resting } = endpoint;
  if (drained !== null) return "drained";
  if (check?.up === false) return "down";
  if (state === "not ready") return state;
  if (!eligible) return "unused";
  return resting ? "resting" : state;
};
var whyNotUsed = (endpoint) => {
  switch (endpointState2(endpoint)) {
    case "down":
      return endpoint.check?.why ?? "";
    case "unused":
      return "by policy or hints";
    case "resting":
      return "after a failure";
    case "drained":
      return "by order";
    default:
      return "";
  }
};

// src/observe/page/row-text.ts
var mostVips = 3;
var mostNamed = 2;
var rowText = (entry) => {
  const [servicePort2, vips, listener] = entry;
  const { name, protocol, family, endpoints } = servicePort2;
  const found = endpointsOf(entry);
  const [state, reason] = stateOf(entry, found, vipTrouble(vips, listener));
  return [
    name,
    protocol,
    family,
    vipTexts(servicePort2),
    state,
    [reason, found.why].filter(Boolean).join("; "),
    found.usable,
    endpoints.length,
    found.missing
  ];
};
var stateOf = ([{ endpoints, protocol }, , , orders], { usable, isFailing }, vip) => {
  if (vip?.[0] === "not listening") return vip;
  if (protocol === "TCP" && orders.some(({ kind }) => kind === "pause"))
    return ["paused", "by order: new clients wait"];
  if (usable === 0) return [endpoints.length === 0 ? "no endpoints" : "none usable", ""];
  return vip ?? [isFailing ? "failing" : "ok", ""];
};
var vipTrouble = (vips, listener) => {
  for (const bind of listener?.binds ?? [])
    if (bind.state === "failed")
      return [
        "not listening",
        `${joinHostPort(bind.bind.address, bind.bind.port)}: ${bind.error}`
      ];
  for (const { vip, capture, reason } of vips)
    if (capture === "not captured") return ["not captured", `${vipText(vip)}: ${reason}`];
  return listener?.binds.some(({ state }) => state === "binding") ? ["starting", ""] : void 0;
};
var endpointsOf = ([servicePort2, , listener, orders, checkOf]) => {
  const { endpoints, reachable } = servicePort2;
  const isPlain = reachable.length === endpoints.length && orders.length === 0 && listener?.endpoints.some(({ resting }) => resting) !== true;
  if (isPlain) return { usable: endpoints.length, missing: 0, isFailing: false, why: "" };
  const all = endpointStatuses(servicePort2, listener, orders, checkOf);
  const usable = all.filter(isUsable);
  const unused = all.filter((one) => endpointState2(one) === "unused");
  const named = all.filter((one) => one.resting || !(isUsable(one) || unused.includes(one)));
  const texts = named.slice(0, mostNamed).map(
    (one) => [one.endpoint, endpointState2(one), whyNotUsed(one)].filter(Boolean).join(" ")
  );
  const more = named.length - texts.length;
  return {
    usable: usable.length,
    missing: all.length - usable.length - unused.length,
    isFailing: usable.length > 0 && usable.every(({ resting }) => resting),
    why: [
      ...texts,
      ...more > 0 ? [`${more} more`] : [],
      ...unused.length > 0 ? [`${unused.length} unused by policy or hints`] : []
    ].join(", ")
  };
};
var vipTexts = ({ vips }) => {
  const texts = vips.slice(0, mostVips).map(vipText);
  const more = vips.length - texts.length;
  return `${texts.join(" ")}${more > 0 ? ` +${more}` : ""}`;
};
var vipText = ({ kind, address, port }) => kind === "NodePort" ? `*:${port}` : joinHostPort(address, port);

// src/observe/page/live-look.ts
var everyMs = 1e3;
var LiveLook = class {
  #deps;
  #rows = new LiveRows();
  /** Of the last look that is complete; 0: there was none. */
  #number = 0;
  #head = { json: "", changedAt: 0 };
  #tick = "";
  #taken = new Deferred();
  #input;
  constructor(deps) {
    this.#deps = deps;
  }
  get number() {
    return this.#number;
  }
  /** What the last look has found. */
  get input() {
    return this.#input;
  }
  /** Resolves when there is a look later than `number`. */
  async later(number) {
    if (this.#number <= number) await this.#taken.promise;
  }
  /** Until `signal` aborts. Rejects when a look fails. */
  async run(signal) {
    const watch = new ProcessWatch();
    try {
      while (!signal.aborted) {
        await this.#take(watch);
        const taken = this.#taken;
        this.#taken = new Deferred();
        taken.resolve();
        await wait(this.#deps.clock, everyMs, signal);
      }
    } finally {
      watch.close();
    }
  }
  /** Events that tell one who was told of `since` last of the look `number`. */
  *changes(since, number) {
    if (this.#head.changedAt > since) yield event("head", this.#head.json);
    yield* this.#rows.changes(since, number);
    if (number > 0) yield event("tick", this.#tick);
  }
  async #take(watch) {
    const { status: status2, clock } = this.#deps;
    const number = this.#number + 1;
    const input = await status2();
    const look = { at: Math.round(clock.now()), now: Date.now(), failedListeners: 0 };
    await forEachYielding(await entriesInTurn(input), (entry) => {
      look.failedListeners += failedBinds(entry);
      const [{ family, key }] = entry;
      const text = JSON.stringify(rowText(entry)).slice(1, -1);
      this.#rows.see(number, `${family} ${key}`, text, countsOf(entry));
    });
    this.#rows.seen(number);
    const json = JSON.stringify(pageHead(input));
    if (json !== this.#head.json) this.#head = { json, changedAt: number };
    this.#tick = JSON.stringify(pageTick(input, await watch.read(), look));
    this.#input = input;
    this.#number = number;
  }
};
var failedBinds = ([, , listener]) => listener?.binds.filter(({ state }) => state === "failed").length ?? 0;
var countsOf = ([, , listener]) => {
  if (listener === void 0) return uncounted;
  const { active, accepted, failed, dialRetries, bytesToBackend, bytesToClient } = listener.counters;
  const failures = Object.values(notByClient(failed)).reduce((sum, n2) => sum + n2, 0);
  return [active, accepted, failures, dialRetries, bytesToBackend, bytesToClient];
};
var uncounted = [0, 0, 0, 0, 0, 0];

// src/observe/page/viewers.ts
var mostViewers = 4;
var mostWaiting = 64 * 1024;
var idleMs = 1e4;
var Viewers = class {
  #deps;
  #open = /* @__PURE__ */ new Set();
  #look;
  #stop = new AbortController();
  constructor(deps) {
    this.#deps = deps;
  }
  /** What was found a moment ago, if somebody watches. */
  get latest() {
    return this.#look?.input;
  }
  /** One more: what it is to read; undefined when there are as many as may be. */
  join() {
    if (this.#open.size >= mostViewers) return void 0;
    const out = new PassThrough({ highWaterMark: mostWaiting });
    this.#open.add(out);
    out.once("close", () => this.#leaves(out));
    const look = this.#look ??= this.#begin();
    void this.#tell(out, look);
    return out;
  }
  #begin() {
    const look = new LiveLook(this.#deps);
    this.#stop = new AbortController();
    look.run(this.#stop.signal).catch((err) => {
      this.#deps.log.error({ err }, "the live page could not be made; it is tried again");
      for (const out of this.#open) out.destroy();
    });
    return look;
  }
  #leaves(out) {
    this.#open.delete(out);
    if (this.#open.size > 0) return;
    this.#stop.abort();
    this.#look = void 0;
  }
  async #tell(out, look) {
    const gone = new AbortController();
    out.once("close", () => gone.abort());
    const turn = pacer();
    const write = async (piece) => {
      if (!out.write(piece)) await this.#isTaken(out, gone.signal);
      await turn();
    };
    try {
      await write(`retry: 2000

${event("begin", "null")}`);
      for (let since = 0; ; ) {
        const { number } = look;
        for (const piece of look.changes(since, number)) await write(piece);
        since = number;
        await orAborted(look.later(number), gone.signal);
      }
    } catch {
      out.destroy();
    }
  }
  async #isTaken(out, gone) {
    const taken = once(out, "drain", { signal: gone });
    if (await within(this.#deps.clock, idleMs, taken) === void 0)
      throw new Error("it reads nothing");
  }
};

// src/observe/page/page-routes.ts
var guarded = {
  "Content-Security-Policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; "),
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-cache"
};

// src/observe/small-http-server.ts
var mostAnswerBytes = 64 << 20;

// src/observe/log.ts
import { pino } from "pino";
var mostWaitingBytes = 16 * 1024 * 1024;

// test/support/service-ports.ts
var clusterIp = (address, port = 80) => ({
  kind: "ClusterIP",
  address,
  port
});
var nowhere = { verdict: "reject", endpoints: [] };
var servicePort = (name, over2 = {}) => {
  const { protocol = "TCP" } = over2;
  return {
    key: `default/${name}/${protocol}`,
    name: `default/${name}`,
    namespace: "default",
    serviceName: name,
    portName: "",
    protocol,
    family: "IPv4",
    vips: [clusterIp("10.0.0.1")],
    affinityMs: 0,
    endpoints: [],
    internalTrafficPolicy: "Cluster",
    externalTrafficPolicy: "Cluster",
    internal: nowhere,
    external: nowhere,
    externalFromNode: nowhere,
    reachable: [],
    sourceRanges: void 0,
    ...over2
  };
};

// test/support/page-fixture.ts
var statusOfMany = (services) => {
  const ports = Array.from({ length: services }, (_, i) => portOf(i));
  const snapshot = {
    family: "IPv4",
    servicePorts: new Map(ports.map((port) => [port.key, port])),
    healthChecks: /* @__PURE__ */ new Map()
  };
  const placements = ports.map((port) => ({
    servicePort: port,
    listenerId: port.key,
    vips: port.vips.map(
      (vip) => ({ vip, capture: "local", binds: [], reason: "" })
    )
  }));
  let looks = 0;
  const status2 = async (over2 = {}) => {
    looks += 1;
    const now = looks;
    return {
      version: "1.2.3",
      startedAt: Date.now() - 6e4,
      draining: false,
      orders: [],
      checkOf: () => void 0,
      snapshots: [snapshot],
      placements,
      stats: {
        listeners: {
          *[Symbol.iterator]() {
            for (const [i, port] of ports.entries()) yield listenerOf(port, i, now);
          }
        },
        fds: { used: services, limit: 1e5 },
        acceptPaused: false
      },
      source: { name: "a test", synced: true, lastGoodAt: Date.now(), error: "" },
      problems: [],
      health: { healthy: true, reasons: [], lastUpdated: Date.now() },
      mode: { name: "userspace", mode: "", by: "", detail: "", passedOver: [] },
      ...over2
    };
  };
  return { status: status2, ports, looks: () => looks };
};
var portOf = (i) => {
  const endpoints = [1, 2, 3, 4].map((e) => ({
    ...readyEndpoint(`10.1.${i % 250}.${e}`),
    port: 8080
  }));
  const target = { verdict: "forward", endpoints };
  return servicePort(`service-${String(i).padStart(5, "0")}`, {
    vips: [clusterIp(`10.96.${i >> 8}.${i & 255}`)],
    endpoints,
    reachable: endpoints,
    internal: target,
    external: target,
    externalFromNode: target
  });
};
var listenerOf = (port, i, now) => ({
  id: port.key,
  name: port.name,
  protocol: "TCP",
  binds: [],
  endpoints: port.endpoints.map(({ address }) => ({
    key: `${address}:8080`,
    active: 0,
    failures: 0,
    resting: false
  })),
  counters: {
    ...newCounters(),
    ...i % 10 === 0 && {
      active: i % 7,
      accepted: now * (1 + i % 50),
      bytesToBackend: now * i,
      bytesToClient: now * i * 3
    }
  },
  lastError: "",
  wanted: true
});

// bench.tmp.mts
new PerformanceObserver((l) => {
  for (const e of l.getEntries()) if (e.duration > 5) console.log("gc", e.detail?.kind, e.duration.toFixed(1));
}).observe({ entryTypes: ["gc"] });
var { status } = statusOfMany(1e4);
var viewers = new Viewers({ status, clock: systemClock, log: console });
var bytes = 0;
var n = Number(process.argv[2] ?? 1);
await sleep(500);
var h = monitorEventLoopDelay2({ resolution: 1 });
h.enable();
var last = performance4.now();
var tick = () => {
  const now = performance4.now();
  if (now - last > 12) console.log("late", (now - last).toFixed(1));
  last = now;
  if (!over) setImmediate(tick);
};
var over = false;
tick();
for (let i = 0; i < n; i++) viewers.join().on("data", (d) => bytes += d.length);
await sleep(3e3);
console.log("first 3 s", bytes, (h.max / 1e6).toFixed(1));
h.reset();
bytes = 0;
var cpu = process.cpuUsage();
over = true;
await sleep(20);
h.reset();
await sleep(1e4);
var u = process.cpuUsage(cpu);
console.log("10 s", bytes, "worst", (h.max / 1e6).toFixed(1), "p99", (h.percentile(99) / 1e6).toFixed(1), "cpu %", ((u.user + u.system) / 1e5).toFixed(1));
process.exit();
