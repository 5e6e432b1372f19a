import { type Events, takenEveryMs } from './wire.ts'

type Handlers = { readonly [K in keyof Events]: (data: Events[K]) => void }

/** Milliseconds after which a page that nobody sees gives its place to another. */
const hiddenMs = 60_000
const againMs = 5000

/**
 * Hears of what changes, as long as somebody can see it. `said` is told in words why nothing comes,
 * '' when it does.
 */
export const followStream = (handlers: Handlers, said: (why: string) => void): void => {
  let source: EventSource | undefined
  let timer = 0
  const taken = new Taken()
  const open = (): void => {
    clearTimeout(timer)
    taken.forget()
    source?.close()
    source = new EventSource('stream')
    for (const [name, handle] of Object.entries(handlers))
      source.addEventListener(name, ({ data }: MessageEvent<string>) => {
        const decoded: unknown = JSON.parse(data)
        if (name === 'begin') taken.viewer = String(decoded)
        taken.later()
        ;(handle as (data: unknown) => void)(decoded)
      })
    source.addEventListener('open', () => said(''))
    source.addEventListener('error', () => {
      taken.forget()
      if (source?.readyState !== EventSource.CLOSED)
        return said('No answer from Usher. What is shown is old; trying again.')
      // It comes again by itself after a connection that broke, and not after an answer like 503.
      said(
        'Usher takes no more viewers (4 at once; its log says where from they watch). What is shown is old; trying again.',
      )
      timer = setTimeout(open, againMs)
    })
  }
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer)
    if (document.hidden) {
      timer = setTimeout(() => {
        taken.forget()
        source?.close()
        source = undefined
      }, hiddenMs)
    } else if (source === undefined || source.readyState === EventSource.CLOSED) open()
  })
  open()
}

/** Tells Usher now and then that what comes is taken: who does not gives its place up. */
class Taken {
  viewer = ''
  #timer = 0

  later(): void {
    this.#timer ||= setTimeout(() => {
      this.#timer = 0
      // When it does not get there the stream ends, and that is said.
      fetch(`stream/taken?viewer=${this.viewer}`).catch(() => {})
    }, takenEveryMs)
  }

  forget(): void {
    clearTimeout(this.#timer)
    this.#timer = 0
  }
}
