import { connect } from 'node:net'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { carryingFds } from '../../support/relay-fixture.ts'
import { type RelayModule, relayProcess } from '../../support/relay-process.ts'
import { tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const answer = Buffer.alloc(24 * 1024, 'usher')

/** More clients than there are descriptors for: each is served when it is its turn. */
export const tcpCrowdContract = (t: Test, relay: RelayModule): void => {
  const setUp = async (t: Test, openFiles: number) => {
    const { listen, stats } = await relayProcess(t, relay, { openFiles })
    const port = await freeTcpPort()
    const backend = await tcpBackend(t, socket => {
      socket.write(answer)
      socket.on('end', () => socket.end())
      socket.resume()
    })
    await listen({ binds: [{ address: testHost, port }], endpoints: [backend.endpoint] })
    // Each worker has a listening socket of its own.
    const idle = carryingFds(await stats())
    const emptied = async () => carryingFds(await stats()) === idle
    return { port, stats, emptied }
  }

  t.test('in a crowd that comes and goes nobody is reset', async t => {
    const { port, stats, emptied } = await setUp(t, 200)
    const faults: string[] = []
    let left = 2000
    const visitor = async (): Promise<void> => {
      while (left-- > 0) {
        const fault = await visit(port, 0)
        if (fault !== '') faults.push(fault)
      }
    }
    await Promise.all(Array.from({ length: 250 }, visitor))
    t.strictSame(faults.slice(0, 5), [], `${faults.length} were not served`)
    await until('nothing is held', emptied)
    const [listener] = (await stats()).listeners
    t.match(listener?.counters, { accepted: 2000, active: 0 })
    t.strictSame(listener?.counters.failed, {})
  })

  t.test(
    'who holds a connection gives way to who waits, whichever worker has them',
    async t => {
      // Two workers that read their modules at once need more than 120.
      const { port, emptied } = await setUp(t, 200)
      const held = 100
      let served = 0
      const faults: string[] = []
      await Promise.all(
        Array.from({ length: 100 }, async () => {
          const fault = await visit(port, held)
          if (fault === '') served += 1
          else faults.push(fault)
        }),
      )
      t.strictSame(faults.slice(0, 5), [])
      t.equal(served, 100)
      await until('nothing is held', emptied)
    },
  )
}

/** Connects, reads the answer, stays for `ms` and leaves in order; what was wrong, or ''. */
const visit = (port: number, ms: number): Promise<string> =>
  new Promise(resolve => {
    let bytes = 0
    let fault = ''
    const socket = connect({ port, host: testHost, allowHalfOpen: true })
    socket.setTimeout(20_000, () => socket.destroy(new Error('not served for 20 s')))
    socket.on('data', data => {
      bytes += data.length
      if (bytes === answer.length) setTimeout(() => socket.end(), ms)
    })
    socket.on('error', error => (fault ||= error.message))
    socket.on('close', () => {
      const isShort = bytes < answer.length ? `${bytes} bytes` : ''
      resolve(fault || isShort)
    })
  })
