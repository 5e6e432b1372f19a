import { isatty } from 'node:tty'
import { pino } from 'pino'
import type { DestinationStream } from 'pino'

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

/** A record is on its way to disk after so many milliseconds at the latest. */
const flushEveryMs = 1000

/** Beyond so many waiting bytes records are dropped: a stuck reader must not cost memory. */
const mostWaitingBytes = 16 * 1024 * 1024

/**
 * A destination that gathers lines, because a write per record would cost the data path
 * a system call each. pino itself flushes it when the process exits or dies of an
 * exception, and stays silent once the reader of a pipe has gone (EPIPE).
 */
const bufferedStdout = (): DestinationStream => {
  const destination = pino.destination({
    fd: stdout,
    sync: false,
    minLength: 4096,
    maxLength: mostWaitingBytes,
    periodicFlush: flushEveryMs,
  })
  let said = false
  const complain = (what: string): void => {
    if (said) return
    said = true
    process.stderr.write(`usher: log records are being lost: ${what}\n`)
  }
  // Without a listener a full disk (ENOSPC) would end the proxy for its log's sake.
  destination.on('error', (error: Error) => complain(error.message))
  destination.on('drop', () => complain('the reader of standard output is too slow'))
  return destination
}

/** Synchronous, so that nothing is lost at exit; people read it, programs don't. */
const prettyStream = async (
  out: DestinationStream | undefined,
): Promise<DestinationStream> => {
  const { prettyFactory } = await import('pino-pretty')
  const prettify = prettyFactory({
    colorize: out === undefined && isatty(stdout),
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  })
  const destination = out ?? pino.destination({ fd: stdout, sync: true })
  return { write: line => destination.write(prettify(line)) }
}

/** Makes the log. JSON has ISO time and the level as a word, one object per line. */
export const createLog = async (options: LogOptions): Promise<Log> => {
  const { level, format, stream } = options
  // Not process.stdout.isTTY: touching process.stdout makes a pipe non-blocking.
  const pretty =
    format === 'pretty' || (format === 'auto' && stream === undefined && isatty(stdout))
  const destination = pretty ? await prettyStream(stream) : (stream ?? bufferedStdout())
  const log: Log = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    destination,
  )
  return log
}
