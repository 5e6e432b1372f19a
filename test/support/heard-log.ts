import type { Log } from '../../src/observe/log.ts'

/** A log whose messages, without their fields, are put into `said`. */
export const heardLog = (said: string[]): Log => {
  const say = (_fields: object, text: string) => void said.push(text)
  const log: Log = {
    error: say,
    warn: say,
    info: say,
    debug: say,
    isLevelEnabled: () => true,
    child: () => log,
  }
  return log
}
