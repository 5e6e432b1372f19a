import { connect } from 'node:net'
import { answerParent } from '../process/child.ts'
import type { ReachQuestion } from './unreachable.ts'

/**
 * Asked with addresses, answers with those from which nothing comes back. To be refused is
 * to have reached the host.
 */
const reaches = ({ addresses, port, timeoutMs }: ReachQuestion): Promise<string[]> =>
  Promise.all(addresses.map(address => unreachableReason(address, port, timeoutMs))).then(
    found => found.filter(Boolean),
  )

const unreachableReason = (address: string, port: number, ms: number): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(port, address)
    const finish = (why: string): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(why)
    }
    const timer = setTimeout(() => finish(`${address} (no answer in ${ms} ms)`), ms)
    socket.once('connect', () => finish(''))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      finish(error.code === 'ECONNREFUSED' ? '' : `${address} (${error.message})`),
    )
  })

answerParent(question => reaches(question as ReachQuestion))
