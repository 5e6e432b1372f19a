import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import {
  makeLinuxRelay,
  makeLinuxRelayWith,
  mortalWorker,
} from '../support/linux-relay.ts'
import { namedBackend } from '../support/tcp-backend.ts'
import { unixFixture } from '../support/unix-fixture.ts'
import { dialUnix, readToEnd } from '../support/unix-socket.ts'
import { until } from '../support/until.ts'
import { tcpUnixContract } from './contract/tcp-unix.ts'
import { tcpUnixFilesContract } from './contract/tcp-unix-files.ts'

t.test('unix sockets of the Linux relay', { skip: linuxRelaySkip() }, async t => {
  tcpUnixContract(t, makeLinuxRelay)
  tcpUnixFilesContract(t, makeLinuxRelay)

  t.test('all workers accept from one socket, also when one has died', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 4, workerProgram: program })
    const { listen, faults, stats } = unixFixture(t, make)
    const backend = await namedBackend(t, 'served')
    const address = await listen([backend.endpoint])
    const visit = async (): Promise<string> => {
      const { bytes } = await readToEnd(dialUnix(t, address))
      return bytes.toString()
    }
    const visits = async (): Promise<ReadonlySet<string>> =>
      new Set(await Promise.all(Array.from({ length: 100 }, visit)))
    t.strictSame(await visits(), new Set(['served']))
    await tell(1)
    await until('it has died', () => faults.length === 1)
    t.strictSame(await visits(), new Set(['served']))
    await until('nothing is left', () => stats().counters.active === 0)
    t.match(stats().counters, { accepted: 200, failed: {} })
  })
})
