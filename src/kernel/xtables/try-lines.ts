import { randomBytes } from 'node:crypto'
import { ToolError } from '../run-tool.ts'
import { type Backend, isTaken } from './backend.ts'
import { explained } from './restore-error.ts'
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
