import type { Fault, Scope } from './faults.ts'
import type { KubeObject } from './kube-object.ts'
import type { KubeconfigOptions } from './kubeconfig.ts'
import type { Behaviour } from './options.ts'
import type { SeedOptions } from './seed.ts'
import type { Disturbance } from './watch.ts'

type User = NonNullable<KubeconfigOptions['user']>

/** What a server in a process of its own can be told; it answers each. */
export type Command =
  /** Answers `Access`. */
  | { readonly do: 'access'; readonly user: User }
  /** Fills it; answers the version. */
  | ({ readonly do: 'seed' } & SeedOptions)
  /** Answers the Unix time (ms, with fractions) just before the event was sent. */
  | { readonly do: 'apply'; readonly object: KubeObject }
  | { readonly do: 'start-churn'; readonly perSecond: number }
  /** Answers the times of all changes. */
  | { readonly do: 'stop-churn' }
  | { readonly do: 'behave'; readonly behaviour: Partial<Behaviour> }
  | { readonly do: 'fault'; readonly fault: Fault; readonly scope?: Scope }
  | { readonly do: 'disturb'; readonly how: Disturbance; readonly resource?: string }
  /** Answers `Requests`. */
  | { readonly do: 'requests' }

export interface Access {
  readonly url: string
  /** Path of a file. */
  readonly kubeconfig: string
}

export interface Requests {
  readonly count: number
  readonly peakPerSecond: number
}
