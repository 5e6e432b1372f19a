// A process of its own: it mostly waits.
import { chmodSync, existsSync, lstatSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { serverDirectory } from '../health/server-process.ts'
import { startHaproxy } from '../support/peers/haproxy.ts'
import { dialUnix, readToEnd, unixBackend } from '../support/unix-socket.ts'
import { until } from '../support/until.ts'
import { startUsher } from '../support/usher.ts'
import { countOf, skipPairs as skip } from './haproxy-clients.ts'
import { defaults, pairs } from './haproxy-pair.ts'

// As in coming-from-haproxy.test.ts; here: files in place of addresses.
t.test('Unix sockets', { skip }, async t => {
  const pair = pairs.find(({ name }) => name === 'unix-sockets')
  const run = serverDirectory(t)
  const placed = (text = '', proxy: string): string =>
    text.replaceAll('/run/db', `${run}/db`).replaceAll('/run/proxy', `${run}/${proxy}`)
  mkdirSync(`${run}/db`)
  for (const name of ['a', 'b']) {
    const address = `unix:${run}/db/${name}.sock`
    await unixBackend(t, address, socket => void socket.end(name))
    // HAProxy is another user.
    chmodSync(`${run}/db/${name}.sock`, 0o666)
  }
  const [haproxy, usher] = [serverDirectory(t), `${run}/usher`]
  mkdirSync(usher)
  const config = placed(pair?.haproxy, '').replaceAll(`${run}//`, `${haproxy}/`)
  await startHaproxy(t, '', [], defaults + config)
  const path = join(usher, 'routes.yaml')
  writeFileSync(path, placed(pair?.routes, 'usher'))
  await startUsher(t, 'sidecar', '--config', path)
  for (const folder of [haproxy, usher]) {
    const file = join(folder, 'db.sock')
    await until('it listens', () => existsSync(file))
    t.equal(lstatSync(file).mode & 0o777, 0o600, file)
    const words: string[] = []
    for (let i = 0; i < 6; i += 1)
      words.push((await readToEnd(dialUnix(t, `unix:${file}`))).bytes.toString())
    t.strictSame(countOf(words), { a: 3, b: 3 }, file)
  }
})
