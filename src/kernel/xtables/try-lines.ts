import { randomBytes } from 'node:crypto'
import { ToolError } from '../run-tool.ts'
import type { Backend } from './backend.ts'
import { explained } from './restore-error.ts'

export type Samples = Readonly<
  Partial<Record<'mangle' | 'filter' | 'nat', readonly string[]>>
>

/**
 * Puts rules into a chain of their own that no packet comes to, and takes them out again.
 * Rejects with ToolError when the kernel or the tool doesn't know one of them.
 */
export const tryLines = async (backend: Backend, samples: Samples): Promise<void> => {
  const name = `KUBE-USHER-PROBE-${randomBytes(4).toString('hex')}`
  const text = Object.entries(samples).map(([table, lines]) =>
    section(table, [`:${name} - [0:0]`, ...lines.map(line => `-A ${name} ${line}`)]),
  )
  const away = Object.keys(samples).map(table =>
    section(table, [`:${name} - [0:0]`, `-X ${name}`]),
  )
  try {
    await backend.restore(text.join(''), { counters: true })
  } catch (error) {
    // A table before the one that failed may have been written.
    for (const each of away) await backend.restore(each).catch(() => {})
    throw oneLine(explained(error, text.join('')))
  }
  await backend.restore(away.join(''))
}

/** Why a mode can't be had stands in one line of a log: of the input what it is about. */
const oneLine = (error: unknown): unknown => {
  if (!(error instanceof ToolError)) return error
  const [message = '', ...shown] = error.message.split('\n')
  const about = shown.find(line => line.startsWith('>'))
  if (about === undefined) return error
  return new ToolError(`${message} (${about.slice(2)})`, error.failure, error.stderr)
}

const section = (table: string, lines: readonly string[]): string =>
  `*${table}\n${lines.join('\n')}\nCOMMIT\n`

/**
 * Says nothing of what the kernel has, and may be gone the next time: somebody else has held
 * the lock for all the time that was waited, or has changed the same table meanwhile (EAGAIN
 * of the legacy back end).
 */
export const isBusy = ({ message, stderr }: ToolError): boolean =>
  /can't lock|xtables lock|resource temporarily unavailable/i.test(`${message} ${stderr}`)
