import { BulkLoad } from './bulk.ts'
import { ClosedLoop, dialEach } from './closed-loop.ts'
import { openLoop, PacedConnectionsLoad } from './fixed-rate.ts'
import { measureIdle } from './idle.ts'
import { askKeptFlows } from './kept-flows.ts'
import { askKeptSessions } from './kept-sessions.ts'
import { type Load, measureLoad, watchCpu } from './load.ts'
import type { LoadAnswer, LoadQuestion } from './question.ts'
import { runSessions } from './sessions.ts'
import { nativeUdpEchoes, udpEchoes } from './udp.ts'
import { measureWrk } from './wrk.ts'
import { nativeCalls } from '../native-calls.ts'

/**
 * Does what is asked, and answers with what came of it; a target that doesn't serve is
 * told by the errors in it. Rejects for what can't be done here, such as when wrk(1) is
 * not installed. Nothing of it is left then.
 */
export const answerLoad = async (question: LoadQuestion): Promise<LoadAnswer> => {
  const { kind, seconds, pids } = question
  if (kind === 'idle') return measureIdle(question, pids)
  if (kind === 'sessions') return runSessions(question, seconds, pids)
  if (kind === 'kept-sessions') return askKeptSessions(question)
  if (kind === 'kept-flows') return askKeptFlows(question)
  if (kind === 'first-connections') {
    const watch = watchCpu(pids)
    const found = await dialEach(question.to.map(to => ({ to, path: question.path })))
    return { ...found, ...watch() }
  }
  const byWrk = kind === 'requests' || kind === 'connections'
  return byWrk && question.generator === 'wrk'
    ? measureWrk(question)
    : measureLoad(loadOf(question), seconds, pids)
}

type Poured = Exclude<
  LoadQuestion,
  {
    readonly kind:
      'idle' | 'sessions' | 'kept-sessions' | 'kept-flows' | 'first-connections'
  }
>

const loadOf = (question: Poured): Load => {
  switch (question.kind) {
    case 'requests':
      return new ClosedLoop(question)
    case 'connections':
      return new ClosedLoop({ ...question, connections: question.parallel, closes: true })
    case 'paced-connections':
      return new PacedConnectionsLoad(question)
    case 'bulk':
      return new BulkLoad(question)
    case 'open-loop':
    case 'mixed':
      return openLoop(question)
    case 'udp-echoes': {
      // With many datagrams in a system call, where such calls can be made.
      const native = nativeCalls()
      return typeof native === 'string'
        ? udpEchoes(question)
        : nativeUdpEchoes(question, native)
    }
    default:
      throw new Error(`unknown kind of load: ${JSON.stringify(question satisfies never)}`)
  }
}
