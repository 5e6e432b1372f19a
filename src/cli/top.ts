import * as v from 'valibot'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OptionsOf } from '../config/options.ts'
import { endpointsShape, type StatusOf, topShape } from '../observe/status.ts'
import { UsherError } from '../util/usher-error.ts'
import { askPorts, exitCodeOf } from './ask-usher.ts'
import { tableLines } from './text-table.ts'
import { isInNamespace, emptyReason } from './listings.ts'
import { type Io, printAll } from './io.ts'
import { endpointRows, headLine, type Snapshots, serviceRows } from './top-rows.ts'

type Options = OptionsOf<'top'>

/** Figures a second are of so long. */
const everyMs = 1000

/** `usher top`: 0, 1 when there is nothing yet to print once, 3 with the reason when there is no answer. */
export const top = (options: Options, io: Io): Promise<number> =>
  exitCodeOf('top', io, async () => {
    // Elsewhere there are no keys, and no screen to draw on again.
    if (options.once || !process.stdout.isTTY) await printOnce(options, io)
    else await showUntilQuit(options, io)
    return 0
  })

interface Snapshot {
  readonly status: StatusOf<Snapshots['after'][number]>
  readonly atMs: number
}

const withEndpoints = v.object({ ...topShape.entries, ...endpointsShape.entries })

/** Endpoints are asked for where they are shown: they are most of the answer. */
const takeSnapshot = async (
  options: Options,
  ofEndpoints: boolean,
): Promise<Snapshot> => {
  const status = ofEndpoints
    ? await askPorts(options, withEndpoints)
    : await askPorts(options, topShape)
  return { status, atMs: performance.now() }
}

const printOnce = async (options: Options, io: Io): Promise<void> => {
  const before = await takeSnapshot(options, false)
  await sleep(everyMs)
  const after = await takeSnapshot(options, false)
  const reason = emptyReason(after.status)
  if (reason !== '') throw new UsherError('NOT_FOUND', reason)
  const rows = serviceRows(snapshotsOf(before, after, options), options.sort)
  printAll(
    tableLines(rows, io.colour).map(line => `${line}\n`),
    io,
  )
}

const snapshotsOf = (
  before: Snapshot,
  after: Snapshot,
  { namespace }: Options,
): Snapshots => {
  const of = ({ status }: Snapshot): Snapshots['after'] =>
    status.servicePorts.filter(({ servicePort }) => isInNamespace(servicePort, namespace))
  const seconds = Math.max(after.atMs - before.atMs, 1) / 1000
  return { before: of(before), after: of(after), seconds }
}

const sortedByKey: Readonly<Record<string, Options['sort']>> = {
  n: 'new',
  a: 'active',
  f: 'failed',
  r: 'retries',
  b: 'bytes',
  s: 'name',
}

/** Terminals' control sequences (ECMA-48, xterm's alternate screen). */
const screen = {
  enter: '\u001B[?1049h\u001B[?25l',
  leave: '\u001B[?25h\u001B[?1049l',
  home: '\u001B[H',
  endOfLine: '\u001B[K',
  below: '\u001B[J',
} as const

/** On a screen of its own, which is left as it was; or until nobody reads it. */
const showUntilQuit = async (options: Options, io: Io): Promise<void> => {
  let { sort } = options
  let ofEndpoints = false
  const next = (): Promise<Snapshot> => takeSnapshot(options, ofEndpoints)
  let before = await next()
  let after = before
  const keys = keysPressed()
  io.out(screen.enter)
  try {
    for (;;) {
      const snapshots = snapshotsOf(before, after, options)
      const rows = ofEndpoints ? endpointRows(snapshots) : serviceRows(snapshots, sort)
      const by = ofEndpoints ? 'endpoints' : `by ${sort}`
      const keysHelp = `${by}; keys: n a f r b s sort, e endpoints, q ends`
      draw([headLine(after.status), keysHelp, ...tableLines(rows, io.colour)], io)
      const key = await keys.next(everyMs)
      if (io.gone.aborted) return
      if (key === 'q' || key === '\u0003') return
      if (key === 'e') ofEndpoints = !ofEndpoints
      sort = sortedByKey[key ?? ''] ?? sort
      if (key !== undefined && key !== 'e') continue
      if (key === undefined) before = after
      after = await next()
    }
  } finally {
    keys.close()
    io.out(screen.leave)
  }
}

const draw = (lines: readonly string[], { out, columns }: Io): void => {
  // A serial line has a size of 0 x 0.
  const [wide, high] = [columns || 80, process.stdout.rows || 24]
  const fitting = lines.slice(0, high - 1)
  const cut = (line: string): string => (line.length > wide ? line.slice(0, wide) : line)
  // Colours count as columns in a line that is cut: it ends a little early.
  const text = fitting.map(line => `${cut(line)}\u001B[0m${screen.endOfLine}\n`).join('')
  out(`${screen.home}${text}${screen.below}`)
}

/** Keys of standard input one by one, where that is a terminal; elsewhere nothing is ever pressed. */
const keysPressed = (input = process.stdin) => {
  const pressed: string[] = []
  let wake: (() => void) | undefined
  const onData = (keys: Buffer | string): void => {
    pressed.push(...Array.from(String(keys)))
    wake?.()
  }
  if (input.isTTY) {
    input.setRawMode(true)
    input.on('data', onData)
  }
  return {
    /** The next one; undefined when none is pressed within so many milliseconds. */
    next: async (withinMs: number): Promise<string | undefined> => {
      if (pressed.length === 0)
        await new Promise<void>(resolve => {
          const timer = setTimeout(resolve, withinMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      wake = undefined
      return pressed.shift()
    },
    close: (): void => {
      if (!input.isTTY) return
      input.setRawMode(false)
      input.off('data', onData)
      input.pause()
    },
  }
}
