import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { SocketLock } from '../../src/kernel/keeper/host-lock.ts'
import { systemClock } from '../../src/util/clock.ts'
import { onLinux } from '../support/connection.ts'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { typescript } from '../support/typescript.ts'

interface Holder {
  readonly child: ChildProcess
  readonly said: string[]
}

const program = fileURLToPath(new URL('host-lock-child.ts', import.meta.url))

const start = (t: Test, prefix: readonly string[], self: string): Holder => {
  const [command = '', ...args] = prefix.concat(process.execPath, typescript)
  const child = spawn(command, [...args, program, self], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const said: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.push(...text.split('\n').filter(Boolean))
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, said }
}
const says = (holder: Holder, text: string) =>
  until(`${text}, heard: ${holder.said.join()}`, () => holder.said.includes(text))

t.test('the lock of the host', async t => {
  const why = await netnsProblem()
  const inNetns = { skip: why !== '' && why }

  t.test('of the Ushers of a namespace one at a time has the lock', inNetns, async t => {
    const [here, there] = [await makeNetns('lock'), await makeNetns('lock')]
    const one = start(t, here.prefix, 'usher one')
    const other = start(t, there.prefix, 'usher other')
    await Promise.all([says(one, 'held'), says(other, 'held')])

    const two = start(t, here.prefix, 'usher two')
    await says(two, 'waiting for usher one')
    t.same(two.said, ['waiting for usher one'])
    one.child.kill('SIGKILL')
    await says(two, 'held')

    const three = start(t, here.prefix, 'usher three')
    await says(three, 'waiting for usher two')
    const exited = once(two.child, 'exit')
    two.child.stdin?.write('\n')
    await says(three, 'held')
    t.same(await exited, [0, null])
    t.same(two.said.at(-1), 'released')
  })

  const name = `usher-test-${process.pid}`

  t.test('its name is the same with any Node', onLinux, async t => {
    const own = `${name}-node`
    const lock = new SocketLock({
      clock: systemClock,
      self: '',
      waiting: () => {},
      name: own,
    })
    t.equal(await lock.acquire(), true)
    t.teardown(() => lock.release())
    // The kernel shows a zero as an @; before version 22 Node fills names up with them.
    const whole = `@${own}`.padEnd(108, '@')
    const sockets = readFileSync('/proc/net/unix', 'latin1').split('\n')
    t.equal(sockets.filter(socket => socket.endsWith(` ${whole}`)).length, 1)
  })
  const lockOf = (self: string) => {
    const told: string[] = []
    const waiting = (holder: string): void => {
      told.push(holder)
    }
    return { told, lock: new SocketLock({ clock: systemClock, self, waiting, name }) }
  }

  t.test(
    'who waits for the lock can give up, and does not get it later',
    onLinux,
    async t => {
      const [a, b] = [lockOf('a'), lockOf('b')]
      t.equal(await a.lock.acquire(), true)
      const waiting = b.lock.acquire()
      await until('b knows of a', () => b.told.length > 0)
      await b.lock.release()
      t.equal(await waiting, false)
      await a.lock.release()
      const c = lockOf('c')
      t.equal(await c.lock.acquire(), true)
      await c.lock.release()
      t.same([a.told, b.told, c.told], [[], ['a'], []])
    },
  )

  t.test('whoever holds the name is shown as what it is', onLinux, async t => {
    const stranger = createServer(socket =>
      socket.end(`\u001b[31mroot${'x'.repeat(900)}`),
    )
    stranger.listen({ path: `\0${name}`.padEnd(108, '\0') })
    await once(stranger, 'listening')
    const a = lockOf('a')
    const held = a.lock.acquire()
    await until('a knows', () => a.told.length > 0)
    t.match(a.told, [/^\[31mrootx{50,200}$/])
    stranger.close()
    t.equal(await held, true)
    await a.lock.release()
  })
})
