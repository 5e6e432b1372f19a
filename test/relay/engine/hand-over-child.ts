import { loadSyscalls } from '../../../src/ffi/syscalls.ts'
import { knock } from '../../../src/relay/hand-over/channel.ts'
import { bindKey, type Bind } from '../../../src/relay/relay.ts'

// A process that takes over from a relay of the test. When it has all flows of a listener it does not keep them,
// or is killed before it has said that it does. Arguments: which, the door's name and its token.

const [role = '', name = '', token = ''] = process.argv.slice(2)
const channel = await knock(loadSyscalls(), name, token, 10_000)
await channel.send({ kind: 'take', format: 1, workers: 2, room: 10_000 })
let isOver = false
while (!isOver) {
  const { value } = (await channel.receive()) ?? { value: { kind: 'over' } }
  const told = value as {
    readonly kind: string
    readonly sockets: readonly { readonly bind: Bind }[]
  }
  if (told.kind === 'sockets') {
    const binds = told.sockets.map(({ bind }) => bindKey(bind))
    await channel.send({ kind: 'ready', listeners: ['test'], binds, room: 10_000 })
  }
  if (told.kind === 'flows-given') {
    if (role === 'killed') process.kill(process.pid, 'SIGKILL')
    await channel.send({ kind: 'not-kept', reason: 'no wish to' })
  }
  isOver = told.kind === 'over'
}
channel.close()
