import type { Log } from '../../src/observe/log.ts'

/** A log whose messages, without their fields, are put into `messages`. */
export const recordingLog = (messages: string[]): Log => {
  const write = (_fields: object, text: string) => void messages.push(text)
  const log: Log = {
    error: write,
    warn: write,
    info: write,
    debug: write,
    isLevelEnabled: () => true,
    child: () => log,
  }
  return log
}
