// A process of its own: it starts several.
import t from 'tap'
import { withIpv6 } from '../support/connection.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { freeTcpPort } from '../support/ports.ts'
import { ask, namedBackend } from '../support/tcp-backend.ts'
import { dialUnix, readToEnd } from '../support/unix-socket.ts'
import { serverDirectory } from '../health/server-process.ts'
import { startUsher } from '../support/usher.ts'

t.jobs = 2

const relays = linuxRelaySkip() === false ? ['linux', 'portable'] : ['portable']

for (const relay of relays)
  t.test(`${relay}: a route listens at several addresses`, withIpv6, async t => {
    const [a, b] = [await namedBackend(t, 'a'), await namedBackend(t, 'b')]
    const [port, other] = [await freeTcpPort('::'), await freeTcpPort()]
    const socket = `unix:${serverDirectory(t)}/db.sock`
    const listen = [
      `tcp://[::]:${port}`,
      `tcp://0.0.0.0:${port}`,
      `tcp://127.0.0.1:${other}`,
    ]
    const usher = await startUsher(
      t,
      'sidecar',
      `--relay=${relay}`,
      `--route=${[...listen, socket].join(',')}=${a.endpoint.key},${b.endpoint.key}?name=db&socket-mode=600`,
    )
    const hosts: [number, string][] = [
      [port, '::1'],
      [port, '127.0.0.1'],
      [other, '127.0.0.1'],
    ]
    for (const [at, host] of hosts) t.equal((await ask(at, host)).how, 'end', host)
    t.equal((await readToEnd(dialUnix(t, socket))).how, 'end')
    t.equal(a.accepted, 2, 'turns are the route’s')
    t.equal(b.accepted, 2)
    const { servicePorts } = await usher.status()
    t.equal(servicePorts.length, 1, 'it is one')
    await usher.logged('listening', { address: `[::]:${port}`, only: 'IPv6' })
  })
