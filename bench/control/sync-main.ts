import { setTimeout as sleep } from 'node:timers/promises'
import { runTool } from '../../src/kernel/run-tool.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { answerCalls } from '../process/child.ts'
import { Cluster, type Step } from './cluster.ts'
import { spending, stream, type StreamWish } from './stream.ts'
import { openSubject, type Part, type Subject } from './subjects.ts'
import { Recorder, replay } from './tool-calls.ts'

/*
 * Syncs Services to the kernel of the network namespace that it is started in; or runs there,
 * on inputs that are there already, the tools that another one has run: what they take by themselves.
 */

export interface Wanted {
  readonly part: Part
  readonly services: number
  /** Of each Service. */
  readonly endpoints: number
}

interface Opened extends Wanted {
  readonly subject: Subject
  readonly cluster: Cluster
  readonly recorder: Recorder
}

let opened: Opened | undefined

/** @param cgroup - that this process is in, where it is to be led */
const open = async (
  wanted: Wanted,
  name: string,
  folder: string,
  cgroup: string,
): Promise<void> => {
  await loopback()
  const recorder = new Recorder(folder)
  const subject = await openSubject(wanted.part, name, recorder.run, cgroup)
  recorder.clear()
  const cluster = new Cluster(wanted.services, wanted.endpoints)
  opened = { ...wanted, subject, cluster, recorder }
}

const theOpened = (): Opened => {
  if (opened === undefined) throw new Error('it was not opened')
  return opened
}

/** What one sync took, after the step was made with the `i`-th Service. */
const sync = async (step: Step, i: number) => {
  const { subject, cluster, recorder } = theOpened()
  if (step === 'endpoint') cluster.moveEndpoint(i)
  else if (step === 'added') cluster.add(i)
  else if (step === 'removed') cluster.remove(i)
  else if (step === 'full') subject.forget()
  const snapshot = cluster.snapshot()
  const spent = spending()
  const startedAt = performance.now()
  const { work } = await subject.sync(snapshot, step)
  const wallMs = performance.now() - startedAt
  await subject.seen?.()
  const seenMs = performance.now() - startedAt
  return {
    ...spent(),
    wallMs,
    work,
    ...(await recorder.take()),
    ...(subject.seen && { seenMs }),
    ...(subject.kernelBytes && { kernelBytes: subject.kernelBytes() }),
  }
}

/** What watches reads all rules once when it starts, and again when they change meanwhile. */
const watchStartMs = 5000

/** A prime, so that changes are all over the Services. */
const stride = 7919

/** With the rules watched, which costs something at each change of them. */
const streamChanges = async (wish: StreamWish) => {
  const { subject, cluster, services, recorder } = theOpened()
  let damage = ''
  const endWatch = subject.watch(what => void (damage = what))
  try {
    await sleep(watchStartMs)
    const change = (n: number): void => cluster.moveEndpoint((n * stride) % services)
    const write = () => subject.sync(cluster.snapshot())
    const done = await stream({ clock, change, sync: write }, wish)
    if (damage !== '') throw new Error(`its own changes were taken for damage: ${damage}`)
    return done
  } finally {
    endWatch()
    recorder.clear()
  }
}

/** How many of so many connects failed, and for how long they took; undefined where none can be made. */
const dead = async (connects: number) => {
  const { subject, cluster } = theOpened()
  const spent = spending()
  const failed = await subject.dead?.(cluster.snapshot(), connects)
  return failed === undefined
    ? undefined
    : { connects, failed, seconds: spent().wallMs / 1000 }
}

const close = async (): Promise<void> => void (await theOpened().subject.close())

/** For one that only replays. */
const loopback = async (): Promise<void> =>
  void (await runTool('ip', ['link', 'set', 'lo', 'up']))

const calls = { open, loopback, sync, stream: streamChanges, dead, close, replay }
export type SyncCalls = typeof calls
answerCalls(calls)
