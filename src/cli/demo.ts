import { basename, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { OptionsOf } from '../config/typed.ts'
import { answersOn } from '../demo/demo-source.ts'
import { runDemo } from '../demo/run-demo.ts'
import { createScreen } from '../demo/screen.ts'
import { systemClock } from '../util/clock.ts'
import { exampleManifest, proxyOver } from './demo-wiring.ts'
import { processIo } from './io.ts'

const manifest = fileURLToPath(
  new URL('../../deploy/examples/demo.yaml', import.meta.url),
)

/** How to call this Usher again: by name if it was called so, else as a file. */
const usher = (): string => {
  const file = process.argv[1] ?? 'usher'
  return basename(file) === 'usher' ? 'usher' : `node ${relative(process.cwd(), file)}`
}

/** The first signal ends the demo in good order, the second one ends it at once. */
const untilSignal = (): { readonly signal: AbortSignal; release: () => void } => {
  const stop = new AbortController()
  const onSignal = (): void => {
    // Backends end by themselves when their parent is gone. 130: ended by Ctrl-C.
    if (stop.signal.aborted) process.exit(130)
    stop.abort()
  }
  const onClosed = (): void => stop.abort()
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  // Nobody reads any more (`usher demo | head`).
  process.stdout.once('error', onClosed)
  const release = (): void => {
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
    process.stdout.off('error', onClosed)
  }
  return { signal: stop.signal, release }
}

/** `usher demo`; resolves to the exit code when everything it started has ended. */
export const demo = async (options: OptionsOf<'demo'>): Promise<number> => {
  const io = processIo()
  const { signal, release } = untilSignal()
  try {
    return await runDemo({
      manifest: () => exampleManifest(manifest),
      startProxy: proxyOver(options),
      once: options.once,
      allOfLoopback: await answersOn('127.96.0.10'),
      screen: createScreen(io.out, io.colour),
      clock: systemClock,
      stop: signal,
      usher: usher(),
    })
  } finally {
    release()
  }
}
