import { randomBytes } from 'node:crypto'
import { ToolError } from '../run-tool.ts'
import { type Backend, isTaken } from './backend.ts'
import { tableText } from './restore-text.ts'

export type Samples = Readonly<
  Partial<Record<'mangle' | 'filter' | 'nat', readonly string[]>>
>

/**
 * Puts rules into a chain of their own that no packet comes to, and takes them out again.
 * Rejects with ToolError when the kernel or the tool doesn't know one of them.
 */
export const tryLines = async (backend: Backend, samples: Samples): Promise<void> => {
  const name = `KUBE-USHER-PROBE-${randomBytes(4).toString('hex')}`
  const [text, away]: [string[], string[]] = [[], []]
  for (const [table, lines] of Object.entries(samples)) {
    const tried = [...new Set(lines.map(withoutJump))].map(line => `-A ${name} ${line}`)
    text.push(await tableText(table, [name], tried))
    away.push(await tableText(table, [name], [`-X ${name}`]))
  }
  try {
    await backend.restore(text.join(''), { counters: true })
  } catch (error) {
    // A table before the one that failed may have been written.
    for (const each of away) await backend.restore(each).catch(() => {})
    throw oneLine(explained(error, text.join('')))
  }
  await backend.restore(away.join(''))
}

/** Why a mode does not work is one line of a log: of the input what it is about. */
const oneLine = (error: unknown): unknown => {
  if (!(error instanceof ToolError)) return error
  const [message = '', ...shown] = error.message.split('\n')
  const about = shown.find(line => line.startsWith('>'))
  if (about === undefined) return error
  return new ToolError(`${message} (${about.slice(2)})`, error.failure, error.stderr)
}

/** The chains that rules lead to need not be there. */
const withoutJump = (line: string): string => line.replace(/-j KUBE-\S+$/, '-j RETURN')

/** Whether the kernel and the tool know these rules. Rejects with ToolError when that can't be found out. */
export const takes = (backend: Backend, samples: Samples): Promise<boolean> =>
  isTaken(() => tryLines(backend, samples))

/** Lines shown before and after the one that failed. */
const around = 3
/** Of one line. */
const mostCharacters = 300

/**
 * Adds to an error of iptables-restore the lines of its input that it names. Any other
 * error is returned as it is.
 */
export const explained = (error: unknown, input: string): unknown => {
  if (!(error instanceof ToolError)) return error
  const reported = /(?:at line: |^line |: line )(\d+)/m.exec(error.stderr)
  if (reported === null) return error
  const number = Number(reported[1])
  const what = error.stderr.slice(reported.index).replace(/^: /, '').split('\n')[0] ?? ''
  const shown = linesAround(input, number).map(
    ([at, line]) =>
      `${at === number ? '>' : ' '} ${at}: ${line.slice(0, mostCharacters)}`,
  )
  if (shown.length === 0) return error
  const about = error.message.includes(what) ? '' : `: ${what}`
  const text = `${error.message}${about}\n${shown.join('\n')}`
  return new ToolError(text, error.failure, error.stderr)
}

const linesAround = (
  input: string,
  number: number,
): readonly (readonly [at: number, line: string])[] => {
  const shown: [number, string][] = []
  let start = 0
  for (let at = 1; at <= number + around && start < input.length; at++) {
    const found = input.indexOf('\n', start)
    const end = found < 0 ? input.length : found
    if (at >= number - around) shown.push([at, input.slice(start, end)])
    start = end + 1
  }
  return shown
}
