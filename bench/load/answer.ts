import { BulkLoad } from './bulk.ts'
import { ConnectionsLoad } from './connections.ts'
import { dialEach } from './first-connections.ts'
import { measureIdle } from './idle.ts'
import { measureLoad, watchCpu } from './measure.ts'
import type { Load } from './load.ts'
import { MixedLoad } from './mixed.ts'
import { OpenLoopLoad } from './open-loop.ts'
import { PacedConnectionsLoad } from './paced-connections.ts'
import type { LoadAnswer, LoadQuestion, UdpEchoes } from './question.ts'
import { nativeCalls } from '../native-calls.ts'
import { RequestsLoad } from './requests.ts'
import { NativeUdpEchoesLoad } from './native-udp-echoes.ts'
import { runSessions } from './sessions.ts'
import { UdpEchoesLoad } from './udp-echoes.ts'
import { measureWrk } from './wrk.ts'

/**
 * Does what is asked, and answers with what came of it; a target that doesn't serve is
 * told by the errors in it. Rejects for what can't be done here, such as when wrk(1) is
 * not installed. Nothing of it is left then.
 */
export const answerLoad = async (question: LoadQuestion): Promise<LoadAnswer> => {
  const { seconds, pids } = question
  switch (question.kind) {
    case 'requests':
      if (question.generator === 'wrk') return measureWrk(question)
      return measureLoad(new RequestsLoad(question), seconds, pids)
    case 'connections':
      if (question.generator === 'wrk') return measureWrk(question)
      return measureLoad(new ConnectionsLoad(question), seconds, pids)
    case 'paced-connections':
      return measureLoad(new PacedConnectionsLoad(question), seconds, pids)
    case 'bulk':
      return measureLoad(new BulkLoad(question), seconds, pids)
    case 'open-loop':
      return measureLoad(new OpenLoopLoad(question), seconds, pids)
    case 'mixed':
      return measureLoad(new MixedLoad(question), seconds, pids)
    case 'udp-echoes':
      return measureLoad(udpEchoesOf(question), seconds, pids)
    case 'idle':
      return measureIdle(question, pids)
    case 'first-connections': {
      const watch = watchCpu(pids)
      return { ...(await dialEach(question)), ...watch() }
    }
    case 'sessions':
      return runSessions(question, seconds, pids)
    default:
      throw new Error(`unknown kind of load: ${JSON.stringify(question)}`)
  }
}

/** With many datagrams in a system call, where such calls can be made. */
const udpEchoesOf = (question: UdpEchoes): Load => {
  const native = nativeCalls()
  return typeof native === 'string'
    ? new UdpEchoesLoad(question)
    : new NativeUdpEchoesLoad(question, native)
}
