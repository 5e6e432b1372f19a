import type { Events } from './wire.ts'

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
  const open = (): void => {
    clearTimeout(timer)
    source?.close()
    source = new EventSource('stream')
    for (const [name, handle] of Object.entries(handlers))
      source.addEventListener(name, ({ data }: MessageEvent<string>) => {
        ;(handle as (data: unknown) => void)(JSON.parse(data))
      })
    source.addEventListener('open', () => said(''))
    source.addEventListener('error', () => {
      if (source?.readyState !== EventSource.CLOSED)
        return said('No answer from Usher. What is shown is old; trying again.')
      // It comes again by itself after a connection that broke, and not after an answer like 503.
      said('Usher takes no more viewers (4 at once). What is shown is old; trying again.')
      timer = setTimeout(open, againMs)
    })
  }
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer)
    if (document.hidden) {
      timer = setTimeout(() => {
        source?.close()
        source = undefined
      }, hiddenMs)
    } else if (source === undefined || source.readyState === EventSource.CLOSED) open()
  })
  open()
}
