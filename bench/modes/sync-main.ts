import { setTimeout } from 'node:timers/promises'
import type { Proxier } from '../../src/kernel/proxier.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { answerParent } from '../process/child.ts'
import { Cluster } from './cluster.ts'
import { proxierOf, settings } from './proxiers.ts'
import type { Step, StreamDone, StreamWish, SyncDone, SyncQuestion } from './protocol.ts'
import { Recorder } from './recorder.ts'
import { stream } from './stream.ts'
import { spending } from './usage.ts'

/* Syncs Services to the kernel of the network namespace that it is started in. */

interface Opened {
  readonly proxier: Proxier
  readonly cluster: Cluster
  readonly services: number
  readonly recorder: Recorder
}

let opened: Opened | undefined

const answer = async (
  question: SyncQuestion,
): Promise<SyncDone | StreamDone | undefined> => {
  if (question.do === 'open') {
    const { services, endpoints } = question
    const recorder = new Recorder(question.folder)
    const proxier = await proxierOf(question.proxier, recorder.run)
    recorder.clear()
    opened = { proxier, cluster: new Cluster(services, endpoints), services, recorder }
    return undefined
  }
  if (opened === undefined) throw new Error('it was not opened')
  if (question.do === 'sync') return sync(opened, question.step, question.i)
  if (question.do === 'stream') return streamOf(opened, question)
  opened.proxier.close()
  return undefined
}

const sync = async (
  { proxier, cluster, recorder }: Opened,
  step: Step,
  i: number,
): Promise<SyncDone> => {
  change(cluster, step, i)
  if (step === 'full') proxier.forget()
  const snapshot = cluster.snapshot()
  const spent = spending()
  const { work } = await proxier.sync(snapshot, settings)
  return { ...spent(), work, ...(await recorder.take()) }
}

const change = (cluster: Cluster, step: Step, i: number): void => {
  if (step === 'endpoint') cluster.moveEndpoint(i)
  else if (step === 'added') cluster.add(i)
  else if (step === 'removed') cluster.remove(i)
}

/** With the rules watched, which costs something at each change of them. */
const streamOf = async (
  { proxier, cluster, services, recorder }: Opened,
  wish: StreamWish,
): Promise<StreamDone> => {
  let damage = ''
  const endWatch = proxier.watch(what => void (damage = what))
  try {
    await setTimeout(watchStartMs)
    const done = await stream(
      {
        clock,
        change: n => cluster.moveEndpoint((n * stride) % services),
        sync: () => proxier.sync(cluster.snapshot(), settings),
      },
      wish,
    )
    if (damage !== '') throw new Error(`its own changes were taken for damage: ${damage}`)
    return done
  } finally {
    endWatch()
    recorder.clear()
  }
}

/** What watches reads all rules once when it starts, and again when they change meanwhile. */
const watchStartMs = 5000

/** A prime, so that changes are all over the Services. */
const stride = 7919

answerParent(question => answer(question as SyncQuestion))
