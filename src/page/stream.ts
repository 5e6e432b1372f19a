import { type Events, takenEveryMs } from './wire.ts'

type Handlers = { readonly [K in keyof Events]: (data: Events[K]) => void }

/** Milliseconds after which a page that nobody sees gives its place to another. */
const hiddenMs = 60_000
const againMs = 5000
/** A look comes each second: after so long without a word the connection is dead, or as good as that. */
const silentMs = 10_000

/**
 * Receives what changes, as long as somebody can see it. `lost` is told in words why nothing comes,
 * which is so until there is a new look.
 */
export const followStream = (
  handlers: Handlers,
  lost: (reason: string) => void,
): void => {
  let source: EventSource | undefined
  /** Opens the stream again. */
  let again = 0
  /** Closes it, of a page that nobody sees. */
  let leaving = 0
  const close = (): void => {
    clearTimeout(again)
    taken.forget()
    source?.close()
    source = undefined
  }
  const open = (): void => {
    close()
    // It opens when it is seen.
    if (document.hidden) return
    source = new EventSource('stream')
    listen()
    for (const [name, handle] of Object.entries(handlers))
      source.addEventListener(name, ({ data }: MessageEvent<string>) => {
        const decoded: unknown = JSON.parse(data)
        if (name === 'begin') taken.viewer = String(decoded)
        taken.later()
        listen()
        ;(handle as (data: unknown) => void)(decoded)
      })
    source.addEventListener('error', () => {
      taken.forget()
      // It comes again by itself after a connection that broke, and not after an answer like 503.
      if (source?.readyState !== EventSource.CLOSED) return lost(noAnswer)
      lost(
        'Usher takes no more viewers (4 at once; its log says where from they watch). What is shown is old; trying again.',
      )
      close()
      again = setTimeout(open, againMs)
    })
  }
  const listen = (): void => {
    clearTimeout(again)
    again = setTimeout(() => {
      lost(noAnswer)
      open()
    }, silentMs)
  }
  const taken = new Taken(open)
  document.addEventListener('visibilitychange', () => {
    clearTimeout(leaving)
    if (document.hidden) leaving = setTimeout(close, hiddenMs)
    else if (source === undefined) open()
  })
  open()
}

const noAnswer = 'No answer from Usher. What is shown is old; trying again.'

/** Tells Usher now and then that what comes is taken: who does not gives its place up. */
class Taken {
  viewer = ''
  #timer = 0
  /** Usher has given the place to another, and that the stream has ended did not get here. */
  readonly #unknown: () => void

  constructor(unknown: () => void) {
    this.#unknown = unknown
  }

  later(): void {
    this.#timer ||= setTimeout(() => {
      this.#timer = 0
      // When it does not get there the stream ends or is silent, and that is shown.
      this.#acknowledge().catch(() => {})
    }, takenEveryMs)
  }

  async #acknowledge(): Promise<void> {
    const { viewer } = this
    const { status } = await fetch(`stream/taken?viewer=${viewer}`)
    if (status === 404 && viewer === this.viewer) this.#unknown()
  }

  forget(): void {
    this.viewer = ''
    clearTimeout(this.#timer)
    this.#timer = 0
  }
}
