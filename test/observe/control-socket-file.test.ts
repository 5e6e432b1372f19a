import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { listenOnFile, trustProblem } from '../../src/observe/control-socket-file.ts'
import { socketPath } from '../support/control-socket.ts'

/** A server that says its name. */
const named = (t: Test, name: string): Server => {
  const server = createServer(socket => void socket.on('error', () => {}).end(name))
  t.teardown(() => void server.close())
  return server
}

const whoIsAt = (path: string): Promise<string> => text(connect({ path }))

/** What a process leaves behind that is killed. */
const leaveDead = async (t: Test, path: string): Promise<void> => {
  const server = named(t, 'dead')
  const file = await listenOnFile(server, `${path}-`)
  linkSync(`${path}-`, path)
  file.remove()
  await new Promise(resolve => server.close(resolve))
}

t.test('it is for its owner alone, and nothing is left of it', async t => {
  const path = await socketPath(t)
  const umask = process.umask(0)
  const made = listenOnFile(named(t, 'a'), path)
  t.equal(process.umask(umask), 0, 'as it was')
  const file = await made
  t.equal(lstatSync(path).mode & 0o7777, 0o600)
  t.strictSame(readdirSync(dirname(path)), ['s'])
  t.equal(await whoIsAt(path), 'a')
  t.equal(file.problem(), '')
  chmodSync(path, 0o660)
  t.match(file.problem(), /mode has become 660/)
  chmodSync(path, 0o600)
  renameSync(path, `${path}2`)
  t.match(file.problem(), /the file is gone/)
  writeFileSync(path, '')
  t.match(file.problem(), /another file is in its place/)
  file.remove()
  t.ok(existsSync(path), 'that is not its own')
  renameSync(`${path}2`, path)
  file.remove()
  t.notOk(existsSync(path))
})

t.test(
  'of many that begin at once one listens, and the others leave it alone',
  async t => {
    for (const isThereADeadOne of [false, true]) {
      const path = await socketPath(t)
      if (isThereADeadOne) await leaveDead(t, path)
      const names = Array.from({ length: 20 }, (_, i) => `${i}`)
      const servers = names.map(name => named(t, name))
      const done = await Promise.allSettled(servers.map(one => listenOnFile(one, path)))
      const winners = names.filter((_, i) => done[i]?.status === 'fulfilled')
      t.equal(winners.length, 1)
      t.equal(servers.filter(({ listening }) => listening).length, 1)
      for (const one of done)
        if (one.status === 'rejected')
          t.match(one.reason, { code: 'CANNOT_LISTEN', message: /another process/ })
      t.equal(await whoIsAt(path), winners[0])
      await t.rejects(listenOnFile(named(t, 'next'), path), {
        message: /: another process listens on it$/,
      })
      t.strictSame(readdirSync(dirname(path)), ['s'])
    }
  },
)

t.test('who takes the place of a dead one keeps it', async t => {
  const path = await socketPath(t)
  await leaveDead(t, path)
  // It has looked at the dead one when the other comes.
  const loser = named(t, 'late')
  const late = listenOnFile(loser, path)
  rmSync(path)
  const other = await listenOnFile(named(t, 'other'), path)
  await t.rejects(late, { message: /another process has just begun/ })
  t.notOk(loser.listening)
  t.equal(await whoIsAt(path), 'other')
  t.equal(other.problem(), '')
})

t.test('what is no socket of this user stays', async t => {
  const path = await socketPath(t)
  const refused = (where: string, message: RegExp) =>
    t.rejects(listenOnFile(named(t, 'a'), where), { code: 'CANNOT_LISTEN', message })
  writeFileSync(path, 'text')
  await refused(path, /there is a file that is not a socket/)
  t.equal(readFileSync(path, 'utf8'), 'text')
  await refused(join(path, 's'), /s is not a directory/)
  await refused(join(dirname(path), 'none', 's'), /there is no directory .*none; make it/)
  const link = `${path}-link`
  await leaveDead(t, `${path}2`)
  for (const to of [path, `${path}2`, `${path}-none`]) {
    symlinkSync(to, link)
    await refused(link, /there is a file that is not a socket/)
    t.ok(lstatSync(link).isSymbolicLink())
    rmSync(link)
  }
})

t.test('whom a client speaks to', async t => {
  const path = await socketPath(t)
  t.match(trustProblem(path), /there is no such file; is Usher running/)
  writeFileSync(path, '')
  t.match(trustProblem(path), /not a socket/)
  rmSync(path)
  await listenOnFile(named(t, 'a'), path)
  t.equal(trustProblem(path), '')
  symlinkSync(path, `${path}-link`)
  t.match(trustProblem(`${path}-link`), /not a socket/)
  for (const mode of [0o660, 0o602, 0o601]) {
    chmodSync(path, mode)
    t.match(trustProblem(path), `its mode is ${mode.toString(8)};`)
  }
})

const skip = process.geteuid?.() !== 0 && 'needs root'

t.test("another user's", { skip }, async t => {
  const path = await socketPath(t)
  chmodSync(dirname(path), 0o755)
  const file = await listenOnFile(named(t, 'a'), path)
  const asNobody = (): string => {
    process.seteuid?.(65_534)
    try {
      return trustProblem(path)
    } finally {
      process.seteuid?.(0)
    }
  }
  t.equal(asNobody(), '', "root's: the kernel says no, if it has to")
  chownSync(path, 1, 0)
  t.equal(asNobody(), 'permission denied: it is owned by uid 1, and this is uid 65534')
  t.equal(trustProblem(path), '')
  t.equal(file.problem(), 'its owner has become uid 1')
  file.remove()
  await leaveDead(t, path)
  chownSync(path, 1, 0)
  await t.rejects(
    listenOnFile(named(t, 'b'), path),
    /the socket there belongs to uid 1, not to this user/,
  )
  t.ok(existsSync(path))
})
