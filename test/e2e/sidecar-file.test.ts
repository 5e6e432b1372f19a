// A process of its own: it mostly waits.
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho, tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, runUsher, startUsher } from '../support/usher.ts'

t.jobs = 2

const route = (name: string, port: number, endpoint: string): string =>
  `  - {name: ${name}, listen: "tcp://${testHost}:${port}", endpoints: ["${endpoint}"]}\n`

t.test('a changed file takes effect without a cut, and a bad one not at all', async t => {
  const [kept, moved, gone, late, flag] = [
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
  ]
  const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
  const [toA, toB] = [a.endpoint.key, b.endpoint.key]
  const path = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  const write = (...routes: string[]) =>
    writeFile(path, `routes:\n${routes.toReversed().join('')}`)
  await write(
    route('kept', kept, toA),
    route('moved', moved, toA),
    route('gone', gone, toA),
  )
  const usher = await startUsher(
    t,
    'sidecar',
    '--config',
    path,
    `--route=tcp://${testHost}:${flag}=${toA}`,
  )
  const open = [kept, moved, gone, flag].map(port => dial(t, port))
  for (const client of open) await once(client, 'data')
  const allGoOn = async (what: string) => {
    for (const client of open) {
      client.write('still here?')
      t.equal(String(await once(client, 'data')), 'still here?', what)
    }
  }
  const sourceOk = async () => {
    const { body } = await get(usher.metrics, '/metrics')
    return /^usher_source_ok (\d)/m.exec(body)?.[1]
  }

  await write(
    route('kept', kept, toA),
    route('moved', moved, toB),
    route('late', late, toB),
  )
  await usher.logged('routes file reloaded', { file: path, routes: 3 })
  await until('the route that is gone', async () => {
    return (await firstWord(gone)) === 'ECONNREFUSED'
  })
  await until(
    'the endpoint that is another',
    async () => (await firstWord(moved)) === 'b',
  )
  await until('the new route', async () => (await firstWord(late)) === 'b')
  t.strictSame([await firstWord(kept), await firstWord(flag)], ['a', 'a'])
  await allGoOn('after the change')

  await writeFile(
    path,
    `routes:\n${route('kept', kept, 'nonsense')}${route('kept', 0, toA)}`,
  )
  const reason = await usher.logged(
    'the changed routes file cannot be used; keeping the old routes',
    { file: path },
  )
  t.match(reason, {
    level: 'error',
    reason: /^line 2: routes\[0\]\.endpoints\[0\]: .*line 3/,
  })
  const { source, problems, servicePorts } = await usher.status()
  t.match(source, { name: `routes ${path}`, error: /line 2: routes\[0\]\.endpoints/ })
  t.match(problems, [
    { object: path, field: 'line 2: routes[0].endpoints[0]' },
    { object: path, field: 'line 3: routes[1].listen' },
  ])
  t.strictSame(servicePorts.map(({ servicePort }) => servicePort).toSorted(), [
    'route/kept',
    'route/late',
    'route/moved',
    `route/tcp-${testHost.replaceAll('.', '-')}-${flag}`,
  ])
  t.equal(await sourceOk(), '0')
  t.match(await get(usher.healthz, '/healthz'), { status: 200 })
  t.strictSame([await firstWord(kept), await firstWord(moved)], ['a', 'b'])
  const shown = await runUsher('status', '--address', usher.metrics)
  t.match(shown.out, 'line 3: routes[1].listen')

  await write(route('kept', kept, toB))
  usher.send('SIGHUP')
  await until('it is mended', async () => (await sourceOk()) === '1')
  await until('the kept route', async () => (await firstWord(kept)) === 'b')
  t.equal(await firstWord(late), 'ECONNREFUSED')
  await allGoOn('after all')
  for (const client of open) client.destroy()
  usher.send('SIGTERM')
  t.strictSame(await usher.exit, { code: 0, signal: null })
})

t.test('a file that is bad at the start is a wrong call', async t => {
  const dir = t.testdir({
    'routes.yaml': 'routes:\n  - listen: tcp://localhost:1\n    endpoint: [a:1]\n',
    'sound.yaml': `routes:\n${route('db', 1, 'a:1')}`,
  })
  const bad = await runUsher('sidecar', '--config', `${dir}/routes.yaml`)
  t.equal(bad.code, 2)
  t.match(bad.err, `usher sidecar: --config ${dir}/routes.yaml: line 2: routes[0].`)
  t.match(bad.err, '; line 3: routes[0].endpoint: is unknown; did you mean endpoints?')
  const none = await runUsher('sidecar', '--config', `${dir}/none`)
  t.match(none, { code: 2, err: `--config ${dir}/none: there is no such file` })
  const device = await runUsher('sidecar', '--config=/dev/zero')
  t.match(device, { code: 2, err: '/dev/zero: it is not a regular file' })
  const clash = await runUsher(
    'sidecar',
    `--route=tcp://${testHost}:1=b:1`,
    `--config=${dir}/sound.yaml`,
  )
  t.match(clash, {
    code: 2,
    err: `line 2: routes[0].listen: tcp://${testHost}:1 is taken`,
  })
  const twice = await runUsher(
    'sidecar',
    `--route=tcp://${testHost}:2=b:1`,
    `--route=tcp://${testHost}:2=c:1`,
    `--config=${dir}/sound.yaml`,
  )
  t.match(twice, { code: 2, err: `tcp://${testHost}:2 is taken by route "tcp://` })
  const empty = await runUsher('sidecar', '--config=')
  t.match(empty, { code: 2, err: 'no route given' })
})

t.test('the options of a route do what they say, in a flag and in a file', async t => {
  const [inFlag, inFile, off] = [
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
  ]
  const early = await tcpBackend(t, socket => void socket.end())
  const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
  const [toEarly, toA, toB] = [early, a, b].map(({ endpoint }) => endpoint.key)
  const dir = t.testdir({
    'routes.yaml': `routes:
  - {name: file, listen: "tcp://${testHost}:${inFile}", tiers: [["${toEarly}"], ["${toA}"], ["${toB}"]]}
  - {listen: "tcp://${testHost}:${off}", endpoints: ["${toEarly}"], retryEarlyClose: false}
`,
  })
  const usher = await startUsher(
    t,
    'sidecar',
    `--config=${dir}/routes.yaml`,
    `--route=tcp://${testHost}:${inFlag}=${toEarly}|${toA}|${toB}?name=flag&affinity=3h&replay=1k`,
  )
  for (const port of [inFlag, inFile])
    for (const _ of [1, 2, 3]) t.equal(await firstWord(port), 'a', String(port))
  t.ok(early.accepted > 0)
  t.equal(b.accepted, 0, 'the last tier is not needed')
  t.equal(await firstWord(off), 'closed')
  const { servicePorts } = await usher.status()
  t.strictSame(servicePorts.map(({ servicePort }) => servicePort).toSorted(), [
    'route/file',
    'route/flag',
    `route/tcp-${testHost.replaceAll('.', '-')}-${off}`,
  ])
})
