import { readdirSync } from 'node:fs'
import t from 'tap'
import { chooseRelay, RelayUnavailable } from '../../../../src/relay/choose-relay.ts'
import { errno } from '../../../../src/ffi/errno.ts'
import { probeLinuxRelay } from '../../../../src/relay/sockets/linux/probe.ts'
import { structLayout } from '../../../../src/ffi/struct-layout.ts'
import type { Syscalls } from '../../../../src/ffi/syscalls.ts'
import { workersOf } from '../../../../src/relay/make-relay.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { linuxParts } from '../../engine/calls-bench.ts'

const skip = linuxRelaySkip()

const openDescriptors = (): number => readdirSync('/proc/self/fd').length

const problemOf = (over: Partial<Syscalls>): string => {
  const { calls } = linuxParts()
  const probed = probeLinuxRelay({ load: () => ({ ...calls, ...over }) })
  return 'reason' in probed ? probed.reason : ''
}

t.test('structures are known of two kinds of Linux only', async t => {
  t.match(structLayout('linux', 'x64'), { epollEventWords: 3, epollDataWord: 1 })
  t.match(structLayout('linux', 'arm64'), { epollEventWords: 4, epollDataWord: 2 })
  for (const [system, processor] of [
    ['linux', 'arm'],
    ['linux', 'riscv64'],
    ['darwin', 'arm64'],
    ['win32', 'x64'],
  ] as const)
    t.equal(structLayout(system, processor), undefined)
  t.match(probeLinuxRelay({ layout: undefined }), {
    reason: /needs Linux on x86-64 or arm64/,
  })
})

t.test('without koffi the reason says how to get it', async t => {
  const missing = Object.assign(new Error("Cannot find module 'koffi'\nRequire stack:"), {
    code: 'MODULE_NOT_FOUND',
  })
  const layout = { epollEventWords: 3, epollDataWord: 1 }
  const probe = (error: Error) =>
    probeLinuxRelay({
      layout,
      load: () => {
        throw error
      },
    })
  t.match(probe(missing), { reason: /koffi.* is not installed; `npm install`/ })
  const { reason } = probe(new Error('no binary\nof any kind')) as { reason: string }
  t.match(reason, /koffi.* can't be loaded: no binary$/)
})

t.test('a probe leaves nothing open', { skip }, async t => {
  const before = openDescriptors()
  t.equal(problemOf({}), '')
  t.equal(openDescriptors(), before)
})

t.test(
  'a call that the sandbox forbids is named, with what it answered',
  { skip },
  async t => {
    const forbidden = (): number => -errno.EPERM
    const absent = (): number => -errno.ENOSYS
    const before = openDescriptors()
    t.equal(problemOf({ splice: absent }), 'splice is refused with ENOSYS')
    t.equal(problemOf({ epollCreate: forbidden }), 'epoll_create1 is refused with EPERM')
    t.equal(problemOf({ eventfd: forbidden }), 'eventfd is refused with EPERM')
    t.equal(problemOf({ accept: absent }), 'accept4 is refused with ENOSYS')
    t.equal(problemOf({ sendmmsg: forbidden }), 'sendmmsg is refused with EPERM')
    t.equal(problemOf({ pipe: forbidden }), 'pipe2 is refused with EPERM')
    t.equal(problemOf({ ioctl: forbidden }), 'ioctl is refused with EPERM')
    t.equal(problemOf({ socket: forbidden }), 'socket is refused with EPERM')
    t.equal(openDescriptors(), before)
  },
)

t.test('structures that are not what they seem are noticed', { skip }, async t => {
  const { layout } = linuxParts()
  const other = layout.epollEventWords === 3 ? 'arm64' : 'x64'
  t.match(probeLinuxRelay({ layout: structLayout('linux', other) }), {
    reason: /epoll_wait does not give back/,
  })
})

t.test('auto takes linux where it works, and says why it does not', async t => {
  const layout = { epollEventWords: 3, epollDataWord: 1 }
  const works = () => ({ calls: {} as Syscalls, layout })
  const fails = () => ({ reason: 'the moon is full' })
  t.strictSame(chooseRelay('auto', works), {
    name: 'linux',
    detail: 'everything it needs works here',
    passedOver: [],
  })
  t.strictSame(chooseRelay('auto', fails), {
    name: 'portable',
    detail: 'runs wherever Node does',
    passedOver: [{ name: 'linux', detail: 'the moon is full' }],
  })
  t.match(chooseRelay('linux', works), { name: 'linux', detail: 'as told' })
  t.match(chooseRelay('portable'), {
    name: 'portable',
    detail: 'as told',
    passedOver: [],
  })
  t.throws(() => chooseRelay('linux', fails), RelayUnavailable)
  t.throws(() => chooseRelay('linux', fails), {
    message:
      '--relay linux does not work here: the moon is full; --relay auto takes the portable one',
  })
})

t.test('workers are one for each core, at most 4, unless somebody says', async t => {
  t.ok(workersOf('linux') >= 1 && workersOf('linux') <= 4)
  t.equal(workersOf('linux', 0), workersOf('linux'))
  t.equal(workersOf('linux', 17), 17)
  t.equal(workersOf('portable', 17), 1)
})
