import t from 'tap'
import { healthRoutes, timeText } from '../../src/observe/admin-routes.ts'
import { FailingBinds } from '../../src/observe/connection-log.ts'
import { Health, type HealthReport, type RelayGone } from '../../src/observe/health.ts'
import { type Metric, writeMetrics } from '../../src/observe/exposition.ts'
import { probeTable, sliTable } from '../../src/observe/metrics-table.ts'
import { ProbeCounts } from '../../src/observe/probe-counts.ts'
import type { Bind, BindState } from '../../src/relay/relay.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { ask, start } from './admin-client.ts'

const epoch = 1_700_000_000_000
const epochText = '2023-11-14T22:13:20Z'
const anyPort = { address: '127.0.0.1', port: 0 }

const bind: Bind = { address: '127.96.0.10', port: 80 }
const other: Bind = { address: '0.0.0.0', port: 30000 }
const listening = (to: Bind): BindState => ({ bind: to, state: 'listening' })
const failed = (to: Bind): BindState => ({
  bind: to,
  state: 'failed',
  error: 'EACCES',
  since: 0,
})

const setUpHealth = (binds: readonly BindState[] = [], applied = true) => {
  const clock = new FakeClock()
  const state = { synced: true, binds, gone: undefined as RelayGone | undefined }
  const health = new Health({
    clock,
    syncPeriodMs: 30_000,
    binds: () => state.binds,
    sourceSynced: () => state.synced,
    relayGone: () => state.gone,
    epoch: () => epoch + clock.now(),
  })
  if (applied) for (const family of ipFamilies) health.applied(family)
  return { clock, health, state }
}
const failedSince = (address: string, since: number): BindState => ({
  bind: { address, port: 80 },
  state: 'failed',
  error: 'EADDRINUSE',
  since,
})

t.test('health', async t => {
  t.test('is red while the process of the relay is gone, but for a moment', async t => {
    const { clock, health, state } = setUpHealth()
    state.gone = { reason: 'ended with code 9', since: clock.now() }
    clock.advance(1999)
    t.match(health.report(), { healthy: true, carried: true, reasons: [] })
    clock.advance(1)
    t.match(health.report(), {
      healthy: false,
      live: true,
      carried: false,
      reasons: ['no data plane has served for 2 s: the last one ended with code 9'],
      families: { IPv4: { healthy: false }, IPv6: { healthy: false } },
    })
    state.gone = undefined
    t.match(health.report(), { healthy: true, carried: true, reasons: [] })
  })

  t.test('is red until something is served; a restart would not help', async t => {
    const { health, state } = setUpHealth([], false)
    state.synced = false
    t.match(health.report(), {
      healthy: false,
      live: true,
      lastUpdated: undefined,
      reasons: ['the source has not been read completely'],
      families: { IPv4: { healthy: false, live: true, lastUpdated: undefined } },
    })
    state.synced = true
    t.match(health.report(), {
      healthy: false,
      live: true,
      reasons: ['no sync has completed yet'],
    })
    health.applied('IPv4')
    const { healthy, reasons } = health.report()
    t.strictSame([healthy, reasons], [true, []])
  })

  t.test('stays live however long the source is away', async t => {
    const { clock, health, state } = setUpHealth()
    state.synced = false
    clock.advance(24 * 3_600_000)
    t.ok(health.report().live)
  })

  t.test('is red when a change has waited for twice the sync period', async t => {
    const { clock, health } = setUpHealth()
    health.queued('IPv6')
    clock.advance(59_999)
    t.ok(health.report().healthy)
    clock.advance(1)
    const { healthy, live, reasons, families } = health.report()
    t.strictSame([healthy, live], [false, false])
    t.strictSame(reasons, ['a change of IPv6 has been waiting to be applied for 60 s'])
    t.match(families, {
      IPv4: { healthy: true, live: true },
      IPv6: { healthy: false, live: false },
    })
  })

  t.test('goes by the oldest waiting change, not the newest', async t => {
    const { clock, health } = setUpHealth()
    health.queued('IPv4')
    clock.advance(50_000)
    health.queued('IPv4')
    clock.advance(10_000)
    t.notOk(health.report().healthy)
  })

  t.test('is green again once the change is applied, and says when', async t => {
    const { clock, health } = setUpHealth()
    health.queued('IPv6')
    clock.advance(70_000)
    health.applied('IPv6')
    t.strictSame(health.report(), {
      healthy: true,
      live: true,
      carried: true,
      reasons: [],
      lastUpdated: epoch + 70_000,
      families: {
        IPv4: { healthy: true, live: true, lastUpdated: epoch },
        IPv6: { healthy: true, live: true, lastUpdated: epoch + 70_000 },
      },
    })
    clock.advance(1_000_000)
    t.ok(health.report().healthy, 'without changes nothing grows old')
  })

  t.test('a change applied in one family does not mend the other', async t => {
    const { clock, health } = setUpHealth()
    health.queued('IPv4')
    health.queued('IPv6')
    clock.advance(60_000)
    health.applied('IPv4')
    t.match(health.report(), {
      live: false,
      families: { IPv4: { live: true }, IPv6: { live: false } },
    })
  })

  t.test('is red in its family as long as a bind fails, but live', async t => {
    const { clock, health } = setUpHealth([failedSince('2001:db8::1', epoch)])
    t.notOk(health.report().healthy, 'at once')
    clock.advance(60_000)
    const { healthy, live, reasons, families } = health.report()
    t.strictSame([healthy, live], [false, true])
    t.strictSame(reasons, ['cannot listen on [2001:db8::1]:80 for 60 s: EADDRINUSE'])
    t.notOk(families.IPv6.healthy)
    t.ok(families.IPv4.healthy)
  })

  t.test('minds no bind that listens, waits or refuses', async t => {
    const { clock, health } = setUpHealth([
      { bind, state: 'listening' },
      { bind, state: 'binding' },
      { bind, state: 'closed', reason: 'no endpoints' },
    ])
    clock.advance(1_000_000)
    t.ok(health.report().healthy)
  })
})

t.test('failing binds', async t => {
  const setUp = () => {
    const clock = new FakeClock()
    return { clock, failing: new FailingBinds(clock) }
  }

  t.test('are those that failed last and have not listened since', async t => {
    const { failing } = setUp()
    failing.changed('default/web', failed(bind))
    failing.changed('default/web', failed(other))
    failing.changed('default/web', listening(bind))
    t.strictSame(failing.states(), [failed(other)])
    t.ok(failing.has('default/web', other))
    t.notOk(failing.has('default/web', bind))
    t.notOk(failing.has('default/other', other))
  })

  t.test('are remembered while the relay goes on trying, and no longer', async t => {
    const { clock, failing } = setUp()
    failing.changed('default/web', failed(bind))
    for (let tries = 0; tries < 10; tries += 1) {
      clock.advance(10_000)
      failing.changed('default/web', failed(bind))
    }
    clock.advance(24_999)
    t.equal(failing.states().length, 1)
    clock.advance(1)
    t.equal(failing.states().length, 0)
  })
})

t.test('times are printed as Go prints them', async t => {
  t.strictSame([undefined, epoch, epoch + 500, epoch + 120, epoch + 1].map(timeText), [
    '0001-01-01T00:00:00Z',
    '2023-11-14T22:13:20Z',
    '2023-11-14T22:13:20.5Z',
    '2023-11-14T22:13:20.12Z',
    '2023-11-14T22:13:20.001Z',
  ])
})

t.test('the health server', async t => {
  const fine = (lastUpdated: number | undefined) => ({
    healthy: true,
    live: true,
    lastUpdated,
  })
  const green: HealthReport = {
    ...fine(epoch - 1000),
    carried: true,
    reasons: [],
    families: { IPv4: fine(epoch - 1000), IPv6: fine(epoch - 2500) },
  }
  const state = { report: green, eligible: true }
  const probes = new ProbeCounts()
  const { server } = await start(
    t,
    healthRoutes(
      () => state.report,
      () => state.eligible,
      { probes, epoch: () => epoch },
    ),
    anyPort,
  )
  const get = async (path: string) => {
    const reply = await ask(server.address(), path)
    return { ...reply, json: JSON.parse(reply.body) as unknown }
  }
  t.beforeEach(() => Object.assign(state, { report: green, eligible: true }))

  t.test('answers /healthz as kube-proxy does since 1.33', async t => {
    const { status, headers, body } = await get('/healthz')
    t.equal(status, 200)
    t.equal(headers['content-type'], 'application/json')
    t.equal(headers['x-content-type-options'], 'nosniff')
    t.equal(
      body,
      `{"lastUpdated":"${epochText}","currentTime":"${epochText}","nodeEligible":true,` +
        '"healthy":true,"status":{' +
        '"IPv4":{"lastUpdated":"2023-11-14T22:13:19Z","healthy":true},' +
        '"IPv6":{"lastUpdated":"2023-11-14T22:13:17.5Z","healthy":true}}}',
    )
  })

  t.test('leaves out a family that was never applied, and then the status', async t => {
    const families = { ...green.families, IPv6: fine(undefined) }
    state.report = { ...green, families }
    t.strictSame((await get('/livez')).json, {
      lastUpdated: epochText,
      currentTime: epochText,
      healthy: true,
      status: { IPv4: { lastUpdated: '2023-11-14T22:13:19Z', healthy: true } },
    })
    state.report = { ...green, families: { ...families, IPv4: fine(undefined) } }
    t.notMatch((await get('/livez')).body, 'status')
  })

  t.test('says nothing of the node in /livez', async t => {
    state.eligible = false
    const { status, json } = await get('/livez')
    t.equal(status, 200)
    t.notOk(Object.hasOwn(json as object, 'nodeEligible'))
    t.match(json, { healthy: true })
  })

  t.test('fails /healthz alone when the node should get no traffic', async t => {
    state.eligible = false
    t.match(await get('/healthz'), {
      status: 503,
      json: { healthy: true, nodeEligible: false, lastUpdated: /:19Z$/ },
    })
    t.equal((await get('/livez')).status, 200)
  })

  t.test(
    'fails both when a change waits, with the time of the last good one',
    async t => {
      const late = { healthy: false, live: false, lastUpdated: epoch }
      state.report = {
        ...green,
        healthy: false,
        live: false,
        families: { ...green.families, IPv4: late },
      }
      for (const path of ['/healthz', '/livez'])
        t.match(await get(path), {
          status: 503,
          json: {
            healthy: false,
            lastUpdated: '2023-11-14T22:13:19Z',
            currentTime: epochText,
            status: { IPv4: { healthy: false }, IPv6: { healthy: true } },
          },
        })
    },
  )

  t.test('fails /healthz alone for what a restart would not mend', async t => {
    const unread = { healthy: false, live: true, lastUpdated: undefined }
    state.report = {
      ...unread,
      carried: true,
      reasons: ['the source has not been read completely'],
      families: { IPv4: unread, IPv6: unread },
    }
    t.match(await get('/healthz'), {
      status: 503,
      json: {
        lastUpdated: '0001-01-01T00:00:00Z',
        healthy: false,
        status: { IPv4: { healthy: false, lastUpdated: '0001-01-01T00:00:00Z' } },
      },
    })
    t.match(await get('/livez'), { status: 200, json: { healthy: true } })
  })

  t.test('counts its answers by code', async t => {
    const lines = async (table: readonly Metric<ProbeCounts>[]) =>
      Buffer.concat(await writeMetrics(table, probes))
        .toString()
        .split('\n')
    const totals = async () =>
      Object.fromEntries(
        (await lines(probeTable)).map(line => {
          const [name = '', value] = line.split(' ')
          return [name, Number(value)]
        }),
      )
    const before = await totals()
    await get('/healthz')
    await get('/livez')
    state.eligible = false
    await get('/healthz')
    await get('/healthz')
    const after = await totals()
    const more = (key: string) => (after[key] ?? 0) - (before[key] ?? 0)
    t.equal(more('kubeproxy_proxy_healthz_total{code="200"}'), 1)
    t.equal(more('kubeproxy_proxy_healthz_total{code="503"}'), 2)
    t.equal(more('kubeproxy_proxy_livez_total{code="200"}'), 1)
    const slis = await lines(sliTable)
    const good = (type: string, value: number) =>
      slis.includes(`kubernetes_healthcheck{name="proxier",type="${type}"} ${value}`)
    t.ok(good('healthz', 0), 'the last one was 503')
    t.ok(good('livez', 1))
    t.ok(
      slis.some(line =>
        /healthchecks_total\{name="proxier",status="error",type="healthz"\} [2-9]/.test(
          line,
        ),
      ),
    )
  })
})
