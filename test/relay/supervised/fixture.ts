import { connect, createServer, type Server } from 'node:net'
import { once } from 'node:events'
import type { Test } from 'tap'
import type { ConnectionRecord } from '../../../src/relay/cause.ts'
import type { AccessBatch, BindState, ListenerStats } from '../../../src/relay/relay.ts'
import { silentObserver } from '../../../src/relay/relay.ts'
import type { DataPlaneProgram } from '../../../src/relay/supervised/data-plane-process.ts'
import {
  SupervisedRelay,
  type SupervisedRelayDeps,
} from '../../../src/relay/supervised/supervise-relay.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { programFile } from '../../../src/util/own-files.ts'
import { testHost } from '../../support/ports.ts'
import { defaultLimits } from '../../support/relay-fixture.ts'

/** What the build has made, without what the test runner would load into it. */
export const compiled = (): DataPlaneProgram => ({
  file: programFile('data-plane'),
  execArgv: [],
  env: { PATH: process.env['PATH'] },
})

export interface SupervisedFixture {
  readonly relay: SupervisedRelay
  readonly faults: readonly string[]
  readonly records: readonly ConnectionRecord[]
  /** How a process has ended; '' when one has all that is wanted. */
  readonly gone: readonly string[]
  readonly binds: readonly BindState[]
  readonly pauses: readonly boolean[]
  readonly hangs: readonly boolean[]
  /** Names of listeners. */
  readonly allFailed: readonly string[]
  readonly accessBatches: readonly AccessBatch[]
  readonly listeners: () => Promise<readonly ListenerStats[]>
}

/** A supervised relay with its observer written down; drained when the test ends. */
export const supervised = (
  t: Test,
  over: Partial<SupervisedRelayDeps> = {},
): SupervisedFixture => {
  const faults: string[] = []
  const records: ConnectionRecord[] = []
  const gone: string[] = []
  const binds: BindState[] = []
  const pauses: boolean[] = []
  const hangs: boolean[] = []
  const allFailed: string[] = []
  const accessBatches: AccessBatch[] = []
  const relay = new SupervisedRelay({
    clock: systemClock,
    random: Math.random,
    relay: 'portable',
    limits: defaultLimits,
    observer: {
      ...silentObserver,
      wants: () => true,
      connectionClosed: record => void records.push(record),
      bindChanged: (_listener, state) => void binds.push(state),
      acceptPaused: paused => void pauses.push(paused),
      workerHung: (_thread, hung) => void hangs.push(hung),
      allFailed: listener => void allFailed.push(listener),
      accessLines: batch => void accessBatches.push(batch),
      processGone: why => void gone.push(why),
      fault: (_listener, error) => void faults.push(error.message),
    },
    openFileLimit: 20_000,
    workers: 1,
    program: compiled(),
    ...over,
  })
  t.teardown(() => relay.drain(0))
  const listeners = async () => [...(await relay.stats()).listeners]
  const told = { faults, records, gone, binds, pauses, hangs, allFailed, accessBatches }
  return { relay, ...told, listeners }
}

/** Whether there is a process of that number that has not ended. */
export const runs = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Ports that nobody has; held together, so that all are different. */
export const freePorts = async (count: number): Promise<readonly number[]> => {
  const servers = Array.from({ length: count }, () => createServer().listen(0, testHost))
  return Promise.all(servers.map(freed))
}

const freed = async (server: Server): Promise<number> => {
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  server.close()
  await once(server, 'close')
  return port
}

/** Whether somebody accepts connections there. */
export const accepts = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, testHost)
    socket.on('error', () => resolve(false))
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
