import { closeSync, constants, existsSync, openSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type BpfCall, loadBpfCall } from '../../../src/ffi/bpf-call.ts'
import { errno } from '../../../src/ffi/errno.ts'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import { filePins, pinsFolder } from '../../../src/kernel/bpf/pins.ts'
import {
  ConnectTime,
  type Capacity,
} from '../../../src/kernel/connect-time/connect-time.ts'
import {
  tableDefinitions,
  type WrittenTable,
} from '../../../src/kernel/connect-time/tables.ts'
import { samplesOf } from '../../../src/observe/exposition.ts'
import {
  ConnectTimeFigures,
  connectTimeTable,
} from '../../../src/observe/connect-time-figures.ts'
import { makeBpffs } from '../../support/bpffs.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { recordingLog } from '../../support/recording-log.ts'
import { until } from '../../support/until.ts'
import { makeGroup } from './group.ts'

export const nodeAddresses = ['192.0.2.1', '127.0.0.1', '::1'] as const
export const capacity: Capacity = { services: 30, slots: 70, members: 50 }
/** Of the kernel's enum bpf_attach_type: all hooks but that of failed connects. */
const hooks = [10, 11, 14, 15, 19, 20, 29, 30] as const

/** ConnectTime as Usher has it, in a cgroup and a bpffs of the test's own. */
export const makeLedNode = async (t: Test, most: Capacity = capacity) => {
  const group = await makeGroup()
  const bpffs = makeBpffs()
  const folder = pinsFolder(bpffs)
  const clock = new FakeClock()
  const { call, fail } = failing()
  const bpf = new Bpf(call)
  const own = new Bpf()
  const figures = new ConnectTimeFigures(recordingLog([]))
  let addresses: readonly string[] = nodeAddresses
  let resyncs = 0
  const steering = new ConnectTime({
    clock,
    bpf,
    cgroup: group.path,
    features: { errors: true, avoidsFailed: true, node: undefined, onlyNode: false },
    pins: filePins(bpf, folder),
    lock: { acquire: async () => true, release: async () => {} },
    nodeAddresses: () => addresses,
    resync: () => void (resyncs += 1),
    observer: figures,
    tools: { run: async () => '', stop: async () => {} },
    capacity: most,
  })
  steering.start()
  await until('it may begin', () => resyncs === 1)
  const programs = (): number => {
    const directory = openSync(group.path, constants.O_RDONLY | constants.O_DIRECTORY)
    try {
      return hooks.filter(hook =>
        own
          .programsAt(directory, hook)
          .some(id => own.programName(id)?.startsWith('us_')),
      ).length
    } finally {
      closeSync(directory)
    }
  }
  t.teardown(async () => {
    fail(undefined)
    await steering.remove()
  })
  const layout = (): string => join(folder, readdirSync(folder)[0] ?? '')
  return {
    group,
    bpffs,
    clock,
    steering,
    figures,
    fail,
    layout,
    resyncs: () => resyncs,
    moveTo: (next: readonly string[]) => void (addresses = next),
    isKept: () => existsSync(folder),
    /** At how many of its hooks there is a program of Usher's. */
    programs,
    hooks: hooks.length,
    /** What a table has, as another process sees it. */
    entries: (name: WrittenTable): ReadonlyMap<string, string> => {
      const descriptor = own.pinned(join(layout(), `table-${name}`))
      if (descriptor === undefined) throw new Error(`no table ${name}`)
      try {
        const sizes = { ...most, sockets: 1 }
        return new Map(own.entries(descriptor, tableDefinitions(sizes)[name]))
      } finally {
        own.close(descriptor)
      }
    },
    metric: (name: string) => {
      const metric = connectTimeTable.find(
        each => each.name === `usher_connect_time_${name}`,
      )
      const readings = { figures, state: steering.state, left: 0, counts: [] }
      return metric && [...samplesOf(metric, readings)][0]?.[1]
    },
  }
}

export type LedNode = Awaited<ReturnType<typeof makeLedNode>>

export interface Failing {
  /** After so many calls. */
  readonly after: number
  /** So many of them. */
  readonly times: number
  readonly code: keyof typeof errno
}

/** The kernel, which refuses when it is told to. */
const failing = () => {
  const real = loadBpfCall()
  let now: Failing | undefined
  let asked = 0
  const call: BpfCall = {
    allocate: bytes => real.allocate(bytes),
    call: (...given) => {
      asked += 1
      if (now === undefined || asked <= now.after || asked > now.after + now.times)
        return real.call(...given)
      return -errno[now.code]
    },
  }
  const fail = (next: Failing | undefined): void => {
    now = next
    asked = 0
  }
  return { call, fail }
}
