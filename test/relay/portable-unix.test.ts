import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { ask, tcpBackend } from '../support/tcp-backend.ts'
import { unixFixture } from '../support/unix-fixture.ts'
import { until } from '../support/until.ts'
import { tcpUnixContract } from './contract/tcp-unix.ts'
import { tcpUnixFilesContract } from './contract/tcp-unix-files.ts'

const isOld = Number.parseInt(process.versions.node, 10) < 22

tcpUnixContract(
  t,
  makePortableRelay,
  isOld && 'Node 20 gives abstract sockets other names',
)
tcpUnixFilesContract(t, makePortableRelay)

t.test(
  'abstract sockets that would get other names are refused',
  { skip: !isOld },
  async t => {
    const { listen, overTcp, stats, records } = unixFixture(t, makePortableRelay, {
      dialLadder: [100],
    })
    const { endpoint } = await tcpBackend(t, socket => void socket.end())
    await listen([endpoint], {}, 'unix:@usher-test')
    const error = 'abstract sockets need Node 22, or the Linux relay'
    t.match(stats().binds, [{ state: 'failed', error }])
    const address = 'unix:@usher-test'
    const port = await overTcp([{ key: address, address, port: 0 }])
    t.match(await ask(port), { how: 'ECONNRESET' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'SC', detail: 'ENOTSUP from unix:@usher-test' })
  },
)
