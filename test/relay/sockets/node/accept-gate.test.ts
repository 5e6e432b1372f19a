import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { acceptGate } from '../../../../src/relay/sockets/node/accept-gate.ts'
import { onLinux, portOf, withIpv6 } from '../../../support/connection.ts'
import { testHost } from '../../../support/ports.ts'

t.test('acceptGate', async t => {
  for (const [name, host, options] of [
    ['IPv4', testHost, onLinux],
    ['IPv6', '::1', withIpv6],
  ] as const) {
    t.test(`keeps clients in the kernel's queue over ${name}`, options, async t => {
      let accepted = 0
      const server = createServer(socket => {
        accepted += 1
        socket.end('hello')
      })
      server.listen(0, host)
      await once(server, 'listening')
      t.teardown(() => server.close())
      const gate = acceptGate(server)
      assert.ok(gate !== undefined, 'there is a gate')
      const port = portOf(server)
      /** Connects and answers what it is told. */
      const client = async () => {
        const socket = connect(port, host)
        t.teardown(() => socket.destroy())
        await once(socket, 'connect')
        return once(socket, 'data')
      }
      await client()
      t.equal(accepted, 1, 'a gate begins open')
      for (let round = 1; round <= 2; round += 1) {
        gate.stop()
        gate.stop()
        const two = [client(), client()]
        await sleep(50)
        t.equal(accepted, round * 2 - 1, 'nobody is accepted')
        gate.start()
        gate.start()
        t.match(String(await Promise.all(two)), 'hello,hello')
        t.equal(accepted, round * 2 + 1)
      }
    })
  }

  t.test('is none for a server that does not listen', async t => {
    t.equal(acceptGate(createServer()), undefined)
  })

  t.test('leaves a stopped server closable; who queues is reset', onLinux, async t => {
    const server = createServer().listen(0, testHost)
    await once(server, 'listening')
    const port = portOf(server)
    acceptGate(server)?.stop()
    const client = connect(port, testHost)
    await once(client, 'connect')
    server.close()
    await once(server, 'close')
    const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException]
    t.equal(error.code, 'ECONNRESET')
  })
})
