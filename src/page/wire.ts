import { countedFields, type Overall, type ShownPort } from './service-words.ts'

// What goes over `/stream`: server-sent events, each with one line of JSON. First the whole, then what
// has changed. A Service here is a ServicePort of one IP family, and has a number for as long as it is
// there. With `tick` a look is complete: rates are of the time since the one before.

/** `begin`: what was known is void; the viewer's name for `/stream/taken`. */
export interface Events {
  readonly begin: string
  readonly head: Head
  readonly rows: readonly (readonly [number: number, row: ShownRow])[]
  /** Numbers of Services that are no longer there. */
  readonly gone: readonly number[]
  /** `countsPerRow` of each Service in turn: its number, then what has been counted of it so far. */
  readonly counts: readonly number[]
  /** Of each Service whose past has another step: new connections and failures a second of each in turn, oldest first; [] where there were none. */
  readonly past: readonly (readonly [number: number, rates: readonly number[]])[]
  readonly tick: Tick
}

/** What is shown of the past: 2 minutes. */
export const pastSteps = 24
export const pastStepMs = 5000

export const countsPerRow = 1 + countedFields.length

/** Milliseconds after which a viewer says that it has taken what came, if something did. */
export const takenEveryMs = 5000

/** Of a Service's row all but what is counted. */
export interface ShownRow extends ShownPort {
  /** What clients dial, as far as there is room. */
  readonly addresses: string
}

/** Sent when it has changed. */
export interface Head extends Overall {
  /** '' where there is none. */
  readonly node: string
  /** Version, mode, relay, node. */
  readonly about: string
  readonly source: { readonly name: string; readonly error: string }
  /** Whose connections are counted: in the kernel modes the kernel carries them, and says nothing. */
  readonly counted: 'all' | 'some' | 'none'
  /** The first of them. */
  readonly problems: readonly string[]
}

/** Once a second. */
export interface Tick {
  /** Milliseconds, to tell how far two looks are apart. */
  readonly at: number
  /** Epoch milliseconds. */
  readonly now: number
  readonly startedAt: number
  /** When what is served was last known to be what the source says; null before that. */
  readonly heardAt: number | null
  /** When the wanted state was last applied; null before that. */
  readonly appliedAt: number | null
  readonly failedListeners: number
  /** Of the relay. */
  readonly fds: { readonly used: number; readonly limit: number }
  readonly acceptPaused: boolean
  /** Of this process; null where the system does not say. */
  readonly openFds: number | null
  /** How late the event loop was at worst since the last look. */
  readonly lateMs: number
  /** Share of a core. */
  readonly busy: number
  readonly memory: number
  readonly workers: readonly {
    readonly thread: number
    readonly restarts: number
    readonly hangs: number
    readonly heldBytes: number
  }[]
  /** Of the relay's process. */
  readonly restarts: number
}
