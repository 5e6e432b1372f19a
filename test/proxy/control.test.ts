import { once } from 'node:events'
import { chmodSync, existsSync } from 'node:fs'
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { pause, resume } from '../../src/cli/orders.ts'
import type { NewOrder } from '../../src/mode/operator-orders.ts'
import type { Service } from '../../src/model/service.ts'
import { Deferred } from '../../src/util/deferred.ts'
import { order } from '../support/control-socket.ts'
import { portSpec, put, service } from '../support/objects.ts'
import { controlSocket, ran } from './control-fixture.ts'

const web = service('web', {
  clusterIPs: ['10.0.0.1', 'fd00::1'],
  ports: [portSpec(), portSpec({ name: 'dns', protocol: 'UDP', port: 53 })],
})
const db = service('db', { namespace: 'route', clusterIPs: ['10.0.0.2'] })
const unnamed = { ...db, ports: [portSpec({ name: '' })] }

const setUp = (t: Test, services: readonly Service[] = [web, unnamed]) =>
  controlSocket(t, services.map(put))

/** What a command printed, and its exit code. */
const run = (
  command: typeof pause | typeof resume,
  path: string,
  ...name: string[]
): Promise<{ code: number; out: string; err: string }> =>
  ran(command, { name, controlSocket: path, reset: false, for: 0 })

const pauseOf = (name: string): NewOrder => ({
  kind: 'pause',
  name,
  endpoint: '',
  reset: false,
})

t.test('a Service is named with all of its ports, or one of them', async t => {
  const { path, orders } = await setUp(t)
  t.strictSame(await run(pause, path, 'default/web', 'db', 'db'), {
    code: 0,
    out: 'default/web:http: paused until it is resumed\ndb: paused until it is resumed\n',
    err: 'usher pause: default/web:dns: UDP goes on\n',
  })
  t.strictSame(
    orders.all().map(({ name }) => name),
    ['default/web:http', 'route/db'],
  )
  t.match(await run(pause, path, 'default/web:http'), {
    code: 0,
    out: 'default/web:http: was already paused; now until it is resumed\n',
  })
  t.match(await run(resume, path, 'default/web:http', 'route/db'), {
    code: 0,
    out: 'default/web:http: resumed\ndb: resumed\n',
  })
  t.strictSame(orders.all(), [])
})

t.test('of several names one that is wrong makes it all wrong', async t => {
  const { path, orders, mode } = await setUp(t)
  for (const [name, err] of [
    ['bd', 'there is no Service "bd"; did you mean db?'],
    ['web', 'there is no Service "web"; did you mean default/web?'],
    [
      'x',
      'there is no Service "x"; there are default/web:dns, default/web, default/web:http, db',
    ],
    [
      'default/web:dns',
      'default/web:dns is UDP: only TCP connections can be made to wait',
    ],
  ] as const)
    t.strictSame(await run(pause, path, 'db', name), {
      code: 1,
      out: '',
      err: `usher pause: ${err}\n`,
    })
  mode.name = 'ipvs'
  t.match(await run(pause, path, 'db'), { code: 1, err: /in ipvs mode the kernel/ })
  t.strictSame(orders.all(), [])
  const empty = await setUp(t, [])
  t.match(await run(resume, empty.path, 'db'), { code: 1, err: /there is none yet/ })
})

t.test('what is ordered is what is done, and told', async t => {
  const { path, orders } = await setUp(t)
  const routes = ['db']
  const answer = await order(path, '/pause', { routes, reset: true, forMs: 60_000 })
  const { since = 0, until = 0, ...rest } = orders.get('pause', 'route/db') ?? {}
  t.match(rest, { reset: true })
  t.equal(until - since, 60_000)
  const paused = {
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
  }
  t.strictSame(answer, {
    status: 200,
    body: { routes: [{ route: 'db', wasPaused: false, paused }], notes: [] },
  })
  await order(path, '/pause', { routes })
  t.match(orders.get('pause', 'route/db'), { reset: false, until: undefined, since })
})

t.test('an order that is not so any more when it has come into effect', async t => {
  const { path, orders, reconciler } = await setUp(t)
  reconciler.applied = async () => void orders.withdraw([pauseOf('route/db')])
  const late = await run(pause, path, 'db', 'default/web')
  t.match(late, {
    code: 1,
    out: 'default/web:http: paused until it is resumed\n',
    err: /^usher pause: db is no longer paused: --for expired/m,
  })
  reconciler.applied = async () => orders.give([pauseOf('route/db')], undefined)
  t.match(await run(resume, path, 'db'), { code: 1, out: '', err: /paused it again/ })
})

t.test('the answer comes when it is in effect, or after 10 s', async t => {
  const { path, clock, reconciler } = await setUp(t)
  const done = new Deferred<void>()
  reconciler.applied = () => done.promise
  let isAnswered = false
  const answer = order(path, '/pause', { routes: ['db'] }).then(given => {
    isAnswered = true
    return given
  })
  while (clock.waiting < 2) await setImmediate()
  t.notOk(isAnswered)
  clock.advance(10_000)
  t.match(await answer, {
    status: 503,
    body: { error: { code: 'NOT_APPLIED', message: /not in effect yet.* 10 s/ } },
  })
  done.reject(new Error('Usher is ending'))
  t.match(await run(resume, path, 'db'), {
    code: 1,
    err: 'usher resume: it has no effect: Usher is ending\n',
  })
})

t.test('what is no order is refused', async t => {
  const { path, orders } = await setUp(t)
  for (const [body, message] of [
    ['{', /not JSON/],
    [{ routes: [] }, /routes: is empty/],
    [{ routes: Array.from({ length: 1001 }, () => 'db') }, /more than 1000/],
    [{ routes: ['db'], forMs: -1 }, /forMs: -1 is not a number of milliseconds/],
    [{ routes: ['db'], forMs: 2_073_600_001 }, /forMs: 2073600001 is not a number/],
    [{ routes: ['db'], reset: 1 }, /reset: 1 is not true or false/],
    [{ routes: ['db'], weight: 1 }, /weight/],
  ] as const)
    t.match(await order(path, '/pause', body), {
      status: 400,
      body: { error: { code: 'BAD_REQUEST', message } },
    })
  t.match(await order(path, '/pause', 'x'.repeat(70_000)), { status: 413 })
  t.match(await order(path, '/open', {}), { status: 404 })
  t.strictSame(orders.all(), [])
})

t.test('no order is taken by a socket that others have a right to', async t => {
  const { path, orders, server } = await setUp(t)
  t.strictSame(server?.problems(), [])
  chmodSync(path, 0o620)
  t.match(await order(path, '/pause', { routes: ['db'] }), {
    status: 503,
    body: /its mode has become 620; make it 600/,
  })
  t.match(server?.problems(), [
    { object: `--control-socket ${path}`, message: /its mode has become 620/ },
  ])
  t.match(await run(pause, path, 'db'), { code: 3, err: /its mode is 620/ })
  t.strictSame(orders.all(), [])
})

t.test('at the end it is gone, whoever is connected', async t => {
  const { path, server } = await setUp(t)
  const silent = connect({ path }).on('error', () => {})
  await once(silent, 'connect')
  const closed = once(silent.resume(), 'close')
  await server?.close()
  t.notOk(existsSync(path))
  await closed
})

t.test('without a path there is no socket', async t => {
  const { path } = await setUp(t)
  t.ok(existsSync(path))
  t.rejects(run(pause, '', 'db'), /no control socket given/)
})
