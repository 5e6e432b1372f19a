import { existsSync, lstatSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { unixPath } from '../../../src/util/unix-address.ts'
import type { MakeRelay } from '../../support/relay-fixture.ts'
import { namedBackend } from '../../support/tcp-backend.ts'
import { unixFixture } from '../../support/unix-fixture.ts'
import {
  deadSocket,
  dialUnix,
  readToEnd,
  unixBackend,
} from '../../support/unix-socket.ts'
import { until } from '../../support/until.ts'

/** The files of the sockets that a relay listens on. */
export const tcpUnixFilesContract = (t: Test, make: MakeRelay): void => {
  const setUp = (t: Test) => unixFixture(t, make)

  t.test(
    'a socket that a process left behind is replaced, one that is listened on is not',
    async t => {
      const { listen, folder, stats } = setUp(t)
      const path = join(folder, 'usher.sock')
      await deadSocket(path)
      const backend = await namedBackend(t, 'usher')
      const address = await listen([backend.endpoint])
      t.match(await readToEnd(dialUnix(t, address)), { bytes: Buffer.from('usher') })

      const taken = join(folder, 'taken')
      const other = await unixBackend(t, `unix:${taken}`, one => void one.end('other'))
      await listen([backend.endpoint], {}, `unix:${taken}`)
      t.match(stats().binds, [
        { state: 'failed', error: 'another process listens on it' },
      ])
      t.match(await readToEnd(dialUnix(t, `unix:${taken}`)), {
        bytes: Buffer.from('other'),
      })
      other.server.close()
      await until('it listens', () => stats().binds[0]?.state === 'listening')
      t.match(await readToEnd(dialUnix(t, `unix:${taken}`)), {
        bytes: Buffer.from('usher'),
      })
    },
  )

  t.test('what stands in the way is named', async t => {
    const { listen, folder, stats } = setUp(t)
    const backend = await namedBackend(t, 'usher')
    writeFileSync(join(folder, 'file'), 'mine')
    const wrong = [
      [join(folder, 'file'), 'there is a file that is not a socket'],
      [
        join(folder, 'none', 'db'),
        `there is no directory ${join(folder, 'none')}; make it first`,
      ],
      [join(folder, 'file', 'db'), `${join(folder, 'file')} is not a directory`],
    ] as const
    for (const [path, error] of wrong) {
      await listen([backend.endpoint], {}, `unix:${path}`)
      t.match(stats().binds, [{ state: 'failed', error }])
    }
  })

  t.test('a file that is gone, or is another one, is made again', async t => {
    const { listen, folder, stats } = setUp(t)
    const path = join(folder, 'usher.sock')
    const backend = await namedBackend(t, 'usher')
    const address = await listen([backend.endpoint], {}, `unix:${path}`)
    for (const isTaken of [false, true]) {
      rmSync(path)
      if (isTaken) {
        writeFileSync(path, 'mine')
        await until('it is told', () => stats().binds[0]?.state === 'failed')
        rmSync(path)
      }
      await until('it is there', () => existsSync(path))
      await until('it listens', () => stats().binds[0]?.state === 'listening')
      t.match(await readToEnd(dialUnix(t, address)), { bytes: Buffer.from('usher') })
    }
    t.equal(stats().lastError, '')
  })

  t.test('mode and owner are as they are wanted', async t => {
    const { listen, folder } = setUp(t)
    const backend = await namedBackend(t, 'usher')
    const path = join(folder, 'usher.sock')
    const isRoot = process.getuid?.() === 0
    const owner = isRoot ? '&uid=1234&gid=4321' : ''
    for (const mode of ['600', '0666']) {
      const address = await listen(
        [backend.endpoint],
        {},
        `unix:${path}?mode=${mode}${owner}`,
      )
      const { mode: bits, uid, gid } = lstatSync(path)
      t.equal(bits & 0o777, Number.parseInt(mode, 8))
      if (isRoot) t.strictSame([uid, gid], [1234, 4321])
      t.match(await readToEnd(dialUnix(t, address)), { bytes: Buffer.from('usher') })
    }
  })

  t.test('a socket that goes from one listener to another loses no client', async t => {
    const { relay, folder } = setUp(t)
    const backend = await namedBackend(t, 'usher')
    const address = `unix:${join(folder, 'usher.sock')}`
    const spec = (id: string) => ({
      id,
      name: id,
      protocol: 'TCP' as const,
      fronts: [
        {
          binds: [{ address, port: 0 }],
          endpoints: 'all' as const,
          endpointsFromNode: undefined,
          allowedClients: undefined,
          closedReason: '',
        },
      ],
      endpoints: [backend.endpoint],
      affinityMs: 0,
    })
    await relay.apply([spec('a')])
    const { ino } = lstatSync(unixPath(address))
    const over = new AbortController()
    const wrong: string[] = []
    const visitor = async (): Promise<number> => {
      let visits = 0
      for (; !over.signal.aborted; visits += 1) {
        const { bytes, how } = await readToEnd(dialUnix(t, address))
        if (bytes.toString() !== 'usher') wrong.push(how)
      }
      return visits
    }
    const visits = Promise.all([visitor(), visitor(), visitor()])
    for (let i = 0; i < 20; i += 1) {
      await relay.apply([spec(i % 2 === 0 ? 'b' : 'a')])
      await sleep(5)
    }
    over.abort()
    t.ok((await visits).every(count => count > 0))
    t.strictSame(wrong, [])
    t.equal(lstatSync(unixPath(address)).ino, ino)
  })
}
