import { isatty } from 'node:tty'
import { type DestinationStream, pino } from 'pino'
import { LogOutput, writeStderr, withoutWaiting } from './log-output.ts'

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'

/** Fields of a record; an Error goes under `err`. Names and addresses belong here. */
export type LogFields = Readonly<Record<string, unknown>>

/** Where the rest of the code says what happens. `message` is the same text each time. */
export interface Log {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
  isLevelEnabled(level: LogLevel): boolean
  /** The same log with `fields` in every record. */
  child(fields: LogFields): Log
}

export interface LogOptions {
  readonly level: LogLevel
  /** `auto` is pretty when standard output is a terminal and JSON otherwise. */
  readonly format: 'json' | 'pretty' | 'auto'
  /** Where lines go instead of standard output. */
  readonly stream?: DestinationStream
}

const stdout = 1

/**
 * JSON is gathered, because a write per record would cost the data path a system call; but
 * not for long: people read along, and scripts wait for `serving`.
 */
const gatheredBytes = 4096
const flushEveryMs = 50
const mostWaitingBytes = 16 * 1024 * 1024

let shared: LogOutput | undefined

/** One for all that is written there: two would write into each other's lines. */
export const standardOutput = (gatherBytes = gatheredBytes): LogOutput => {
  if (shared !== undefined) return shared
  const output = new LogOutput({
    fd: withoutWaiting(stdout),
    gatherBytes,
    flushMs: flushEveryMs,
    mostWaitingBytes,
    complain: what => writeStderr(`usher: log records are being lost: ${what}\n`),
  })
  process.on('exit', () => output.end())
  shared = output
  return output
}

/** People read it, programs don't. */
const prettyStream = async (
  out: DestinationStream | undefined,
): Promise<DestinationStream> => {
  const { prettyFactory } = await import('pino-pretty')
  const prettify = prettyFactory({
    colorize: out === undefined && isatty(stdout),
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  })
  const destination = out ?? standardOutput(0)
  return { write: line => destination.write(prettify(line)) }
}

/** Makes the log. JSON has ISO time and the level as a word, one object per line. */
export const createLog = async (options: LogOptions): Promise<Log> => {
  const { level, format, stream } = options
  // Not process.stdout.isTTY: touching process.stdout makes a pipe non-blocking.
  const pretty =
    format === 'pretty' || (format === 'auto' && stream === undefined && isatty(stdout))
  const destination = pretty ? await prettyStream(stream) : (stream ?? standardOutput())
  const log: Log = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    destination,
  )
  if (stream !== undefined) return log
  // Node would write them as text beside the records.
  process.removeAllListeners('warning')
  process.on('warning', ({ name, stack }) => log.warn({ name, stack }, 'Node.js warning'))
  return log
}
