const pad = (value: number, digits = 2): string => String(value).padStart(digits, '0')

/** The text of the second that was asked for last is kept: a date costs as much as a line. */
const bySecond = (text: (date: Date) => string, end: string) => {
  let known = Number.NaN
  let start = ''
  return (ms: number): string => {
    const whole = Math.floor(ms)
    const second = Math.floor(whole / 1000)
    if (second !== known) {
      known = second
      start = text(new Date(second * 1000))
    }
    return start + pad(whole - second * 1000, 3) + end
  }
}

/** `2026-11-23T20:15:32.123Z` (RFC 3339) of epoch milliseconds. */
export const utcText = (): ((ms: number) => string) =>
  bySecond(date => date.toISOString().slice(0, 20), 'Z')

const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')

/** `23/Nov/2026:20:15:32.123` in the local time, as HAProxy has it. */
export const localText = (): ((ms: number) => string) =>
  bySecond(
    date =>
      `${pad(date.getDate())}/${months[date.getMonth()]}/${date.getFullYear()}:${timeOf(date)}.`,
    '',
  )

/** `Nov 23 20:15:32` in the local time, as syslog has it (RFC 3164). */
export const syslogText = (ms: number): string => {
  const date = new Date(ms)
  return `${months[date.getMonth()]} ${String(date.getDate()).padStart(2)} ${timeOf(date)}`
}

const timeOf = (date: Date): string =>
  `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`
