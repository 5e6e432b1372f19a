import type { Access, Command, Requests } from '../../test/support/api-server/commands.ts'
import type { KubeObject } from '../../test/support/api-server/kube-object.ts'
import { startChild } from '../process/child.ts'
import type { ControlOptions } from './options.ts'

const answerWithinMs = 60_000

/** The API server of the tests, in a process of its own. */
export interface ApiServerProcess {
  readonly pid: number
  readonly access: Access
  /** Gives the Unix time (ms, with fractions) just before the event was sent. */
  apply(object: KubeObject): Promise<number>
  startChurn(perSecond: number): Promise<void>
  /** Gives the times of all changes. */
  stopChurn(): Promise<readonly number[]>
  requests(): Promise<Requests>
  stop(): Promise<void>
}

/** Starts it and fills it. */
export const startApiServer = async (
  options: ControlOptions,
): Promise<ApiServerProcess> => {
  const { services, endpointsPerSlice, user, streamingLists } = options
  const child = startChild(
    new URL('../../test/support/api-server/main.ts', import.meta.url),
  )
  const ask = (command: Command) => child.ask(command, answerWithinMs)
  const behaviour = { streamingLists: streamingLists ? 'on' : 'refused' } as const
  await ask({ do: 'behave', behaviour })
  await ask({ do: 'seed', services, endpointsPerSlice })
  const access = (await ask({ do: 'access', user })) as Access
  return {
    pid: child.pid,
    access,
    apply: async object => (await ask({ do: 'apply', object })) as number,
    startChurn: async perSecond => void (await ask({ do: 'start-churn', perSecond })),
    stopChurn: async () => (await ask({ do: 'stop-churn' })) as readonly number[],
    requests: async () => (await ask({ do: 'requests' })) as Requests,
    stop: () => child.stop(),
  }
}
