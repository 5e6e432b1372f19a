import { once } from 'node:events'
import { appendFile } from 'node:fs/promises'
import t from 'tap'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { ask, dial, namedBackend, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { runUsher } from '../support/usher.ts'
import { runInWine, startInWine, windowsPath } from './usher-in-wine.ts'

t.test('Services of a file with a drive in its path, which changes', async t => {
  const [port, otherPort] = [await freeTcpPort(), await freeTcpPort()]
  const [a, b] = [await namedBackend(t, 'a'), await namedBackend(t, 'b')]
  const echo = await namedEcho(t, 'echo')
  const web = service('web', testHost, [{ name: 'p', port }])
  const file = await manifestFile(t, web, ...slice('web', [a.endpoint]))
  const path = windowsPath(file.path)
  t.match(path, /^Z:\\/)
  const usher = await startInWine(t, 'run', `--manifests=${path}`, '--capture=listen')
  t.strictSame(await ask(port), { text: 'a', how: 'end' })

  const other = service('other', testHost, [{ name: 'p', port: otherPort }])
  const more = [other, ...slice('other', [echo.endpoint])]
  await file.write(web, ...slice('web', [b.endpoint]), ...more)
  await until('another file in its place', async () => (await ask(port)).text === 'b')
  const open = dial(t, otherPort)
  await once(open, 'data')

  const asked = [`--address=${usher.metrics}`]
  for (const run of [runInWine, runUsher]) {
    const status = await run('status', ...asked)
    t.match(status, { code: 0, err: '' })
    t.match(status.out, `manifests ${path}`)
    t.match(
      status.out,
      /^relay +portable \(a process of its own; runs wherever Node does\)/m,
    )
    t.match(status.out, `${testHost}:${otherPort}  on the VIP itself  listening`)
    const services = await run('get', 'services', ...asked)
    t.match(services, { code: 0, err: '' })
    t.match(services.out, /^default +other +p +TCP +\S+ +- +1\/1 +1 +0 +ok$/m)
  }

  await appendFile(file.path, '---\nkind: [\n')
  await until('what is wrong is said', async () => {
    const { source } = await usher.status()
    return source.error.startsWith(`${path} document 5: `)
  })
  t.strictSame(await ask(port), { text: 'b', how: 'end' }, 'the last state stands')
  t.match(await runInWine('check', path), { code: 1, out: `problem: ${path}` })

  usher.send('SIGINT')
  await usher.logged('stopping: draining', { reason: 'SIGINT' })
  open.end('bye')
  t.equal(String(await once(open, 'data')), 'bye')
  t.strictSame(await usher.exit, { code: 0, signal: null })
  t.match(await usher.logged('stopped'), { reset: 0 })
})
