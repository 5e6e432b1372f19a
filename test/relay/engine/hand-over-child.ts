import { loadSyscalls } from '../../../src/ffi/syscalls.ts'
import { knock } from '../../../src/relay/hand-over/channel.ts'
import { bindKey, type Bind } from '../../../src/relay/relay.ts'

// A process that takes over from a relay of the test, and is killed when it has all flows of an address and has
// not said yet that it keeps them. Arguments: the door's name and its token.

const [name = '', token = ''] = process.argv.slice(2)
const channel = await knock(loadSyscalls(), name, token, 10_000)
await channel.send({ kind: 'take', format: 1, workers: 2, room: 10_000 })
for (;;) {
  const { value } = (await channel.receive()) ?? {}
  const told = value as {
    readonly kind: string
    readonly sockets: readonly { readonly bind: Bind }[]
  }
  if (told.kind === 'sockets') {
    const binds = told.sockets.map(({ bind }) => bindKey(bind))
    await channel.send({ kind: 'ready', listeners: ['test'], binds })
  }
  if (told.kind === 'flows-given') process.kill(process.pid, 'SIGKILL')
}
