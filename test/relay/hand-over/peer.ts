import { readdirSync } from 'node:fs'
import { loadSyscalls } from '../../../src/ffi/syscalls.ts'
import { knock, openDoor } from '../../../src/relay/hand-over/channel.ts'
import { messageOf } from '../../../src/util/usher-error.ts'

// A process at the other end of a channel, for tests. Arguments: what it does, the door's name and its token.

const [role = '', name = '', token = ''] = process.argv.slice(2)
const calls = loadSyscalls()
const ms = 60_000
const otherUser = 65_534

const say = (report: object): void => void process.send?.(report)
const openFds = (): number => readdirSync('/proc/self/fd').length
const problemOf = async (act: () => Promise<unknown>): Promise<string> => {
  try {
    await act()
    return ''
  } catch (error) {
    return messageOf(error)
  }
}

const roles: Readonly<Record<string, () => Promise<void>>> = {
  /** Takes what it is sent; this may be more than it can. */
  receive: async () => {
    const channel = await knock(calls, name, token, ms)
    const before = openFds()
    const problem = await problemOf(() => channel.receive(ms))
    // The channel has closed its socket.
    say({ problem, left: openFds() - before + 1 })
  },

  /** Begins a message that it does not live to end. */
  send: async () => {
    const channel = await knock(calls, name, token, ms)
    const fd = calls.eventfd(7, 0)
    await channel.send('first', [fd], ms)
    const rest = channel.send('x'.repeat(2 ** 20), [fd], ms)
    say({ sending: true })
    await rest
  },

  stranger: async () => {
    process.setuid?.(otherUser)
    say({ problem: await problemOf(() => knock(calls, name, token, ms)) })
  },

  strangeDoor: async () => {
    process.setuid?.(otherUser)
    const door = openDoor(calls)
    say({ name: door.name, token: door.token })
    await door.accept(ms)
  },

  /** Takes all messages until there are no more. */
  drain: async () => {
    const channel = await knock(calls, name, token, ms)
    let count = 0
    for (;;) {
      const message = await channel.receive(ms)
      if (message === undefined) break
      for (const fd of message.fds) calls.close(fd)
      count += message.fds.length
    }
    say({ count })
  },
}

process.on('disconnect', () => process.exit(0))
await roles[role]?.()
