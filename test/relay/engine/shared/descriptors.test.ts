import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { typescript } from '../../../support/typescript.ts'
import {
  Descriptors,
  newDescriptorsMemory,
} from '../../../../src/relay/engine/shared/descriptors.ts'

const tested = new URL(
  '../../../../src/relay/engine/shared/descriptors.ts',
  import.meta.url,
)

t.test('threads that take at the same time never have more than there is', async t => {
  const memory = newDescriptorsMemory(20, 4, 4)
  const code = `
    import { workerData } from 'node:worker_threads'
    const { Descriptors } = await import('${tested.href}')
    const { memory, most, thread } = workerData
    const own = new Descriptors(memory, thread)
    const told = new Int32Array(most)
    for (let i = 0; i < 300_000; i += 1) {
      if (!own.take(2)) continue
      if (own.used > memory.spendable) Atomics.add(told, 0, 1)
      own.release(2)
    }`
  const most = new SharedArrayBuffer(4)
  const file = new URL(`data:text/javascript,${encodeURIComponent(code)}`)
  const workers = [1, 2, 3].map(
    thread =>
      new Worker(file, { workerData: { memory, most, thread }, execArgv: [typescript] }),
  )
  await Promise.all(workers.map(worker => once(worker, 'exit')))
  t.equal(new Int32Array(most)[0], 0)
  t.equal(new Descriptors(memory, 0).used, 0, 'and all came back')
})

t.test('while another waits, who has its share takes no more', async t => {
  const memory = newDescriptorsMemory(24, 4, 3)
  const [main, one, two] = [0, 1, 2].map(thread => new Descriptors(memory, thread))
  if (!main || !one || !two) throw new Error('three threads')
  t.ok(main.take(4), 'listening sockets')
  t.ok(one.take(16), 'all there is')
  t.notOk(two.take(2))
  two.wait(true)
  one.release(4)
  t.notOk(one.take(2), 'it has more than half')
  t.ok(two.take(2))
  t.ok(two.take(2))
  t.notOk(two.take(2), 'there is no more')
  two.wait(false)
  two.release(4)
  t.ok(one.take(4), 'nobody waits')
  t.equal(main.used, 20)
})

t.test('a thread that is no more holds nothing and waits for nothing', async t => {
  const memory = newDescriptorsMemory(24, 4, 3)
  const [one, two] = [1, 2].map(thread => new Descriptors(memory, thread))
  if (!one || !two) throw new Error('two workers')
  two.take(6)
  two.opened(7)
  two.opened(9)
  two.closing(9)
  two.wait(true)
  t.strictSame(one.inherit(2), [7])
  t.equal(one.used, 0)
  t.ok(one.take(20))
})
