import { closeSync, fstatSync, openSync } from 'node:fs'
import t from 'tap'
import { loadSyscalls } from '../../../../src/ffi/syscalls.ts'
import { ListeningBudget } from '../../../../src/relay/engine/main/listening-budget.ts'
import {
  type Holder,
  OpenSockets,
  socketKey,
} from '../../../../src/relay/engine/main/open-sockets.ts'
import type { WorkerHandle } from '../../../../src/relay/engine/main/worker-handle.ts'
import {
  Descriptors,
  newDescriptorsMemory,
} from '../../../../src/relay/engine/shared/descriptors.ts'
import type { ListeningLayer } from '../../../../src/relay/engine/socket-layer.ts'
import { LinuxListening } from '../../../../src/relay/sockets/linux/listening-sockets.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { freeTcpPort, testHost } from '../../../support/ports.ts'
import { defaultLimits } from '../../../support/relay-fixture.ts'

const skip = linuxRelaySkip()

/** A listener that is not known to the worker yet, and the account of all descriptors. */
const setUp = async (wrap = (layer: ListeningLayer): ListeningLayer => layer) => {
  const calls = loadSyscalls()
  const memory = newDescriptorsMemory(1000, 64, 2)
  const descriptors = new Descriptors(memory, 0)
  const workers = [{ thread: 1, post: () => {} } as unknown as WorkerHandle]
  const layer = wrap(new LinuxListening(calls, defaultLimits))
  const budget = new ListeningBudget(descriptors)
  const sockets = new OpenSockets(calls, workers, memory, budget, layer)
  const holder: Holder = {
    id: 'test',
    slot: 0,
    protocol: 'TCP',
    spread: 'any',
    isKnown: false,
    reopen: () => {},
  }
  const bind = { address: testHost, port: await freeTcpPort() }
  const open = (isIdle = false) => sockets.open(holder, bind, workers, isIdle)
  return { sockets, holder, bind, open, descriptors }
}

t.test('what was open at the end is closed once, and counted once', { skip }, async t => {
  const { sockets, holder, open, descriptors } = await setUp()
  const group = await open()
  t.equal(descriptors.used, 1)
  sockets.drain()
  sockets.abandon()
  t.throws(() => fstatSync(group.sockets[0]?.fd ?? -1), { code: 'EBADF' })
  t.equal(descriptors.used, 0)
  // Its port hears of it a turn later.
  sockets.letGo(holder, group)
  t.equal(descriptors.used, 0)
})

t.test('nothing that comes after the end closes them again', { skip }, async t => {
  // Paused, or kept for another listener of the same `apply`, which goes on meanwhile.
  for (const isIdle of [true, false]) {
    const { sockets, holder, bind, open, descriptors } = await setUp()
    const group = await open(isIdle)
    const fd = group.sockets[0]?.fd
    sockets.begin(new Set([socketKey('TCP', bind)]))
    if (!isIdle) sockets.letGo(holder, group)
    sockets.abandon()
    // What is opened next has the number that is free.
    const other = openSync('/dev/null', 'r')
    t.equal(other, fd, 'otherwise this shows nothing')
    if (isIdle) sockets.closePaused(group)
    sockets.end()
    t.doesNotThrow(() => fstatSync(other), 'it is open still')
    t.equal(descriptors.used, 0)
    closeSync(other)
  }
})

t.test('what opens after the end is closed', { skip }, async t => {
  const opened: number[] = []
  let go = (): void => {}
  const gone = new Promise<void>(resolve => (go = resolve))
  const slow = (layer: ListeningLayer): ListeningLayer => ({
    keepsPorts: layer.keepsPorts,
    listen: (fd, bind) => layer.listen(fd, bind),
    open: async (...args) => {
      const found = await layer.open(...args)
      opened.push(...found.fds)
      await gone
      return found
    },
  })
  const { sockets, open, descriptors } = await setUp(slow)
  const opening = open()
  sockets.drain()
  sockets.abandon()
  go()
  await t.rejects(opening, { message: 'the relay has ended' })
  t.equal(opened.length, 1)
  t.throws(() => fstatSync(opened[0] ?? -1), { code: 'EBADF' })
  t.equal(descriptors.used, 0)
})
