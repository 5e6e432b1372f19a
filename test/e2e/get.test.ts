// A process of its own: it mostly waits.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { publishedSchema } from '../support/output-schema.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, runUsher, spawnUsher, startUsher } from '../support/usher.ts'
import { usherProgram } from '../support/usher-program.ts'

t.jobs = 2

interface Document {
  readonly kind: string
  readonly items: readonly Readonly<Record<string, unknown>>[]
}

/** A node proxy with the Services default/web and shop/api, and one without endpoints. */
const setUp = async (t: Test, ...flags: string[]) => {
  const [port, second] = [await freeTcpPort(), await freeTcpPort()]
  const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
  const at = (namespace: string, one: object) => {
    const { metadata, ...rest } = one as { metadata: object }
    return { ...rest, metadata: { ...metadata, namespace } }
  }
  const web = service('web', testHost, [{ name: 'http', port }])
  const api = [service('api', testHost, [{ name: '', port: second }])]
  const none = service('none', testHost, [{ name: 'p', port: await freeTcpPort() }])
  const http = { name: 'http', protocol: 'TCP', port }
  const webOf = (...endpoints: Parameters<typeof slice>[1]) => [
    web,
    ...slice('web', endpoints, http),
    none,
    ...api.map(one => at('shop', one)),
  ]
  const file = await manifestFile(t, ...webOf(a.endpoint, b.endpoint))
  const usher = await startUsher(t, 'run', `--manifests=${file.path}`, ...flags)
  const ask = (...args: string[]) =>
    runUsher('get', ...args, `--address=${usher.metrics}`)
  const json = async (...args: string[]): Promise<Document> =>
    JSON.parse((await ask(...args, '-o', 'json')).out) as Document
  return { usher, port, second, a, b, file, webOf, ask, json }
}

const namesIn = ({ items }: Document): readonly unknown[] => items.map(({ name }) => name)

t.test('a node proxy is asked at its metrics address', async t => {
  const { usher, port, second, a, b, ask, json } = await setUp(t)

  await t.test('services', async t => {
    const { code, out, err } = await ask('services')
    t.equal(code, 0)
    t.equal(err, '')
    const [head = '', ...rows] = out.trimEnd().split('\n')
    t.match(
      head,
      /^NAMESPACE +NAME +PORT +PROTOCOL +CLUSTER-IP +OTHER-ADDRESSES +ENDPOINTS +ACTIVE +FAILED +STATE$/,
    )
    t.equal(rows.length, 3)
    t.match(
      out,
      new RegExp(`^default +web +http +TCP +${testHost}:${port} +- +2/2 +0 +0 +ok$`, 'm'),
    )
    t.match(
      out,
      new RegExp(
        `^shop +api +- +TCP +${testHost}:${second} +- +0/0 +0 +0 +no endpoints$`,
        'm',
      ),
    )
    t.equal((await ask('svc', '--no-headers')).out, `${rows.join('\n')}\n`)
    // As with kubectl.
    t.match((await ask('services', '-n', 'shop')).out, /^NAME +PORT .*\napi +- +TCP /)
    const document = await json('services', '-n', 'shop')
    t.match(document, {
      kind: 'ServiceList',
      items: [{ name: 'shop/api', namespace: 'shop', service: 'api', port: '' }],
    })
    t.equal(document.items.length, 1)
  })

  await t.test('by name, and names alone', async t => {
    for (const args of [
      ['services', 'default/web'],
      ['service/default/web:http'],
      ['svc/default/web'],
    ])
      t.strictSame(namesIn(await json(...args)), ['default/web:http'], args.join(' '))
    const { out } = await ask('ep', 'default/web', '-o', 'name')
    t.strictSame(
      out.trimEnd().split('\n').toSorted(),
      [a, b].map(({ endpoint: { key } }) => `endpoint/${key}`).toSorted(),
    )
    t.strictSame(namesIn(await json('endpoints', a.endpoint.key)), [a.endpoint.key])
    t.match(await ask('services', 'api'), {
      code: 1,
      out: /^$/,
      err: /there is no Service or route "api"; did you mean shop\/api\?/,
    })
    t.match(await ask('connections', 'default/wbe'), {
      code: 1,
      err: /did you mean default\/web\?/,
    })
    t.match(await ask('servces'), {
      code: 2,
      err: /"servces" is not a kind; did you mean services\?/,
    })
  })

  await t.test('listeners', async t => {
    const { items } = await json('listeners')
    t.match(
      items.find(({ service: of }) => of === 'default/web:http'),
      {
        name: `${testHost}:${port}`,
        kind: 'ClusterIP',
        protocol: 'TCP',
        state: 'listening',
        reason: '',
      },
    )
    t.match((await ask('listener', '-o', 'wide')).out, /^NAME +SERVICE .* REASON$/m)
    t.match((await ask('endpoints')).out, /^NAME +SERVICE +STATE /)
  })

  await t.test('connections', async t => {
    t.match(await ask('connections'), {
      code: 0,
      out: /^$/,
      err: /there are no connections$/m,
    })
    const client = dial(t, port)
    await once(client, 'data')
    const { out } = await ask('connections', '-n', 'default')
    t.match(
      out,
      new RegExp(
        `default/web:http +127[.0-9]+:${client.localPort} +(${a.endpoint.key}|${b.endpoint.key}) +open `,
      ),
    )
    t.equal((await json('connections', 'default/web')).items.length, 1)
    t.equal((await json('connections', 'shop/api')).items.length, 0)
    t.equal((await json('connections', '-n', 'shop')).items.length, 0)
    client.destroy()
  })

  await t.test('where nobody answers', async t => {
    t.match(await runUsher('get', 'services', '--address=127.0.0.1:1'), {
      code: 3,
      err: /^usher get: http:\/\/127\.0\.0\.1:1\/status: .*ECONNREFUSED.* Is Usher running\?/,
    })
  })
  await t.test('the status is as its schema says', async t => {
    const isStatus = publishedSchema('status')
    const { body } = await get(usher.metrics, '/status')
    t.ok(isStatus(JSON.parse(body)), JSON.stringify(isStatus.errors))
  })
  t.equal((await get(usher.metrics, '/connections')).status, 200)
  const unknown = await get(usher.metrics, '/connections?routes=default/nowhere')
  t.equal(unknown.status, 404, unknown.body)
  t.match(unknown.body, 'default/nowhere')
})

t.test('before the source has been read the reason is said', async t => {
  const metrics = `${testHost}:${await freeTcpPort()}`
  const nobody = `https://${testHost}:${await freeTcpPort()}`
  const flags = [`--metrics-bind-address=${metrics}`, '--healthz-bind-address=off']
  const usher = spawnUsher(['run', `--master=${nobody}`, ...flags])
  const ended = once(usher, 'exit')
  t.teardown(async () => {
    usher.kill('SIGKILL')
    await ended
  })
  await until('it answers', async () =>
    get(metrics, '/status').then(
      () => true,
      () => false,
    ),
  )
  for (const command of [
    ['get', 'services'],
    ['get', 'ep', '-o', 'json'],
    ['top', '--once'],
  ])
    t.match(
      await runUsher(...command, `--address=${metrics}`),
      {
        code: 1,
        out: /^$/,
        err: new RegExp(`^usher ${command[0]}: nothing is served yet: .`),
      },
      command.join(' '),
    )
})

t.test('what changes is printed as it does', async t => {
  const { usher, a, b, file, webOf } = await setUp(t)
  const flags = ['-w', '-o', 'json', `--address=${usher.metrics}`]
  const watching = spawnUsher(['get', 'endpoints', ...flags])
  t.teardown(() => watching.kill())
  let said = ''
  watching.stdout.setEncoding('utf8').on('data', text => void (said += String(text)))
  const events = (): string[] =>
    said
      .split('\n')
      .slice(0, -1)
      .map(line => {
        const { type, object } = JSON.parse(line) as {
          type: string
          object: { name: string }
        }
        return `${type} ${object.name}`
      })
  const added = [a, b].map(({ endpoint: { key } }) => `ADDED ${key}`).toSorted()
  await until('all are there', async () => events().length === 2)
  t.strictSame(events().toSorted(), added)
  await file.write(...webOf(a.endpoint))
  await until('one has gone', async () => events().length === 3)
  t.equal(events()[2], `DELETED ${b.endpoint.key}`)
  watching.kill()
  await once(watching, 'exit')
})

/** A command that goes on, whose reader goes after its first line. */
const headOf = async (t: Test, ...args: string[]) => {
  const child = spawnUsher(args)
  t.teardown(() => child.kill('SIGKILL'))
  const closed = once(child, 'close') as Promise<[number | null, string | null]>
  let err = ''
  child.stderr.setEncoding('utf8').on('data', text => void (err += String(text)))
  await once(child.stdout, 'data')
  child.stdout.destroy()
  return { child, exit: async () => [...(await closed), err] }
}

t.test('what goes on ends when nobody reads it any more', async t => {
  const { usher, a, file, webOf } = await setUp(t)
  const address = `--address=${usher.metrics}`
  const all = [
    await headOf(t, 'get', 'endpoints', '-w', address),
    await headOf(t, 'top', address),
  ]
  // A list is printed when it changes; before that nobody can know.
  await file.write(...webOf(a.endpoint))
  for (const { child, exit } of all)
    t.strictSame(await exit(), [0, null, ''], child.spawnargs.join(' '))
})

const noFull = !existsSync('/dev/full') && 'there is no /dev/full'

t.test('what can be written nowhere is a failure', { skip: noFull }, async t => {
  const { usher } = await setUp(t)
  const line = [process.execPath, usherProgram, 'get', 'svc', '-w']
  const child = spawn('sh', [
    '-c',
    'exec "$0" "$@" >/dev/full',
    ...line,
    `--address=${usher.metrics}`,
  ])
  t.teardown(() => child.kill('SIGKILL'))
  t.strictSame(await once(child, 'close'), [1, null])
})

/** An Usher that has something to note, and is then gone. */
const endsAfterNote = async (t: Test): Promise<string> => {
  const answer = { connections: [], leftOut: 0, gap: false, notes: ['a note'], next: '' }
  const server = createServer(({ url = '', socket }, response) => {
    if (url.startsWith('/ended')) response.end(JSON.stringify(answer))
    else socket.destroy()
  })
  t.teardown(() => server.close())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `--address=127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test(
  'where errors can be written nowhere, exit codes are as ever',
  { skip: noFull },
  async t => {
    for (const [args, code] of [
      [['status', '--address=127.0.0.1:1'], 3],
      [['status', '--no-such-flag'], 2],
      [['tap', 'default/web', '--open', await endsAfterNote(t)], 3],
    ] as const) {
      const line = [process.execPath, usherProgram, ...args]
      const child = spawn('sh', ['-c', 'exec "$0" "$@" 2>/dev/full', ...line])
      t.teardown(() => child.kill('SIGKILL'))
      t.strictSame(await once(child, 'close'), [code, null], args.join(' '))
    }
  },
)
