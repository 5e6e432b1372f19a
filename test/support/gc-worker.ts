// A worker of the Linux relay that collects its garbage in every turn of its loop, so that
// memory which the kernel writes to and nobody holds any more is found out.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { EventLoop } from '../../src/relay/engine/event-loop.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void
const turn = Reflect.get(EventLoop.prototype, 'turn')
EventLoop.prototype.turn = function turnAndCollect(ms: number): void {
  collect({ type: 'minor' })
  turn.call(this, ms)
  if (Math.random() < 0.02) collect()
}
await import('../../src/relay/sockets/linux/worker-main.ts')
