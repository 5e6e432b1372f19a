import { performance } from 'node:perf_hooks'
import type { Proxier } from '../../src/kernel/proxier.ts'
import { answerParent } from '../process/child.ts'
import { Cluster } from './cluster.ts'
import { proxierOf, settings } from './proxiers.ts'
import type { Step, SyncDone, SyncQuestion } from './protocol.ts'
import { Recorder } from './recorder.ts'

/* Syncs Services to the kernel of the network namespace that it is started in. */

interface Opened {
  readonly proxier: Proxier
  readonly cluster: Cluster
  readonly recorder: Recorder
}

let opened: Opened | undefined
let generation = 0

const answer = async (question: SyncQuestion): Promise<SyncDone | undefined> => {
  if (question.do === 'open') {
    const recorder = new Recorder(question.folder)
    const proxier = await proxierOf(question.proxier, recorder.run)
    await recorder.take()
    opened = { proxier, cluster: new Cluster(question.services), recorder }
    return undefined
  }
  if (opened === undefined) throw new Error('it was not opened')
  if (question.do === 'sync') return sync(opened, question.step, question.i)
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
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  const { work } = await proxier.sync(snapshot, settings)
  const wallMs = performance.now() - startedAt
  const { user, system } = process.cpuUsage(cpu)
  return { wallMs, cpuMs: (user + system) / 1000, work, ...(await recorder.take()) }
}

const change = (cluster: Cluster, step: Step, i: number): void => {
  if (step === 'endpoint') cluster.moveEndpoint(i, (generation += 1))
  else if (step === 'added') cluster.add(i)
  else if (step === 'removed') cluster.remove(i)
}

answerParent(question => answer(question as SyncQuestion))
